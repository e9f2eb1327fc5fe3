"""The layered drawing of an explanation's paths: where everything is. SVG and figure share it.

Units are pixels of the SVG; x grows to the right, y downwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from powerlink.explanation import Explanation, Fact
from powerlink.report.layering import HEAD, TAIL, Hop, MergedPaths, merge_paths
from powerlink.report.lettering import Letters
from powerlink.report.measures import fact_fall
from powerlink.report.rows import Item, order_layers, settle_rows

_BETWEEN_COLUMNS, _BETWEEN_PORTS, _MARGIN = 40.0, 13.0, 8.0

Point = tuple[float, float]


NODE_LETTERS, LABEL_LETTERS = Letters(14.0, 18.0, 150.0), Letters(12.0, 15.0, 118.0)


@dataclass(frozen=True)
class Node:
    """An entity on one or more paths."""

    name: str
    role: Literal["head", "tail", "between"]
    lines: tuple[str, ...]
    box: Item


@dataclass(frozen=True)
class Edge:
    """A fact on one or more paths: a curve from left to right, its arrowhead at the fact's own tail."""

    fact: Fact
    paths: tuple[int, ...]  # which paths walk it, counted from 0
    strength: float  # how far the score falls without this fact, 1 for the largest such fall of all
    lines: tuple[str, ...]
    label: Item
    curve: tuple[Point, ...]  # a start, then two control points and an end per cubic piece
    arrow: tuple[Point, Point, Point]  # tip first


@dataclass(frozen=True)
class Drawing:
    """Everything placed; (0, 0) is the top left corner."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: float
    height: float
    largest: float  # the fall of the score that the broadest edge stands for


def lay_out(explanation: Explanation) -> Drawing:
    """Place the paths from head (left) to tail (right), with columns of labels between those of nodes."""
    merged = merge_paths(explanation.query, explanation.evidence)
    texts = [NODE_LETTERS.broken(name) for name in merged.names]
    labels = [LABEL_LETTERS.broken(hop.fact.relation) for hop in merged.hops]
    items = [_node_item(node, text, merged) for node, text in enumerate(texts)]
    chains = [_chain(hop, label, merged, items) for hop, label in zip(merged.hops, labels, strict=True)]
    width, height = _place(items, [link for chain in chains for link in pairwise(chain)])
    strengths, largest = edge_strengths(explanation, merged.hops)
    ports = _ports(items, chains)
    edges = []
    for hop, chain, lines, ends, strength in zip(merged.hops, chains, labels, ports, strengths, strict=True):
        curve, arrow = _curve([items[i] for i in chain], ends, strength, inverse=hop.fact.inverse)
        edges.append(Edge(hop.fact, hop.paths, strength, lines, items[_label_of(chain)], curve, arrow))
    roles: dict[int, Literal["head", "tail"]] = {HEAD: "head", TAIL: "tail"}
    nodes = tuple(Node(name, roles.get(i, "between"), texts[i], items[i]) for i, name in enumerate(merged.names))
    return Drawing(nodes, tuple(edges), width, height, largest)


def edge_strengths(explanation: Explanation, hops: Sequence[Hop]) -> tuple[list[float], float]:
    """Return how far the score falls without each hop's fact, as shares of the largest fall, and that fall."""
    falls = [max(0.0, *(fact_fall(explanation, explanation.evidence[p], hop.fact) for p in hop.paths)) for hop in hops]
    largest = max(falls, default=0.0)
    return [fall / largest if largest else 0.0 for fall in falls], largest


def _node_item(node: int, text: Sequence[str], merged: MergedPaths) -> Item:
    width = NODE_LETTERS.width(text) + 26
    busiest = max(sum(hop.source == node for hop in merged.hops), sum(hop.target == node for hop in merged.hops))
    height = max(len(text) * NODE_LETTERS.line + 16, busiest * _BETWEEN_PORTS + 8)
    return Item(2 * merged.columns[node], max(width, 44.0), height, is_node=True)


def _chain(hop: Hop, label: Sequence[str], merged: MergedPaths, items: list[Item]) -> list[int]:
    """Add what a hop needs in every layer it crosses; return its items from source to target."""
    start, stop = 2 * merged.columns[hop.source], 2 * merged.columns[hop.target]
    layers = range(start + 1, stop)
    chain = [hop.source, *range(len(items), len(items) + len(layers)), hop.target]
    items += [Item(layer, 0.0, 8.0) for layer in layers]
    middle = items[_label_of(chain)]
    middle.width = LABEL_LETTERS.width(label) + 12
    middle.height = len(label) * LABEL_LETTERS.line + 4
    return chain


def _label_of(chain: Sequence[int]) -> int:
    """Return the item that holds the label: in the middle, or left of it, between two columns of nodes."""
    return chain[1 + 2 * ((len(chain) - 3) // 4)]


def _place(items: list[Item], links: Sequence[tuple[int, int]]) -> Point:
    """Give every item its x and y; return the drawing's width and height."""
    layers: list[list[int]] = [[] for _ in range(1 + max(item.layer for item in items))]
    for i, item in enumerate(items):
        layers[item.layer].append(i)
    layers = order_layers(layers, links)
    right = _MARGIN
    for layer in layers:
        width = max((items[i].width for i in layer), default=_BETWEEN_COLUMNS)
        for i in layer:
            items[i].x, items[i].column = right + width / 2, width
        right += width + _BETWEEN_COLUMNS
    settle_rows(items, layers, links)
    top = min(item.top for item in items) - _MARGIN
    for item in items:
        item.y -= top
    return right - _BETWEEN_COLUMNS + _MARGIN, max(item.bottom for item in items) + _MARGIN


def _ports(items: list[Item], chains: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
    """Return the y where each edge leaves its source and meets its target, so that none overlap there."""
    ends = [[0.0, 0.0] for _ in chains]
    for side, (node_at, next_at) in enumerate([(0, 1), (-1, -2)]):
        at_node: dict[int, list[int]] = {}
        for e, chain in enumerate(chains):
            at_node.setdefault(chain[node_at], []).append(e)
        for node, edges in at_node.items():
            edges.sort(key=lambda e: items[chains[e][next_at]].y)
            for row, e in enumerate(edges):
                ends[e][side] = items[node].y + (row - (len(edges) - 1) / 2) * _BETWEEN_PORTS
    return [(leaves, meets) for leaves, meets in ends]


def _curve(
    chain: Sequence[Item], ends: tuple[float, float], strength: float, *, inverse: bool
) -> tuple[tuple[Point, ...], tuple[Point, Point, Point]]:
    """Return the edge's curve, level wherever it meets an item, and its arrowhead."""
    start, stop = (chain[0].right, ends[0]), (chain[-1].left, ends[1])
    length, wing = 8 + 4 * strength, 3.5 + 2.5 * strength
    (x, y), back = (start, length) if inverse else (stop, -length)
    arrow = ((x, y), (x + back, y - wing), (x + back, y + wing))
    # The line stops inside the arrowhead, so that a broad line does not blunt its tip.
    if inverse:
        start = (x + length - 1, y)
    else:
        stop = (x - length + 1, y)
    # Nodes narrower than their column have a level piece of edge beside them.
    points = [start, (max(start[0], chain[0].x + chain[0].column / 2), start[1])]
    for item in chain[1:-1]:
        points += [(item.x - item.column / 2, item.y), (item.x + item.column / 2, item.y)]
    points += [(min(stop[0], chain[-1].x - chain[-1].column / 2), stop[1]), stop]
    curve = [start]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (x0 + x1) / 2
        curve += [(middle, y0), (middle, y1), (x1, y1)]
    return tuple(curve), arrow
