"""Where exactly a text file is wrong: a slow look at every line, taken only after the fast reader gave up."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from powerlink.kg.layout import Layout, TextShape

_SHOWN = 60  # characters of a bad line that are quoted back


def find_fault(data: bytes, layout: Layout, shape: TextShape) -> str | None:
    """Return `line N: what is wrong; what was expected` for the first bad line, or None when all are good."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = len(re.findall(rb"\r\n|\r|\n", data[: error.start])) + 1
        return f"line {line}: byte 0x{data[error.start]:02x} is not UTF-8; expected UTF-8 text"
    try:
        for line, fields in _csv_records(text) if shape.quoted else _tab_records(data):
            if fault := _fault_in(fields, layout, shape):
                return f"line {line}: {fault}"
    except csv.Error as error:
        return f"the quoting cannot be read ({error}); expected comma-separated {layout}"
    return None


def _fault_in(fields: list[str], layout: Layout, shape: TextShape) -> str | None:
    line = shape.delimiter.join(fields)
    if not line.strip():
        return f"the line is blank; expected {layout}"
    if len(fields) != shape.width:
        as_first = shape.width != len(layout.columns)
        expected = f"{shape.width} columns, as in the first line" if as_first else str(layout)
        return f"{_columns(len(fields))} found in {_shortened(line)!r}; expected {expected}"
    for place, position in enumerate(shape.chosen[: layout.required]):
        if not fields[position]:
            return f"{layout.columns[place]} is missing; expected {layout}"
    return None


def _shortened(line: str) -> str:
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _tab_records(data: bytes) -> Iterator[tuple[int, list[str]]]:
    # bytes.splitlines knows \n, \r and \r\n only, like the fast reader; str.splitlines also splits at U+2028.
    for line, content in enumerate(data.splitlines(), start=1):
        yield line, content.decode("utf-8").split("\t")


def _csv_records(text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""))
    line = 1
    for fields in reader:
        yield line, fields
        line = reader.line_num + 1
