"""TransE (Bordes et al., 2013): a relation is a translation."""

from __future__ import annotations

import math

from torch import Tensor

from powerlink.kernels.l1_distance import l1_distance
from powerlink.models.decoders.decoder import Decoder
from powerlink.models.part import TransESettings


class TransE(Decoder):
    """margin − ‖h + r − t‖₁."""

    Settings = TransESettings

    measures_distance = True
    apart = 2 / math.sqrt(math.pi)  # a number of the vectors' share in the distance of two normal ones of size 1

    def __init__(self, settings: TransESettings, width: int = 0) -> None:
        super().__init__()
        self.margin = settings.margin

    def first_scale(self, width: int, num_entities: int) -> float:
        """Return how large an untrained encoder's vectors should be: two of them as far apart as is right once in N."""
        return min(1.0, (self.margin + math.log(num_entities)) / (self.apart * width))

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return where the tail should lie: (n, d)."""
        return head + relation

    def match(self, query: Tensor, tail: Tensor) -> Tensor:
        return self.margin - (query - tail).abs().sum(-1)

    def match_all(self, query: Tensor, tails: Tensor) -> Tensor:
        return self.margin - l1_distance(query, tails)
