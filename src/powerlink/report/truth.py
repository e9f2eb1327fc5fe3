"""What is right among the paths shown, as tables for the terminal and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from powerlink.atomic_file import write_atomically
from powerlink.report.wording import counted, harmless, isolated, number
from powerlink.verify.first_right import MRR, TruthRow, TruthTable

FILE = "truth.json"
_SHOWN = "shown"  # whether any path shown is right: told where no hit@k says it already


def as_plain(tables: Sequence[TruthTable], made_with: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables as what JSON has; of several models, the last table is all of them together."""
    return {"settings": dict(made_with), "tables": [_plain_table(table) for table in tables]}


def write_truth(tables: Sequence[TruthTable], folder: Path, made_with: Mapping[str, Any]) -> Path:
    """Write truth.json into a folder."""
    text = json.dumps(as_plain(tables, made_with), ensure_ascii=False, indent=1) + "\n"
    write_atomically(folder / FILE, text.encode("utf-8", "backslashreplace"))
    return folder / FILE


def _plain_table(table: TruthTable) -> dict[str, Any]:
    return {
        "label": table.label,
        "queries": len(table.queries),
        "within_reach": table.within_reach,
        "rows": [_plain_row(row) for row in table.rows],
        "asked": [[query.head, query.relation, query.tail] for query in table.queries],
    }


def _plain_row(row: TruthRow) -> dict[str, Any]:
    figures = {name: _without_names(asdict(figure)) for name, figure in row.figures.items()}
    gaps = {n: _without_names(asdict(gap)) | {"significant": gap.significant} for n, gap in row.differences.items()}
    seconds = round(row.seconds, 4) if math.isfinite(row.seconds) else None
    return {"way": row.way, "seconds": seconds, "figures": figures, "differences": gaps, "places": list(row.places)}


def _without_names(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if name not in ("metric", "protocol")}


def render_truth(table: TruthTable, depth: int) -> RenderableType:
    """Return the table of one model, or of several together, for the terminal."""
    queries = counted(len(table.queries), "query")
    if table.within_reach is not None:
        queries += f"; for {table.within_reach:,} the graph has a right path of the allowed length"
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    columns = [name for name in table.rows[0].figures if name not in (MRR, _SHOWN)] if table.rows else []
    if f"hit@{depth}" not in columns:
        columns.append(_SHOWN)
    shown.add_column("explainer, choice")
    for title in (MRR, *columns, "difference to the first", "s/query"):
        shown.add_column(title.replace(" ", "\n", 1), justify="right")
    for row in table.rows:
        shown.add_row(*map(Text, (isolated(harmless(row.way)), *_cells(row, columns))))
    label = Text(isolated(harmless(table.label)), style="bold")
    return Group(label, Text(queries), shown, Text(_reading(table, depth), style="dim"))


def _cells(row: TruthRow, columns: Sequence[str]) -> list[str]:
    mrr, gap = row.figures.get(MRR), row.differences.get(MRR)
    cells = [_interval(number(mrr.mean, 3), mrr.low, mrr.high) if mrr else "–"]
    cells += [number(row.figures[name].mean, 2) if name in row.figures else "–" for name in columns]
    if gap is None:
        cells.append("")
    else:
        mark = ("▲" if gap.mean > 0 else "▼") if gap.significant else " "
        sign = "+" if gap.mean > 0 else ""
        cells.append(_interval(f"{sign}{number(gap.mean, 3)}", gap.low, gap.high) + mark)
    return [*cells, number(row.seconds, 3) if math.isfinite(row.seconds) else "–"]


def _interval(mean: str, low: float, high: float) -> str:
    return f"{mean} [{number(low, 2)}…{number(high, 2)}]"  # without a blank: folded before the bracket, if at all


def _reading(table: TruthTable, depth: int) -> str:
    first = harmless(table.rows[0].way) if table.rows else ""
    return (
        f"MRR: mean of 1 / place of the first right path among {depth}, 0 without one; in brackets 95 % intervals, "
        f"queries resampled, differences in pairs. ▲ above and ▼ below {first} by more than chance."
    )
