"""ComplEx (Trouillon et al., 2016): a product of complex numbers; a vector's halves are real and imaginary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.models.decoders.distmult import DistMult
from powerlink.models.part import PartSettings


class ComplEx(DistMult):
    """Re Σ h·r·t̄."""

    @dataclass(frozen=True, kw_only=True)
    class Settings(PartSettings):
        name: str = field(default="complex", init=False)

        def fitted(self, widths: tuple[int, ...]) -> Self:
            """Refuse vectors that have no two halves."""
            check_even(widths[-1])
            return self

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        return complex_product(head, *relation.chunk(2, dim=-1))


def complex_product(one: Tensor, real: Tensor, imaginary: Tensor) -> Tensor:
    """Multiply complex numbers (n, d) with others, given in parts (n, d/2): (n, d)."""
    check_even(one.size(-1))
    a, b = one.chunk(2, dim=-1)
    return torch.cat([a * real - b * imaginary, a * imaginary + b * real], dim=-1)


def check_even(width: int) -> None:
    if width % 2:
        raise SettingsError(f"a complex vector's halves are real and imaginary: its width must be even, not {width}")
