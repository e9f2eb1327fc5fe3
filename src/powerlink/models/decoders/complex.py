"""ComplEx (Trouillon et al., 2016): a product of complex numbers; a vector's halves are real and imaginary."""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.models.decoders.distmult import DistMult
from powerlink.models.part import ComplExSettings, check_even


class ComplEx(DistMult):
    """Re Σ h·r·t̄."""

    Settings = ComplExSettings

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        return complex_product(head, *relation.chunk(2, dim=-1))


def complex_product(one: Tensor, real: Tensor, imaginary: Tensor) -> Tensor:
    """Multiply complex numbers (n, d) with others, given in parts (n, d/2): (n, d)."""
    check_even(one.size(-1))
    a, b = one.chunk(2, dim=-1)
    return torch.cat([a * real - b * imaginary, a * imaginary + b * real], dim=-1)
