"""The rows of a layered drawing: in which order the items of each layer stand, and at which height.

Layered drawing as in Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
structures" (1981), with the median heuristic of Gansner et al., "A technique for drawing directed graphs"
(1993).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean, median

_SWEEPS, _PASSES = 8, 12
_GAP, _LEAST_GAP = 16.0, 9.0  # between two items of a layer; the least is for the sake of straight edges


@dataclass
class Item:
    """Something that takes room in a layer: a node, a relation's label, or an edge on its way through."""

    layer: int
    width: float
    height: float
    is_node: bool = False
    x: float = 0.0  # centre
    y: float = 0.0
    column: float = 0.0  # the width of the whole layer

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2

    @property
    def top(self) -> float:
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height / 2


Links = Sequence[tuple[int, int]]  # between items of neighbouring layers, from left to right


def order_layers(layers: list[list[int]], links: Links) -> list[list[int]]:
    """Return the layers, each ordered so that few links cross; links join neighbouring layers only."""
    left, right = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for source, target in links:
        right[source].append(target)
        left[target].append(source)
    best, fewest = layers, _crossings(layers, right)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        layers = [list(layer) for layer in layers]
        onwards = sweep % 2 == 0
        around = left if onwards else right
        for i in range(1, len(layers)) if onwards else range(len(layers) - 2, -1, -1):
            layers[i] = _by_median(layers[i], layers[i - 1 if onwards else i + 1], around)
        if (crossings := _crossings(layers, right)) < fewest:
            best, fewest = layers, crossings
    return best


def _by_median(layer: list[int], neighbours: list[int], around: dict[int, list[int]]) -> list[int]:
    rows = {item: row for row, item in enumerate(neighbours)}
    return sorted(layer, key=lambda item: median([rows[other] for other in around.get(item, ())] or [0]))


def _crossings(layers: Sequence[Sequence[int]], right: dict[int, list[int]]) -> int:
    count = 0
    for layer, following in pairwise(layers):
        rows = {item: row for row, item in enumerate(following)}
        ends: list[int] = []
        for item in layer:
            reached = [rows[target] for target in right.get(item, ())]
            count += sum(end > row for row in reached for end in ends)
            ends += reached
    return count


def settle_rows(items: Sequence[Item], layers: Sequence[Sequence[int]], links: Links) -> None:
    """Pull every item towards the items it is linked with, again and again, then straighten what can be."""
    around: list[list[tuple[int, float]]] = [[] for _ in items]
    leaving, meeting = Counter(source for source, _ in links), Counter(target for _, target in links)
    for source, target in links:
        # A bend half-way is uglier than one at a node, and least ugly where many edges meet.
        pull = 1 / max(leaving[source], meeting[target])
        if not (items[source].is_node or items[target].is_node):
            pull = 4.0
        around[source].append((target, pull))
        around[target].append((source, pull))
    for turn in range(_PASSES):
        for layer in layers if turn % 2 == 0 else reversed(layers):
            wanted = [_pulled(around[i], items) for i in layer]
            gaps = [(items[a].height + items[b].height) / 2 + _GAP for a, b in pairwise(layer)]
            for i, y in zip(layer, settle(wanted, gaps), strict=True):
                items[i].y = y
    only = {source: target for source, target in links if leaving[source] == meeting[target] == 1}
    _straighten(items, layers, only)


def _pulled(around: Sequence[tuple[int, float]], items: Sequence[Item]) -> float:
    total = sum(pull for _, pull in around)
    return sum(items[i].y * pull for i, pull in around) / total if total else 0.0


def settle(wanted: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Return the positions nearest to the wanted ones (least squares) that keep their order and these gaps.

    Less the gaps before them, positions may only grow: isotonic regression, by pooling adjacent violators.
    """
    before = list(accumulate(gaps, initial=0.0))
    pools: list[tuple[float, int]] = []  # mean, count
    for want, shift in zip(wanted, before, strict=False):
        mean, count = want - shift, 1
        while pools and pools[-1][0] > mean:
            other, size = pools.pop()
            mean = (mean * count + other * size) / (count + size)
            count += size
        pools.append((mean, count))
    level = [mean for mean, count in pools for _ in range(count)]
    return [base + shift for base, shift in zip(level, before, strict=False)]


def _straighten(items: Sequence[Item], layers: Sequence[Sequence[int]], only: dict[int, int]) -> None:
    """Bring items in a line, one edge in and one out, to one height where their neighbours leave room."""
    above = {b: a for layer in layers for a, b in pairwise(layer)}
    below = {a: b for b, a in above.items()}
    for start in sorted(only.keys() - only.values()):
        line = [start]
        while line[-1] in only:
            line.append(only[line[-1]])
        room = [_LEAST_GAP + items[i].height / 2 for i in line]
        highest = [items[above[i]].bottom + r for i, r in zip(line, room, strict=True) if i in above]
        lowest = [items[below[i]].top - r for i, r in zip(line, room, strict=True) if i in below]
        if max(highest, default=-math.inf) <= min(lowest, default=math.inf):
            y = min([max([fmean(items[i].y for i in line), *highest]), *lowest])
            for i in line:
                items[i].y = y
