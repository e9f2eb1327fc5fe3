"""Where exactly a text file is wrong: a slow look at every line, taken only after the fast reader gave up."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from powerlink.kg.layout import Layout, TextShape

_LINE_END = r"\r\n|\r|\n"  # what the fast reader knows; str.splitlines also splits at U+2028
_SHOWN = 60  # characters of a bad line that are quoted back


def find_fault(data: bytes, layout: Layout, shape: TextShape) -> str | None:
    """Return `line N: what is wrong; what was expected` for the first bad line, or None when all are good."""
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
