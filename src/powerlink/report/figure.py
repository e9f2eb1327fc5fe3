"""The layered drawing as a matplotlib figure, for papers and slides."""

from __future__ import annotations

from functools import cache
from os import PathLike
from pathlib import Path as FilePath
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager, get_font
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon, Rectangle
from matplotlib.path import Path

from powerlink.errors import OutputError, SettingsError
from powerlink.explanation import Explanation
from powerlink.report import wording
from powerlink.report.drawing import LABEL_FONT, LABEL_LINE, NODE_FONT, NODE_LINE, Edge, Node, lay_out
from powerlink.report.lettering import break_lines, text_width

SUFFIXES = (".png", ".svg", ".pdf")

_INK, _QUIET, _RELATION, _ACCENT, _RULE = "#1c2024", "#5c646d", "#4a5d78", "#1f5fbf", "#d5d5cf"
_DPI = 100  # one unit of the drawing is one pixel here
_POINT = 72 / _DPI
_LEAST_WIDTH, _TITLE_LINE, _MARGIN = 460.0, 21.0, 8.0
# DejaVu Sans comes with matplotlib; the others add scripts it lacks, where they are installed.
_FAMILIES = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans Devanagari",
    "Noto Emoji",
    "Hiragino Sans",
    "PingFang SC",
    "Yu Gothic",
    "Microsoft YaHei",
    "Arial Unicode MS",
    "Segoe UI Symbol",
)


def draw(explanation: Explanation) -> Figure:
    """Return the paths of an explanation as a figure of its own, outside pyplot."""
    drawing = lay_out(explanation)
    width = max(drawing.width, _LEAST_WIDTH)
    title, said = _title(explanation, width - 2 * _MARGIN), _said(explanation)
    above = _MARGIN + len(title) * _TITLE_LINE + _TITLE_LINE + _MARGIN
    height = above + drawing.height
    figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    left = (drawing.width - width) / 2
    axes.set_xlim(left, left + width)
    axes.set_ylim(drawing.height, -above)
    for i, line in enumerate(title):
        _text(axes, left + _MARGIN, _MARGIN - above + (i + 0.5) * _TITLE_LINE, line, 14, ha="left", weight="bold")
    _text(axes, left + _MARGIN, -_MARGIN - 0.5 * _TITLE_LINE, said, 12, ha="left", color=_QUIET)
    for edge in drawing.edges:
        _edge(axes, edge)
    for node in drawing.nodes:
        _node(axes, node)
    return figure


def save_figure(explanation: Explanation, path: str | PathLike[str]) -> None:
    """Write the figure as PNG, SVG or PDF, by the suffix of `path`; one explanation, one sequence of bytes."""
    target = FilePath(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise SettingsError(f"{target}: a figure is saved as {', '.join(SUFFIXES)}, not {suffix or 'without suffix'}")
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with matplotlib.rc_context({"svg.hashsalt": "powerlink"}):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            draw(explanation).savefig(target, dpi=2 * _DPI, format=suffix[1:], metadata=dates.get(suffix))
        except OSError as error:
            raise OutputError(f"{target} cannot be written: {error.strerror}") from None


def _title(explanation: Explanation, width: float) -> tuple[str, ...]:
    query = explanation.query
    head, relation, tail = map(wording.harmless, (query.head, query.relation, query.tail))
    return break_lines(f"{head} ─{relation}→ {tail}", 15.5, width, 4)  # bold letters are broader


def _said(explanation: Explanation) -> str:
    status = wording.status_name(explanation.status)
    if explanation.score is None:
        return status
    said = f"score {wording.number(explanation.score)}"
    if explanation.probability is not None:
        said += f" (probability {wording.probability(explanation.probability)})"
    if explanation.rank is not None:
        said += f", rank {wording.rank(explanation.rank)} {wording.ranked(explanation.query)}"
    return said if wording.is_explained(explanation.status) else f"{said}; {status}"


def _node(axes: Axes, node: Node) -> None:
    end = node.role != "between"
    box = FancyBboxPatch(
        (node.box.left, node.box.top),
        node.box.width,
        node.box.height,
        boxstyle="round,pad=0,rounding_size=8",
        facecolor=_ACCENT if end else "white",
        edgecolor=_ACCENT if end else _RULE,
        linewidth=0.9,
        zorder=3,
    )
    axes.add_patch(box)
    first = node.box.y - (len(node.lines) - 1) / 2 * NODE_LINE
    for i, line in enumerate(node.lines):
        _text(axes, node.box.x, first + i * NODE_LINE, line, NODE_FONT - 1, color="white" if end else _INK)


def _edge(axes: Axes, edge: Edge) -> None:
    alpha = 0.55 + 0.45 * edge.strength
    codes = [Path.MOVETO] + [Path.CURVE4] * (len(edge.curve) - 1)
    line = PathPatch(
        Path(edge.curve, codes),
        facecolor="none",
        edgecolor=_ACCENT,
        alpha=alpha,
        linewidth=(1.4 + 4.1 * edge.strength) * _POINT,
        linestyle="solid" if edge.fact.visible else (0, (2.5, 1.8)),
        capstyle="butt",
        zorder=1,
    )
    axes.add_patch(line)
    axes.add_patch(Polygon(edge.arrow, closed=True, facecolor=_ACCENT, edgecolor="none", alpha=alpha, zorder=2))
    corner, label = (edge.label.left, edge.label.top), edge.label
    axes.add_patch(Rectangle(corner, label.width, label.height, facecolor="white", edgecolor="none", zorder=2))
    first = label.y - (len(edge.lines) - 1) / 2 * LABEL_LINE
    for i, line_text in enumerate(edge.lines):
        _text(axes, label.x, first + i * LABEL_LINE, line_text, LABEL_FONT - 1, color=_RELATION)


def _text(axes: Axes, x: float, y: float, text: str, size: float, **style: Any) -> None:
    look: dict[str, Any] = {
        "ha": "center",
        "va": "center_baseline",
        "color": _INK,
        "zorder": 4,
        "clip_on": True,
    } | style
    # A dollar sign in a name is a dollar sign.
    axes.text(x, y, legible(text), fontsize=size * _POINT, family=font_families(), parse_math=False, **look)


def legible(text: str) -> str:
    """Return a text with a box for every character that no installed font has."""
    return "".join(char if _drawable(char) else "□" if text_width(char, 1) else "" for char in text)


@cache
def font_families() -> list[str]:
    """Return the installed ones of the fonts that figures are lettered in."""
    present = {font.name for font in fontManager.ttflist}
    return [family for family in _FAMILIES if family in present]


@cache
def _drawable(char: str) -> bool:
    """Return whether some installed font has this character; matplotlib warns about any that none has."""
    return any(
        get_font(fontManager.findfont(FontProperties(family=family))).get_char_index(ord(char))
        for family in font_families()
    )
