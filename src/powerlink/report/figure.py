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
from powerlink.explanation import Explanation, Status
from powerlink.report import sentences, wording
from powerlink.report.drawing import LABEL_LETTERS, NODE_LETTERS, Drawing, Edge, Node, lay_out
from powerlink.report.lettering import break_lines, text_width

SUFFIXES = (".png", ".svg", ".pdf")

_INK, _QUIET, _RELATION, _ACCENT, _RULE = "#1c2024", "#5c646d", "#4a5d78", "#1f5fbf", "#d5d5cf"
_LOSS = "#b3400f"
_DPI = 100  # one unit of the drawing is one pixel here
_POINT = 72 / _DPI
_LEAST_WIDTH, _TITLE_LINE, _MARGIN, _LEGEND = 460.0, 21.0, 8.0, 11.0
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
    inner = width - 2 * _MARGIN
    lines: list[tuple[str, dict[str, Any]]]
    lines = [(line, {"size": 14, "weight": "bold"}) for line in _title(explanation, inner)]
    lines += [(_said(explanation), {"size": 12, "color": _QUIET})]
    lines += [(line, {"size": 12, "color": _LOSS}) for line in _doubts(explanation, inner)]
    above = _MARGIN + len(lines) * _TITLE_LINE + _MARGIN
    below = 2 * _TITLE_LINE if explanation.evidence else 0.0
    height = above + drawing.height + below
    figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    left = (drawing.width - width) / 2
    axes.set_xlim(left, left + width)
    axes.set_ylim(drawing.height + below, -above)
    for i, (line, look) in enumerate(lines):
        _text(axes, left + _MARGIN, _MARGIN - above + (i + 0.5) * _TITLE_LINE, line, ha="left", **look)
    for edge in drawing.edges:
        _edge(axes, edge)
    for node in drawing.nodes:
        _node(axes, node)
    if explanation.evidence:
        _legend(axes, explanation, drawing, left + _MARGIN)
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
    standing, status = sentences.standing(explanation), wording.status_name(explanation.status)
    if not standing:
        return status
    told = explanation.status is Status.EXPLAINED or sentences.is_doubtful(explanation.status)  # that in full below
    return standing if told else f"{standing}; {status}"


def _doubts(explanation: Explanation, width: float) -> list[str]:
    """Return what casts doubt on the paths, in lines: a figure leaves its report, and must say so itself."""
    said = [sentences.status_sentence(explanation.status)] if sentences.is_doubtful(explanation.status) else []
    return [line for doubt in said + sentences.remarks(explanation) for line in break_lines(doubt, 12.5, width, 3)]


def _legend(axes: Axes, explanation: Explanation, drawing: Drawing, left: float) -> None:
    """Say under the drawing what widths mean, with the thinnest and the broadest line."""
    width_means = f"{sentences.width_meaning(explanation)},"
    y = drawing.height + 0.5 * _TITLE_LINE
    look = {"ha": "left", "color": _QUIET}
    _text(axes, left, y, width_means, _LEGEND, **look)
    x = left + text_width(width_means, _LEGEND) + 12
    for strength, said in ((0.0, "0  to"), (1.0, wording.amount(drawing.largest))):
        line = Path([(x, y), (x + 26, y)])
        axes.add_patch(PathPatch(line, **_stroke(strength)))
        _text(axes, x + 32, y, said, _LEGEND, **look)
        x += 32 + text_width(said, _LEGEND) + 10
    _text(axes, left, y + 0.8 * _TITLE_LINE, sentences.arrow_meaning(explanation), _LEGEND, **look)


def _stroke(strength: float) -> dict[str, Any]:
    width, alpha = (1.4 + 4.1 * strength) * _POINT, 0.55 + 0.45 * strength
    color = {"facecolor": "none", "edgecolor": _ACCENT, "alpha": alpha}
    return color | {"linewidth": width, "capstyle": "butt", "zorder": 1}


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
    for line, y in NODE_LETTERS.placed(node.lines, node.box.y):
        _text(axes, node.box.x, y, line, NODE_LETTERS.size - 1, color="white" if end else _INK)


def _edge(axes: Axes, edge: Edge) -> None:
    codes = [Path.MOVETO] + [Path.CURVE4] * (len(edge.curve) - 1)
    look, dashes = _stroke(edge.strength), "solid" if edge.fact.visible else (0, (2.5, 1.8))
    axes.add_patch(PathPatch(Path(edge.curve, codes), **look, linestyle=dashes))
    axes.add_patch(Polygon(edge.arrow, facecolor=_ACCENT, edgecolor="none", alpha=look["alpha"], zorder=2))
    corner, label = (edge.label.left, edge.label.top), edge.label
    axes.add_patch(Rectangle(corner, label.width, label.height, facecolor="white", edgecolor="none", zorder=2))
    for text, y in LABEL_LETTERS.placed(edge.lines, label.y):
        _text(axes, label.x, y, text, LABEL_LETTERS.size - 1, color=_RELATION)


def _text(axes: Axes, x: float, y: float, text: str, size: float, **style: Any) -> None:
    look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "color": _INK, "zorder": 4} | style
    # A dollar sign in a name is a dollar sign.
    axes.text(
        x, y, legible(text), fontsize=size * _POINT, family=font_families(), parse_math=False, clip_on=True, **look
    )


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
