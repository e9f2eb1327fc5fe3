"""Decoders without weights of their own: products and distances of vectors."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from powerlink.kernels.dense_product import dense_product
from powerlink.kernels.distances import complex_distance, l1_distance
from powerlink.models.decoders.decoder import Decoder
from powerlink.models.part import (
    ComplExSettings,
    DistMultSettings,
    PartSettings,
    RotatESettings,
    TransESettings,
    check_even,
)


class DistMult(Decoder):
    """Σ h·r·t (Yang et al., 2015)."""

    Settings: ClassVar[type[PartSettings]] = DistMultSettings

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        return head * relation

    def match(self, query: Tensor, tail: Tensor) -> Tensor:
        return (query * tail).sum(-1)

    def match_all(self, query: Tensor, tails: Tensor) -> Tensor:
        return dense_product(query, tails.t())


class ComplEx(DistMult):
    """Re Σ h·r·t̄ (Trouillon et al., 2016), DistMult of complex numbers; a vector's halves are real and imaginary."""

    Settings = ComplExSettings

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        return complex_product(head, *relation.chunk(2, dim=-1))


class TransE(Decoder):
    """margin − ‖h + r − t‖₁ (Bordes et al., 2013): a relation is a translation."""

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


class RotatE(TransE):
    """margin − Σ |h·e^(iθ) − t| (Sun et al., 2019): a relation turns complex numbers.

    The angles are the first d/2 numbers of a relation, in half turns; a node's halves are real and imaginary.
    """

    Settings = RotatESettings

    angle_of_one = math.pi  # learned numbers are small, and angles reach all around
    apart = math.sqrt(math.pi) / 2  # √π of each of d/2 complex numbers

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return where the tail should lie: (n, d)."""
        angle = self.angle_of_one * relation[..., : head.size(-1) // 2]
        return complex_product(head, angle.cos(), angle.sin())

    def match(self, query: Tensor, tail: Tensor) -> Tensor:
        real, imaginary = (query - tail).chunk(2, dim=-1)
        square = real.square() + imaginary.square()
        # √0 has an infinite slope
        return self.margin - square.clamp(min=torch.finfo(square.dtype).tiny).sqrt().sum(-1)

    def match_all(self, query: Tensor, tails: Tensor) -> Tensor:
        return self.margin - complex_distance(query, tails)


def complex_product(one: Tensor, real: Tensor, imaginary: Tensor) -> Tensor:
    """Multiply complex numbers (n, d) with others, given in parts (n, d/2): (n, d)."""
    check_even(one.size(-1))
    a, b = one.chunk(2, dim=-1)
    return torch.cat([a * real - b * imaginary, a * imaginary + b * real], dim=-1)
