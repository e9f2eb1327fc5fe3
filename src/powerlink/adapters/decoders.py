"""Decoders for encoders from elsewhere: modules that score vectors of head, relation and tail, (n, d) each → (n,).

PyG's own `nn.kge` models look vectors up in tables of theirs, so they cannot read what an encoder made.
"""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.models import decoders

__all__ = ["ComplEx", "ConvE", "DistMult", "RotatE", "TransE"]


class DistMult(decoders.DistMult):
    """Σ h·r·t."""

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score triples of vectors: (n,)."""
        return self.match(self.query(head, relation), tail)


class TransE(decoders.TransE):
    """margin − ‖h + r − t‖₁."""

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score triples of vectors: (n,)."""
        return self.match(self.query(head, relation), tail)


class ConvE(decoders.ConvE):
    """vec(relu(conv([h; r]))) W · t."""

    def __init__(
        self,
        width: int,
        *,
        filters: int = 32,
        kernel: int = 3,
        image: tuple[int, int] | None = None,
        interleave: bool = True,
        input_dropout: float = 0.2,
        feature_dropout: float = 0.2,
        hidden_dropout: float = 0.3,
    ) -> None:
        super().__init__(
            width,
            filters=filters,
            kernel=kernel,
            image=image,
            interleave=interleave,
            input_dropout=input_dropout,
            feature_dropout=feature_dropout,
            hidden_dropout=hidden_dropout,
        )

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score triples of vectors: (n,)."""
        return self.match(self.query(head, relation), tail)


class ComplEx(DistMult):
    """Re Σ h·r·t̄ (Trouillon et al., 2016); a vector's first half is real, its second imaginary."""

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return what is matched with tails: (n, d)."""
        (a, b), (c, d) = head.chunk(2, dim=-1), relation.chunk(2, dim=-1)
        return torch.cat([a * c - b * d, a * d + b * c], dim=-1)


class RotatE(TransE):
    """margin − Σ |h·e^(iθ) − t| (Sun et al., 2019); a relation is d/2 angles, a node's halves real and imaginary."""

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return where the tail should lie: (n, d)."""
        a, b = head.chunk(2, dim=-1)
        c, d = relation.cos(), relation.sin()
        return torch.cat([a * c - b * d, a * d + b * c], dim=-1)

    def match(self, query: Tensor, tail: Tensor) -> Tensor:
        """Score one tail per query: (n,)."""
        real, imaginary = (query - tail).chunk(2, dim=-1)
        square = real.square() + imaginary.square()
        # √0 has an infinite slope
        return self.margin - square.clamp(min=torch.finfo(square.dtype).tiny).sqrt().sum(-1)

    def match_all(self, query: Tensor, tails: Tensor) -> Tensor:
        """Score every tail (N, d) for each query (n, d): (n, N)."""
        rows = [self.match(one, tails) for one in query]
        return torch.stack(rows) if rows else query.new_zeros(0, tails.size(0))
