"""A comparison of explainers as JSON, as Markdown, for the terminal, and as one self-contained page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from powerlink.atomic_file import replace_together
from powerlink.report import compare_plots, compare_tables
from powerlink.report.compare_tables import TableView, agreement, of_queries, reading, tables
from powerlink.report.html import page_of
from powerlink.report.wording import harmless, isolated
from powerlink.verify.comparison import ModelComparison


def write_comparison(compared: Sequence[ModelComparison], folder: Path, made_with: dict[str, Any]) -> None:
    """Write compare.json, compare.md and compare.html; `made_with` says with which settings."""
    plain = {"settings": made_with, "models": [as_plain(model) for model in compared]}
    files = {
        "compare.json": json.dumps(plain, ensure_ascii=False, indent=1) + "\n",
        "compare.md": render_markdown(compared),
        "compare.html": render_page(compared, made_with),
    }
    replace_together({folder / name: text.encode("utf-8", "backslashreplace") for name, text in files.items()})


def as_plain(compared: ModelComparison) -> dict[str, Any]:
    """Return a comparison as what JSON has; a number that is not there is null, and examples stay on the page."""
    plain = _finite({name: value for name, value in asdict(compared).items() if name != "examples"})
    for select, rows in compared.tables.items():
        for row, written in zip(rows, plain["tables"][select], strict=True):
            for gap, of_gap in zip(row.differences, written["differences"], strict=True):
                of_gap["significant"] = gap.significant
    return dict(plain)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def render_markdown(compared: Sequence[ModelComparison]) -> str:
    """Return the tables with their intervals as Markdown."""
    return "# Explainers compared\n\n" + "\n".join(part for model in compared for part in _markdown_of(model))


def _markdown_of(compared: ModelComparison) -> Iterator[str]:
    yield f"## {_plain_words(compared.label)} on {_plain_words(compared.graph)}\n"
    yield f"{_plain_words(of_queries(compared))}.\n"
    for name, sentence in compared.refused.items():
        yield f"*{_plain_words(name)}* took no part: {_plain_words(sentence)}.\n"
    if not compared.explainers:
        return
    yield f"{_plain_words(reading(compared))}\n"
    for table in [*tables(compared), *(agreement(compared, select) for select in compared.overlaps)]:
        yield f"### {table.title}\n"
        rows = [["explainer", *map(_plain_words, table.columns)], ["---"] + ["---:"] * len(table.columns)]
        rows += [[_plain_words(name), *(cell.whole for cell in cells)] for name, cells in table.rows]
        yield "".join("| " + " | ".join(row) + " |\n" for row in rows)


def _plain_words(name: str) -> str:
    """Return a name that Markdown does not read as markup."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#" else char for char in harmless(name))


def render_tables(compared: ModelComparison) -> RenderableType:
    """Return the tables of a model for the terminal: means, and marks where they differ."""
    parts: list[RenderableType] = [
        Text(f"{isolated(harmless(compared.label))} on {isolated(harmless(compared.graph))}", style="bold"),
        Text(of_queries(compared)),
    ]
    if compared.explainers:
        for table in tables(compared):
            parts += [Text(""), Text(table.title), _terminal_table(table)]
        parts += [Text(""), Text(reading(compared), style="dim")]
    return Group(*parts)


def _terminal_table(table: TableView) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    shown.add_column("explainer", no_wrap=True)
    for title in table.columns:
        shown.add_column(title, justify="right")
    for name, cells in table.rows:
        shown.add_row(Text(isolated(name)), *(Text(f"{cell.text}{cell.mark or ' '}") for cell in cells))
    return shown


def render_page(compared: Sequence[ModelComparison], made_with: dict[str, Any]) -> str:
    """Return a page that needs nothing else: plots, tables, and the explainers' paths side by side."""
    graph = compared[0].graph if compared else ""
    title = f"Explainers compared on {harmless(graph)}"
    settings = [(name.replace("_", " "), harmless(str(value))) for name, value in made_with.items()]
    return page_of(
        "compare.html", title=title, models=compared, settings=settings, tables=compare_tables, plots=compare_plots
    )
