"""The plots of a comparison as the numbers an SVG template reads; colours come from the page's style."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from powerlink.report.cards import View
from powerlink.report.compare_tables import SHORT
from powerlink.report.wording import harmless, number
from powerlink.verify.comparison import ModelComparison
from powerlink.verify.metrics import FIRST_FACTS, Measurement

# Title (↑ more is better, ↓ less is), metric, protocol, and whether it is the same however paths are chosen.
INTERVALS: tuple[tuple[str, str, Measurement, bool], ...] = (
    ("Fall of the logit without the shown paths ↑", "logit drop, all paths", "powerlink", False),
    ("HΔR:5, facts removed, ranked among all ↑", "HΔR:5", "powerlink", False),
    ("HΔR:5, the paper's protocol ↑", "HΔR:5", "paper", False),
    ("F+ of the mask ↑", "F+", "paper", True),
    ("F− of the mask ↓", "F−", "paper", True),
    ("Sparsity of the mask over kept edges ↑", "Sparsity (kept edges)", "paper", True),
)
LEFT, RIGHT, ROW, TOP, BOTTOM = 118.0, 430.0, 24.0, 8.0, 34.0
SCATTER = {"left": 78.0, "right": 378.0, "top": 12.0, "bottom": 237.0, "width": 398.0, "height": 283.0}


def intervals(compared: ModelComparison) -> list[View]:
    """Return a plot per metric that was measured: a row per explainer, a dot with its interval per way of choosing."""
    return [plot for plot in (_interval_plot(compared, *each) for each in INTERVALS) if plot["marks"]]


def _interval_plot(compared: ModelComparison, title: str, metric: str, protocol: Measurement, of_mask: bool) -> View:
    selections = list(compared.tables)[:1] if of_mask else list(compared.tables)
    found = [
        (series, place, figure, row.explainer if of_mask else f"{row.explainer}, {SHORT[select]}")
        for series, select in enumerate(selections)
        for place, row in enumerate(compared.tables[select])
        if (figure := row.figure(metric, protocol))
    ]
    values = [value for _, _, figure, _ in found for value in (figure.mean, figure.low, figure.high)]
    scale, ticks = _scale(values, LEFT, RIGHT, with_zero=True)
    bottom = TOP + ROW * len(compared.explainers)
    middles = [TOP + (place + 0.5) * ROW for place in range(len(compared.explainers))]
    return {
        "title": title,
        "width": RIGHT + 20,
        "height": bottom + BOTTOM,
        "bottom": bottom,
        "top": TOP,
        "ticks": [(scale(tick), _tick(tick)) for tick in ticks],
        "names": [(y + 4, _shortened(harmless(name))) for y, name in zip(middles, compared.explainers, strict=True)],
        "marks": [
            (
                series,
                middles[place] + (series - (len(selections) - 1) / 2) * 7,
                [scale(value) for value in (figure.low, figure.mean, figure.high)],
                f"{harmless(name)}: {number(figure.mean, 3)} ({number(figure.low, 3)} … {number(figure.high, 3)})",
            )
            for series, place, figure, name in found
        ],
        "series": [] if of_mask else [SHORT[select] for select in selections],
    }


def _front(compared: ModelComparison, select: str) -> View:
    """Return the fall of the logit against the number of facts removed, in the order shown: high and left is good."""
    points = [
        (place, float(count), figure.mean)
        for place, row in enumerate(compared.tables[select], start=1)
        for count in FIRST_FACTS
        if (figure := row.figure(f"logit drop, first {count} facts", "powerlink"))
    ]
    title = f"Fall of the logit against facts removed, {SHORT[select]}"
    return _scatter(compared, title, "facts removed", "fall of the logit", points)


def scatters(compared: ModelComparison) -> list[View]:
    """Return what facts do against their number, fidelity against sparsity, and time against size."""
    views = [_front(compared, select) for select in compared.tables]
    for metric in ("F+", "F−"):
        points = [
            (place, x.mean, y.mean)
            for place, row in enumerate(next(iter(compared.tables.values())), start=1)
            if (x := row.figure("Sparsity (kept edges)", "paper")) and (y := row.figure(metric, "paper"))
        ]
        views.append(_scatter(compared, f"{metric} against sparsity", "sparsity over kept edges", metric, points))
    times = [
        (place, edges, seconds)
        for place, name in enumerate(compared.explainers, start=1)
        for edges, seconds in compared.paces[name].batches
        if edges > 0 and seconds > 0
    ]
    title = "Time against size, a point per batch"
    views.append(_scatter(compared, title, "edges of a computation graph", "seconds to score one", times, logs=True))
    return [view for view in views if view["points"]]


def _scatter(
    compared: ModelComparison,
    title: str,
    x_title: str,
    y_title: str,
    points: Sequence[tuple[int, float, float]],
    *,
    logs: bool = False,
) -> View:
    x_scale, x_ticks = _scale([x for _, x, _ in points], SCATTER["left"] + 14, SCATTER["right"] - 14)
    y_make = _log_scale if logs else _scale
    y_scale, y_ticks = y_make([y for _, _, y in points], SCATTER["bottom"] - 14, SCATTER["top"] + 14)
    return SCATTER | {
        "title": title,
        "x_title": x_title,
        "y_title": y_title,
        "x_ticks": [(x_scale(tick), _tick(tick)) for tick in x_ticks],
        "y_ticks": [(y_scale(tick), _tick(tick)) for tick in y_ticks],
        "points": [
            (place, x_scale(x), y_scale(y), f"{harmless(compared.explainers[place - 1])}: {_tick(x)}, {_tick(y)}")
            for place, x, y in points
        ],
    }


Scale = Callable[[float], float]


def _scale(values: Sequence[float], start: float, end: float, *, with_zero: bool = False) -> tuple[Scale, list[float]]:
    """Return a linear scale onto [start, end], and round numbers on it: 1, 2 or 5 times a power of ten apart."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if with_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if with_zero and low == high:  # all are zero: shares and falls lie above it
        high = 1.0
    if high - low < 1e-9 * max(abs(low), abs(high), 1e-3):
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    ticks = [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    return lambda value: start + (value - low) / (high - low) * (end - start), ticks


def _log_scale(values: Sequence[float], start: float, end: float) -> tuple[Scale, list[float]]:
    """Return a logarithmic scale with powers of ten on it; at least one decade."""
    logs = [math.log10(value) for value in values] or [0.0]
    low = math.floor(min(logs))
    high = max(math.ceil(max(logs)), low + 1)
    ticks = [10.0**i for i in range(low, high + 1)]
    return lambda value: start + (math.log10(value) - low) / (high - low) * (end - start), ticks


def _tick(value: float) -> str:
    if abs(value) >= 1_000:
        return f"{value:,.0f}".replace("-", "−")
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:.{digits}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")


def _shortened(name: str) -> str:
    return name if len(name) <= 17 else f"{name[:16]}…"
