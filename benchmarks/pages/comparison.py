"""Reading a saved comparison: figures, and how they stand to the first explainer's."""

from __future__ import annotations

from pages.markdown import Result


def row_of(model: Result, select: str, explainer: str) -> Result:
    (row,) = [row for row in model["tables"][select] if row["explainer"] == explainer]
    return row


def entry(entries: list[Result], metric: str, protocol: str) -> Result | None:
    return next((e for e in entries if (e["metric"], e["protocol"]) == (metric, protocol)), None)


def _mark(gap: Result | None) -> str:
    return "" if gap is None or not gap["significant"] else "▲" if gap["mean"] > 0 else "▼"


def compared(row: Result, metric: str, protocol: str, *, interval: bool = False) -> str:
    figure = entry(row["figures"], metric, protocol)
    if figure is None:
        return "–"
    between = f" ({figure['low']:.3f} … {figure['high']:.3f})" if interval else ""
    return f"{figure['mean']:.3f}{_mark(entry(row['differences'], metric, protocol))}{between}"


def gap_of(model: Result, select: str, explainer: str, metric: str, protocol: str) -> str:
    return _mark(entry(row_of(model, select, explainer)["differences"], metric, protocol))


def mean_of(model: Result, explainer: str, metric: str, protocol: str = "paper", select: str = "mask") -> float:
    figure = entry(row_of(model, select, explainer)["figures"], metric, protocol)
    return float(figure["mean"]) if figure else float("nan")


def statuses(model: Result) -> str:
    """Count what became of all queries of all explainers."""
    counts: dict[str, int] = {}
    for rows in model["tables"].values():
        for row in rows:
            for status, count in row["statuses"].items():
                counts[status] = counts.get(status, 0) + count
    return ", ".join(f"{count} {status}" for status, count in counts.items())
