"""What the columns of a file of facts, or of labels, are and how a text file lays them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """Which columns a file must have, and the header lines that name them."""

    columns: tuple[str, ...]
    headers: tuple[tuple[str, ...], ...]  # each in the order of `columns`
    required: int  # this many leading columns may not be empty
    more_columns: bool = False  # whether a file without a header may have further columns

    def header_positions(self, fields: Sequence[str]) -> tuple[int, ...] | None:
        """Return where each column stands when `fields` is a header line, else None."""
        folded = [field.strip().casefold() for field in fields]
        for header in self.headers:
            if all(folded.count(column) == 1 for column in header):
                return tuple(folded.index(column) for column in header)
        return None

    def width(self, found: int) -> int:
        """Return how many columns every line must have if the first has `found`."""
        needed = len(self.columns)
        return max(needed, found) if self.more_columns else needed

    def __str__(self) -> str:
        return f"{len(self.columns)} columns ({', '.join(self.columns)})"


@dataclass(frozen=True)
class TextShape:
    """How a delimited text is laid out: its columns, those wanted, and whether a header leads it."""

    delimiter: str
    width: int
    chosen: Sequence[int]
    header: bool = False

    @property
    def quoted(self) -> bool:
        return self.delimiter == ","


_FACT = ("head", "relation", "tail")
FACTS = Layout(_FACT, (_FACT, ("subject", "predicate", "object"), ("source", "relation", "target")), required=3)
LABELS = Layout(
    ("id", "label"),
    headers=(("id", "label"), ("id", "name"), ("entity", "label"), ("relation", "label")),
    required=1,
    more_columns=True,
)
