"""DistMult (Yang et al., 2015): a three-way product."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from powerlink.kernels.dense_product import dense_product
from powerlink.models.decoders.decoder import Decoder
from powerlink.models.part import DistMultSettings, PartSettings


class DistMult(Decoder):
    """Σ h·r·t."""

    Settings: ClassVar[type[PartSettings]] = DistMultSettings

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        return head * relation

    def match(self, query: Tensor, tail: Tensor) -> Tensor:
        return (query * tail).sum(-1)

    def match_all(self, query: Tensor, tails: Tensor) -> Tensor:
        return dense_product(query, tails.t())
