"""TransE (Bordes et al., 2013): a relation is a translation."""

from __future__ import annotations

import math

from torch import Tensor, nn

from powerlink.kernels.l1_distance import l1_distance


class TransE(nn.Module):
    """margin − ‖h + r − t‖₁."""

    uses_bias = False

    def __init__(self, margin: float = 9.0) -> None:
        super().__init__()
        self.margin = margin

    def first_scale(self, width: int, num_entities: int) -> float:
        """Return how large an untrained encoder's vectors should be: two of them as far apart as is right once in N."""
        apart = 2 / math.sqrt(math.pi)  # mean difference of two normal numbers of size 1
        return min(1.0, (self.margin + math.log(num_entities)) / (apart * width))

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return where the tail should lie: (n, d)."""
        return head + relation

    def match(self, query: Tensor, tail: Tensor) -> Tensor:
        """Score one tail per query: (n,)."""
        return self.margin - (query - tail).abs().sum(-1)

    def match_all(self, query: Tensor, tails: Tensor) -> Tensor:
        """Score every tail (N, d) for each query (n, d) without an n × N × d tensor: (n, N)."""
        return self.margin - l1_distance(query, tails)
