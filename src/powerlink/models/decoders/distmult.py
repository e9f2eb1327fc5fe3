"""DistMult (Yang et al., 2015): a three-way product."""

from __future__ import annotations

from torch import Tensor, nn

from powerlink.kernels.dense_product import dense_product


class DistMult(nn.Module):
    """Σ h·r·t."""

    uses_bias = True

    def first_scale(self, width: int, num_entities: int) -> float:
        """Return how large an untrained encoder's vectors should be: small relations keep logits small as it is."""
        return 1.0

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return what is matched with tails: (n, d)."""
        return head * relation

    def match(self, query: Tensor, tail: Tensor) -> Tensor:
        """Score one tail per query: (n,)."""
        return (query * tail).sum(-1)

    def match_all(self, query: Tensor, tails: Tensor) -> Tensor:
        """Score every tail (N, d) for each query (n, d): (n, N)."""
        return dense_product(query, tails.t())
