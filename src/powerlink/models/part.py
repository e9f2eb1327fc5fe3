"""The settings of the encoders and the decoders.

They stand apart from the parts, which load torch: a command line tells its flags without.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, Self, get_args

from powerlink.errors import SettingsError
from powerlink.settings import check_settings, setting

Composition = Literal["mult", "sub", "corr"]


@dataclass(frozen=True, kw_only=True)
class PartSettings:
    """What may be set of a part of a model; each part has its own kind, with the part's name for a default."""

    name: str = field(default="", init=False)

    def __post_init__(self) -> None:
        check_settings(self)

    def fitted(self, widths: tuple[int, ...]) -> Self:
        """Settle what follows from the widths of the vectors, or refuse them."""
        return self


@dataclass(frozen=True, kw_only=True)
class TableSettings(PartSettings):
    name: str = field(default="none", init=False)

    def fitted(self, widths: tuple[int, ...]) -> Self:
        """Refuse layers."""
        if len(widths) != 1:
            raise SettingsError(f"a model without an encoder has one width and no layers, not the widths {widths}")
        return self


@dataclass(frozen=True, kw_only=True)
class LayeredSettings(PartSettings):
    """What all encoders of ours with layers have."""

    layer_dropout: float = setting(0.1, "dropout in every layer", least=0, most=1)

    def fitted(self, widths: tuple[int, ...]) -> Self:
        """Refuse what has no layer."""
        if len(widths) < 2:
            raise SettingsError(f"{self.name} needs at least one layer: two widths or more, not {widths}")
        return self


@dataclass(frozen=True, kw_only=True)
class RGCNSettings(LayeredSettings):
    name: str = field(default="rgcn", init=False)
    blocks: int | None = setting(None, "blocks of each relation's matrix, which must divide all widths", least=1)

    def fitted(self, widths: tuple[int, ...]) -> Self:
        """Settle the blocks: unless said otherwise as many, up to 5, as divide the widths."""
        super().fitted(widths)
        if self.blocks is None:
            return replace(self, blocks=max(n for n in range(1, 6) if math.gcd(*widths) % n == 0))
        if any(width % self.blocks for width in widths):
            raise SettingsError(f"RGCN's widths {widths} must divide by its number of blocks, {self.blocks}")
        return self


@dataclass(frozen=True, kw_only=True)
class WGCNSettings(LayeredSettings):
    name: str = field(default="wgcn", init=False)
    self_loop: bool = setting(False, "a node hears itself")
    degree_norm: bool = setting(False, "messages times 1/√(deg(source)·deg(target)), as in the other two")
    first_relation_weight: float = setting(1.0, "what every relation's weight begins at")


@dataclass(frozen=True, kw_only=True)
class CompGCNSettings(LayeredSettings):
    name: str = field(default="compgcn", init=False)
    composition: Composition = setting(
        "mult", "how a neighbour and a relation make a message", among=get_args(Composition)
    )
    layer_bias: bool = setting(False, "a bias in every layer")


@dataclass(frozen=True, kw_only=True)
class TransESettings(PartSettings):
    name: str = field(default="transe", init=False)
    margin: float = setting(9.0, "the score of a triple without distance")


@dataclass(frozen=True, kw_only=True)
class DistMultSettings(PartSettings):
    name: str = field(default="distmult", init=False)


@dataclass(frozen=True, kw_only=True)
class ConvESettings(PartSettings):
    name: str = field(default="conve", init=False)
    filters: int = setting(200, "how many filters", least=1)
    kernel: int = setting(7, "their height and width", least=1)
    image: tuple[int, int] | None = setting(None, "rows and columns of one vector")
    interleave: bool = setting(True, "head's and relation's numbers in turn, not one image above the other")
    input_dropout: float = setting(0.2, "dropout on the image", least=0, most=1)
    feature_dropout: float = setting(0.2, "dropout on the filters' maps", least=0, most=1)
    hidden_dropout: float = setting(0.3, "dropout on the projection", least=0, most=1)

    def fitted(self, widths: tuple[int, ...]) -> Self:
        """Refuse an image that does not hold a vector."""
        rows, columns = self.image or squarest_image(widths[-1])
        if rows * columns != widths[-1]:
            raise SettingsError(f"ConvE's image {rows}×{columns} does not hold vectors of width {widths[-1]}")
        return self


@dataclass(frozen=True, kw_only=True)
class ComplExSettings(PartSettings):
    name: str = field(default="complex", init=False)

    def fitted(self, widths: tuple[int, ...]) -> Self:
        """Refuse vectors that have no two halves."""
        check_even(widths[-1])
        return self


@dataclass(frozen=True, kw_only=True)
class RotatESettings(TransESettings, ComplExSettings):
    name: str = field(default="rotate", init=False)


ENCODER_SETTINGS = (RGCNSettings, WGCNSettings, CompGCNSettings, TableSettings)
DECODER_SETTINGS = (TransESettings, DistMultSettings, ConvESettings, ComplExSettings, RotatESettings)


def squarest_image(width: int) -> tuple[int, int]:
    """Fold a vector into the most nearly square image, taller side last."""
    rows = next(r for r in range(math.isqrt(width), 0, -1) if width % r == 0)
    return rows, width // rows


def check_even(width: int) -> None:
    if width % 2:
        raise SettingsError(f"a complex vector's halves are real and imaginary: its width must be even, not {width}")
