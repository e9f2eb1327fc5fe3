"""The tables of a comparison, once for the terminal, Markdown and the page: what stands in which cell."""

from __future__ import annotations

import math
from dataclasses import dataclass

from powerlink.report.wording import counted, harmless, number
from powerlink.verify.comparison import ModelComparison, Row
from powerlink.verify.metrics import Measurement

Columns = dict[str, tuple[str, Measurement]]  # title → metric, protocol

OF_THE_MASK: Columns = {
    "F+": ("F+", "paper"),
    "F−": ("F−", "paper"),
    "Sparsity": ("Sparsity", "paper"),
    "Sparsity of kept": ("Sparsity (kept edges)", "paper"),
}
OF_THE_PATHS: Columns = {
    **{f"HΔR:{m}, paper": (f"HΔR:{m}", "paper") for m in (1, 3, 5)},
    **{f"HΔR:{m}": (f"HΔR:{m}", "powerlink") for m in (1, 3, 5)},
    "logit drop": ("logit drop, all paths", "powerlink"),
    "per fact": ("logit drop, per fact", "powerlink"),
    "facts": ("facts shown", "powerlink"),
    "paths": ("paths shown", "powerlink"),
}
CHOSEN = {
    "mask": "Paths in the explainer's own order (the paper's protocol)",
    "carried": "Paths chosen by what their facts carry together, among the explainer's own candidates",
    "largest-drop": "Paths chosen by the largest drop of the score, among the explainer's own candidates",
    "pooled": "Paths chosen by what their facts carry together, the floors' candidates added (the default of explain)",
}
SHORT = {"mask": "own order", "carried": "by what is carried", "largest-drop": "by largest drop", "pooled": "pooled"}
PATHS_SIDE_BY_SIDE = 3


@dataclass(frozen=True)
class Cell:
    """A figure, its 95 % interval, and whether it differs from the first explainer's by more than chance."""

    text: str
    interval: str = ""
    mark: str = ""  # ▲ above the first explainer's, ▼ below, nothing: not to be told apart

    @property
    def whole(self) -> str:
        return f"{self.text}{self.mark}" + (f" ({self.interval})" if self.interval else "")


@dataclass(frozen=True)
class TableView:
    """A table with explainers as rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def tables(compared: ModelComparison) -> list[TableView]:
    """Return the tables of one model: the mask with the time, the paths by each choice, and what became of queries."""
    seconds = ("s a query, scores alone", *(f"s a query, {SHORT[select]}" for select in compared.tables))
    first = next(iter(compared.tables.values()))
    rows = tuple((harmless(row.explainer), (*_cells(row, OF_THE_MASK), *_times(compared, row))) for row in first)
    views = [TableView("The mask, and the time", (*OF_THE_MASK, *seconds), rows)]
    for select, table in compared.tables.items():
        rows = tuple((harmless(row.explainer), _cells(row, OF_THE_PATHS)) for row in table)
        views.append(TableView(CHOSEN[select], tuple(OF_THE_PATHS), rows))
    return [*map(_measured, views), _statuses(compared)]


def _measured(view: TableView) -> TableView:
    """Leave out the columns of what was measured of nobody, as the paper's figures where no message can be weighed."""
    there = [i for i in range(len(view.columns)) if any(cells[i].text != "–" for _, cells in view.rows)]
    rows = tuple((name, tuple(cells[i] for i in there)) for name, cells in view.rows)
    return TableView(view.title, tuple(view.columns[i] for i in there), rows)


def _cells(row: Row, columns: Columns) -> tuple[Cell, ...]:
    return tuple(_cell(row, metric, protocol) for metric, protocol in columns.values())


def _cell(row: Row, metric: str, protocol: Measurement) -> Cell:
    figure, gap = row.figure(metric, protocol), row.difference(metric, protocol)
    if figure is None:
        return Cell("–")
    if metric in ("paths shown", "facts shown"):
        return Cell(number(figure.mean, 1))
    mark = ("▲" if gap.mean > 0 else "▼") if gap is not None and gap.significant else ""
    return Cell(number(figure.mean, 3), f"{number(figure.low, 3)} … {number(figure.high, 3)}", mark)


def _times(compared: ModelComparison, row: Row) -> list[Cell]:
    pace = compared.paces[row.explainer]
    seconds = (pace.scoring, *pace.whole.values())
    return [Cell(f"{value:.3f}" if math.isfinite(value) else "–") for value in seconds]


def _statuses(compared: ModelComparison) -> TableView:
    """Count statuses, a column for each that occurs under each way of choosing paths."""
    columns = [
        (select, status)
        for select, table in compared.tables.items()
        for status in sorted({status for row in table for status in row.statuses})
    ]
    found = {(select, row.explainer): row.statuses for select, table in compared.tables.items() for row in table}
    rows = (
        (harmless(name), tuple(Cell(str(found[select, name].get(status, 0))) for select, status in columns))
        for name in compared.explainers
    )
    titles = tuple(f"{status.replace('_', ' ')}, {SHORT[select]}" for select, status in columns)
    return TableView("What became of the queries", titles, tuple(rows))


def agreement(compared: ModelComparison, select: str) -> TableView:
    """Return how far every two agree: shared facts of the first five paths / same first path, both in per cent."""
    shared = {
        frozenset((overlap.one, overlap.other)): Cell(f"{100 * overlap.facts:.0f} / {100 * overlap.first:.0f}")
        for overlap in compared.overlaps[select]
        if overlap.queries
    }
    names = compared.explainers
    rows = ((harmless(one), tuple(shared.get(frozenset((one, other)), Cell("–")) for other in names)) for one in names)
    title = f"{SHORT[select].capitalize()}: shared facts of the first five paths / same first path, in per cent"
    return TableView(title, tuple(map(harmless, names)), tuple(rows))


def of_queries(compared: ModelComparison) -> str:
    """Say how many queries there were, and what was left out."""
    said = counted(compared.queries, "query")
    if compared.left_out:
        said += "; left out: " + ", ".join(f"{count:,} {why}" for why, count in compared.left_out.items())
    return said


def reading(compared: ModelComparison) -> str:
    """Say how the marks are to be read."""
    return (
        f"▲ above and ▼ below {harmless(compared.explainers[0])}: the 95 % interval of the difference, queries "
        "resampled in pairs, leaves out zero. Where nothing differs, one comparison in twenty is marked all the same."
    )


def side_by_side(compared: ModelComparison) -> str:
    """Say which paths stand side by side, and what the number beside them is."""
    orders = {"mask": "in their own order", "largest-drop": "by the largest drop of the score"}
    order = orders.get(next(iter(compared.tables), ""), "by what their facts carry together")
    return (
        f"The explainers' first {PATHS_SIDE_BY_SIDE} paths {order}. "
        "Beside a path: what its removal alone does to the score."
    )
