"""One file of facts or labels as columns of text: fast when it is good, precise when it is not."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from powerlink.errors import DataError
from powerlink.kg.faults import find_fault
from powerlink.kg.layout import FACTS, Layout, TextShape

TABLE_FORMATS = (".tsv", ".txt", ".csv", ".parquet")
_TEXT = pa.dictionary(pa.int32(), pa.string())
_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 24  # bytes; also the longest line that can be read


def file_format(path: Path) -> str:
    """Return the suffix that says how a file is written, with `.gz` looked through."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def read_bytes(path: Path) -> bytes:
    """Return a file's content, unpacked when it is a .gz."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.name.lower().endswith(".gz") else data
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is not a whole gzip file ({error}); copy or pack it again") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def read_columns(path: Path, layout: Layout) -> list[pa.DictionaryArray]:
    """Return the layout's columns as dictionary-encoded text, one entry per line of the file."""
    kind = file_format(path)
    if kind == ".parquet":
        return _parquet_columns(path, layout)
    data = read_bytes(path).removeprefix(_BOM).rstrip(b"\r\n")
    if not data:
        raise DataError(f"{path} is empty; expected lines of {layout}")
    if kind == ".csv":
        return _csv_columns(path, data, layout)
    needed = len(layout.columns)
    if kind == ".txt" and b"\t" not in _first_line(data):
        if layout is FACTS and b"\t" not in data:
            with contextlib.suppress(DataError):  # single blanks need no rewriting, which is ten times slower
                return _parsed(path, data, layout, TextShape(" ", needed, tuple(range(needed))))
        data = _tabs_for_spaces(data, layout)
    width = max(needed, _first_line(data).count(b"\t") + 1) if layout.more_columns else needed
    return _parsed(path, data, layout, TextShape("\t", width, tuple(range(needed))))


def _first_line(data: bytes) -> bytes:
    end = re.search(rb"[\r\n]", data)
    return data[: end.start()] if end else data


def _tabs_for_spaces(data: bytes, layout: Layout) -> bytes:
    """Separate by tabs what was separated by runs of blanks; the last column of labels keeps its blanks."""
    trimmed = re.sub(rb"[ \t]+(?=[\r\n]|\Z)|(?:(?<=[\r\n])|\A)[ \t]+", b"", data)
    if layout.more_columns:
        return re.sub(rb"(?m)^([^ \t\r\n]+)[ \t]+", rb"\1\t", trimmed)
    return re.sub(rb"[ \t]+", b"\t", trimmed)


def _csv_columns(path: Path, data: bytes, layout: Layout) -> list[pa.DictionaryArray]:
    try:
        fields = next(csv.reader(io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="")))
    except (UnicodeDecodeError, csv.Error):
        fields = []  # whatever is wrong is wrong for the scan below as well
    positions = layout.header_positions(fields)
    width = len(fields) if positions or layout.width_fits(len(fields)) else len(layout.columns)
    chosen = positions or tuple(range(len(layout.columns)))
    shape = TextShape(",", width, chosen, header=positions is not None)
    return _parsed(path, data + b"\n", layout, shape)  # a lone header counts as a line only when it ends


def _parsed(path: Path, data: bytes, layout: Layout, shape: TextShape) -> list[pa.DictionaryArray]:
    """Parse delimited text; on any failure a slow scan finds the line to name."""
    names = [str(i) for i in range(shape.width)]
    try:
        table = pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(
                column_names=names, skip_rows_after_names=int(shape.header), block_size=_BLOCK
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=shape.delimiter,
                quote_char='"' if shape.quoted else False,
                double_quote=shape.quoted,
                newlines_in_values=shape.quoted,
                ignore_empty_lines=False,
            ),
            convert_options=pacsv.ConvertOptions(
                include_columns=[names[i] for i in shape.chosen],
                column_types=dict.fromkeys(names, _TEXT),
                strings_can_be_null=False,
            ),
        )
        columns = [column.unify_dictionaries().combine_chunks() for column in table.columns]
        reason = "a field is empty" if any(map(_has_blank, columns[: layout.required])) else None
    except pa.ArrowInvalid as error:
        columns, reason = [], str(error).splitlines()[0]
        if "straddl" in reason:
            reason = f"a line is longer than {_BLOCK >> 20} MB"
    if reason:
        fault = find_fault(data, layout, shape)
        raise DataError(f"{path}, {fault}" if fault else f"{path} cannot be read: {reason}")
    return columns


def _has_blank(column: pa.DictionaryArray) -> bool:
    return bool(pc.index(column.dictionary, "").as_py() >= 0)


def _parquet_columns(path: Path, layout: Layout) -> list[pa.DictionaryArray]:
    data = read_bytes(path)
    if not data:
        raise DataError(f"{path} is empty; expected a parquet file with {layout}")
    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is not a whole parquet file ({str(error).splitlines()[0]})") from None
    chosen = layout.header_positions(table.column_names) or range(len(layout.columns))
    if table.num_columns < len(layout.columns):
        found = ", ".join(table.column_names)
        raise DataError(f"{path} has {table.num_columns} columns ({found}); expected {layout}")
    columns = []
    for place, position in enumerate(chosen):
        column = table.column(position)
        try:
            text = pc.cast(column, pa.string()).fill_null("").combine_chunks()
            text.validate(full=True)  # parquet does not promise that its text is UTF-8
        except (pa.ArrowException, NotImplementedError):
            what = f"{path}: column {table.column_names[position]!r} of type {column.type}"
            raise DataError(f"{what} cannot be read as text; expected UTF-8 text or whole numbers") from None
        blank = pc.index(text, "").as_py()
        if place < layout.required and blank >= 0:
            raise DataError(f"{path}, row {blank + 1}: {layout.columns[place]} is missing; expected {layout}")
        columns.append(text.dictionary_encode())
    return columns
