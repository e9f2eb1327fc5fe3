"""What the columns of a table are, how a text file lays them out, and where exactly one fails to."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_LINE_END = r"\r\n|\r|\n"  # what the fast reader knows; str.splitlines also splits at U+2028
_SHOWN = 60  # characters of a bad line that are quoted back


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


def find_fault(data: bytes, layout: Layout, shape: TextShape) -> str | None:
    """Return `line N: what is wrong; what was expected` for the first bad line, or None when all are good.

    This slow look at every line is taken only after the fast reader gave up.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = len(re.findall(_LINE_END.encode(), data[: error.start])) + 1
        return f"line {line}: byte 0x{data[error.start]:02x} is not UTF-8; expected UTF-8 text"
    try:
        for line, fields in _records(text, shape):
            if fault := _fault_in(fields, layout, shape):
                return f"line {line}: {fault}"
    except csv.Error as error:
        return f"the quoting cannot be read ({error}); expected comma-separated {layout}"
    return None


def _records(text: str, shape: TextShape) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each record, and the line that it begins in."""
    if not shape.quoted:
        for number, line in enumerate(re.split(_LINE_END, text), start=1):
            yield number, line.split(shape.delimiter)
        return
    reader = csv.reader(io.StringIO(text, newline=""))
    number = 1
    for fields in reader:
        yield number, fields
        number = reader.line_num + 1


def _fault_in(fields: list[str], layout: Layout, shape: TextShape) -> str | None:
    line = shape.delimiter.join(fields)
    if not line.strip():
        return f"the line is blank; expected {layout}"
    if len(fields) != shape.width:
        found = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
        quoted = line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
        as_first = shape.width != len(layout.columns)
        expected = f"{shape.width} columns, as in the first line" if as_first else str(layout)
        return f"{found} found in {quoted!r}; expected {expected}"
    for name, position in zip(layout.columns[: layout.required], shape.chosen, strict=False):
        if not fields[position]:
            return f"{name} is missing; expected {layout}"
    return None
