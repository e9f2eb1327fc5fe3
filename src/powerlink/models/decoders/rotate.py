"""RotatE (Sun et al., 2019): a relation turns complex numbers; a vector's halves are real and imaginary."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from powerlink.kernels.complex_distance import complex_distance
from powerlink.models.decoders.complex import complex_product
from powerlink.models.decoders.transe import TransE
from powerlink.models.part import RotatESettings


class RotatE(TransE):
    """margin − Σ |h·e^(iθ) − t|; the angles are the first d/2 numbers of a relation, in half turns."""

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
