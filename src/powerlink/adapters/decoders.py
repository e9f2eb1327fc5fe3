"""Decoders for encoders from elsewhere: modules that score vectors of head, relation and tail, (n, d) each → (n,).

PyG's own `nn.kge` models look vectors up in tables of theirs, so they cannot read what an encoder made.
"""

from __future__ import annotations

from typing import Any

from powerlink.models import decoders
from powerlink.models.decoders import ComplEx, DistMult

__all__ = ["ComplEx", "ConvE", "DistMult", "RotatE", "TransE"]


class TransE(decoders.TransE):
    """margin − ‖h + r − t‖₁."""

    def __init__(self, margin: float = 9.0) -> None:
        super().__init__(decoders.TransE.Settings(margin=margin))


class RotatE(decoders.RotatE):
    """margin − Σ |h·e^(iθ) − t|; a relation is d/2 angles, a node's halves real and imaginary."""

    angle_of_one = 1.0

    def __init__(self, margin: float = 9.0) -> None:
        super().__init__(decoders.RotatE.Settings(margin=margin))


class ConvE(decoders.ConvE):
    """vec(relu(conv([h; r]))) W · t, of smaller layers unless said otherwise."""

    def __init__(self, width: int, *, filters: int = 32, kernel: int = 3, **others: Any) -> None:
        super().__init__(decoders.ConvE.Settings(filters=filters, kernel=kernel, **others), width)
