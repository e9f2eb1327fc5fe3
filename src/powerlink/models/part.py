"""The settings of an encoder or a decoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from powerlink.settings import check_settings


@dataclass(frozen=True, kw_only=True)
class PartSettings:
    """What may be set of a part of a model; each part has its own kind, with the part's name for a default."""

    name: str = field(default="", init=False)

    def __post_init__(self) -> None:
        check_settings(self)

    def fitted(self, widths: tuple[int, ...]) -> Self:
        """Settle what follows from the widths of the vectors, or refuse them."""
        return self
