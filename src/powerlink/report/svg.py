"""The layered drawing as the numbers and words an SVG template reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from powerlink.explanation import Explanation
from powerlink.report import wording
from powerlink.report.drawing import (
    LABEL_FONT,
    LABEL_LINE,
    NODE_FONT,
    NODE_LINE,
    Box,
    Edge,
    Node,
    Point,
    lay_out,
)
from powerlink.report.measures import odds_share
from powerlink.report.wording import harmless

CURVE_WIDTH, CURVE_HEIGHT = 240.0, 48.0


def view(explanation: Explanation) -> dict[str, Any]:
    """Return the drawing of an explanation's paths for the template."""
    drawing = lay_out(explanation)
    head, tail = harmless(explanation.query.head), harmless(explanation.query.tail)
    edges = [_edge(edge) for edge in drawing.edges]
    return {
        "width": round(drawing.width),
        "height": round(drawing.height),
        "title": f"Paths from {head} to {tail}",
        "spoken": "; ".join(edge["title"] for edge in edges),
        "nodes": [_node(node) for node in drawing.nodes],
        "edges": edges,
        "caption": captions(explanation),
        "largest": wording.amount(drawing.largest),
    }


def captions(explanation: Explanation) -> dict[str, str]:
    """Return what the drawing's widths, arrows and dashes mean; the figure says the same."""
    facts = [fact for path in explanation.evidence for fact in path.facts]
    of = "that fact alone" if all(fact.effect is not None for fact in facts) else "that fact's path"
    dashed = "" if all(fact.visible for fact in facts) else " Dashed: not seen by the model."
    return {"width": f"Width: the score's fall without {of}", "rest": f"Arrows point the way the facts do.{dashed}"}


def deletion(score: float, left: Sequence[float]) -> dict[str, Any]:
    """Return the steps of the score while fact after fact is removed, on the bars' scale: 1 is up, zero the middle."""
    falls = [odds_share(score - scored) for scored in left]
    wide = CURVE_WIDTH / len(falls)
    steps = "".join(f"V{_short(CURVE_HEIGHT / 2 * (1 + fall))}h{wide:.2f}" for fall in falls)
    return {
        "width": round(CURVE_WIDTH),
        "height": round(CURVE_HEIGHT),
        "zero": _short(CURVE_HEIGHT / 2),
        "line": f"M0,{_short(CURVE_HEIGHT / 2)}{steps}",
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        "name": harmless(node.name),
        "role": node.role,
        "box": _box(node.box),
        "lines": _lines(node.lines, node.box, NODE_FONT, NODE_LINE),
    }


def _edge(edge: Edge) -> dict[str, Any]:
    fact, tip = edge.fact, edge.arrow
    return {
        "title": " ".join(map(harmless, (fact.head, fact.relation, fact.tail)))
        + ("" if fact.visible else " (not seen by the model)"),
        "visible": fact.visible,
        "strength": f"{edge.strength:.3f}",
        "curve": f"M{_points(edge.curve[:1])}C{_points(edge.curve[1:])}",
        "arrow": f"M{_points(tip[:1])}L{_points(tip[1:])}Z",
        "label": _box(edge.label),
        "lines": _lines(edge.lines, edge.label, LABEL_FONT, LABEL_LINE),
    }


def _lines(lines: Sequence[str], box: Box, font: float, spacing: float) -> list[dict[str, str]]:
    """Return lines of text around the middle of a box; letters stand 0.35 of their size below their middle."""
    first = box.y - (len(lines) - 1) / 2 * spacing + 0.35 * font
    return [{"text": line, "x": _short(box.x), "y": _short(first + i * spacing)} for i, line in enumerate(lines)]


def _box(box: Box) -> dict[str, str]:
    corner = {"x": _short(box.left), "y": _short(box.top)}
    return corner | {"width": _short(box.width), "height": _short(box.height)}


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{_short(x)},{_short(y)}" for x, y in points)


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
