"""What every decoder does: it makes a query vector of head and relation, and matches it with tails."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from powerlink.models.part import PartSettings


class Decoder(nn.Module):
    """From the vectors of head, relation and tail to a logit."""

    Settings: ClassVar[type[PartSettings]]
    measures_distance: ClassVar[bool] = False  # its logits are a margin less a distance, and have no bias of the tail

    def __init__(self, settings: PartSettings | None = None, width: int = 0) -> None:
        super().__init__()

    @classmethod
    def numbers_per_query(cls, settings: PartSettings, width: int) -> int:
        """Return about how many numbers a step that learns holds for one query: a plan asks before anything is made."""
        return 4 * width

    def first_scale(self, width: int, num_entities: int) -> float:
        """Return how large an untrained encoder's vectors should be: small relations keep logits small as it is."""
        return 1.0

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return what is matched with tails: (n, d)."""
        raise NotImplementedError

    def match(self, query: Tensor, tail: Tensor) -> Tensor:
        """Score one tail per query: (n,)."""
        raise NotImplementedError

    def match_all(self, query: Tensor, tails: Tensor) -> Tensor:
        """Score every tail (N, d) for each query (n, d): (n, N)."""
        raise NotImplementedError

    def forward(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score triples of vectors: (n,)."""
        return self.match(self.query(head, relation), tail)
