"""One file of facts or labels as columns of text: fast when it is good, precise when it is not."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from powerlink.errors import DataError
from powerlink.kg.layout import Layout, TextShape, find_fault

TABLE_FORMATS = (".tsv", ".txt", ".csv", ".parquet")
_LINES = (".tsv", ".txt")  # formats without header lines, a row a line
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


def line_of(path: Path, place: int) -> str:
    """Name where the row `place` of a table stands: its line, where rows are lines."""
    return f"{path}, {'line' if file_format(path) in _LINES else 'row'} {place + 1}"


def table_in(folder: Path, *stems: str) -> Path | None:
    """Return the one table in the folder with one of these stems, or None."""
    wanted = {f"{stem}{kind}{gz}" for stem in stems for kind in TABLE_FORMATS for gz in ("", ".gz")}
    found = [entry for entry in entries(folder) if {entry.name, entry.name.lower()} & wanted and entry.is_file()]
    if len(found) > 1:
        listed = " and ".join(entry.name for entry in found)
        raise DataError(f"{folder} holds {listed}; expected one file of {stems[0]}, so remove the other")
    return found[0] if found else None


def entries(folder: Path) -> list[Path]:
    """Return what a folder holds, in the order of the names."""
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}") from None


def read_columns(path: Path, layout: Layout) -> list[pa.DictionaryArray]:
    """Return the layout's columns as dictionary-encoded text, one entry per line of the file."""
    kind = file_format(path)
    if kind == ".parquet":
        return _parquet_columns(path, layout)
    data = read_bytes(path).removeprefix(_BOM).rstrip(b"\r\n")
    if not data:
        raise DataError(f"{path} is empty; expected lines of {layout}")
    first_columns = range(len(layout.columns))
    if kind == ".csv":
        fields = _first_record(data)
        header = layout.header_positions(fields)
        width = len(fields) if header else layout.width(len(fields))
        data += b"\n"  # a lone header counts as a line only when it ends
        shape = TextShape(",", width, header or first_columns, header is not None)
    else:
        if kind == ".txt" and b"\t" not in _first_line(data):
            if not layout.more_columns and b"\t" not in data:  # rewriting takes ten times as long, and need not be
                columns, reason = _parsed(data, layout, TextShape(" ", len(first_columns), first_columns))
                if reason is None:
                    return columns
            data = _tabs_for_blanks(data, layout)
        shape = TextShape("\t", layout.width(_first_line(data).count(b"\t") + 1), first_columns)
    columns, reason = _parsed(data, layout, shape)
    if reason:
        fault = find_fault(data, layout, shape)  # a slow scan, for the line to name
        raise DataError(f"{path}, {fault}" if fault else f"{path} cannot be read: {reason}")
    return columns


def header_in_lines(path: Path, first: Sequence[str], layout: Layout) -> bool:
    """Say whether the first row of a file without header lines looks like one all the same."""
    return file_format(path) in _LINES and layout.header_positions(first) is not None


def _first_line(data: bytes) -> bytes:
    return data[: found.start()] if (found := re.search(rb"[\r\n]", data)) else data


def _first_record(data: bytes) -> list[str]:
    try:
        return next(csv.reader(io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="")))
    except (UnicodeDecodeError, csv.Error):
        return []  # whatever is wrong is wrong for the search for a fault as well


def _tabs_for_blanks(data: bytes, layout: Layout) -> bytes:
    """Separate by tabs what was separated by runs of blanks; the last column of labels keeps its blanks."""
    trimmed = re.sub(rb"[ \t]+(?=[\r\n]|\Z)|(?:(?<=[\r\n])|\A)[ \t]+", b"", data)
    if layout.more_columns:
        return re.sub(rb"(?m)^([^ \t\r\n]+)[ \t]+", rb"\1\t", trimmed)
    return re.sub(rb"[ \t]+", b"\t", trimmed)


def _parsed(data: bytes, layout: Layout, shape: TextShape) -> tuple[list[pa.DictionaryArray], str | None]:
    """Return the columns, and what is wrong with them, if anything."""
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
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0]
        return [], f"a line is longer than {_BLOCK >> 20} MB" if "straddl" in reason else reason
    blank = any(_place_of_blank(column.dictionary) >= 0 for column in columns[: layout.required])
    return columns, "a field is empty" if blank else None


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
        blank = _place_of_blank(text)
        if place < layout.required and blank >= 0:
            raise DataError(f"{path}, row {blank + 1}: {layout.columns[place]} is missing; expected {layout}")
        columns.append(text.dictionary_encode())
    return columns


def _place_of_blank(texts: pa.Array) -> int:
    return int(pc.index(texts, "").as_py())
