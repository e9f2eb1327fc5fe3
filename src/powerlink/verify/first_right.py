"""Explanations held against what is known to explain their queries: how early does a path that is right come?

A path is right in one of two readings:

| reading | known entities | known facts | known paths |
|---|---|---|---|
| `touches` | an inner entity is known | a fact is known | a fact of a known path is among its facts |
| `is` | all inner entities are known | all its facts are known | it equals a known one, in its facts |

Head and tail never count. Without a reading, whole paths must be equalled, and entities or facts touched.
The ceiling is for how many queries the graph holds any right path of the allowed length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from powerlink.explain_settings import Match as Match  # noqa: PLC0414 - where it is looked for
from powerlink.explanation import Evidence, Explanation, Query
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kg.explained_links import Reasons, Triple
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.verify.comparison import Difference, difference_of, figure_of
from powerlink.verify.metrics import Figure

TOPS = (1, 3, 5, 10)
MRR = "MRR"
Values = NDArray[np.float64]  # (Q,)
FAR = np.iinfo(np.int64).max // 4


def is_right(path: Evidence, known: Reasons, match: Match | None = None) -> bool:
    """Say whether a path is right by any of what is known: entities, facts or paths."""
    facts = frozenset((fact.head, fact.relation, fact.tail) for fact in path.facts)
    inner = frozenset(fact.target for fact in path.facts[:-1])
    if match == "is":
        return facts in known.paths or facts <= known.facts or (bool(inner) and inner <= known.entities)
    touched = not (inner.isdisjoint(known.entities) and facts.isdisjoint(known.facts))
    if match == "touches":
        return touched or any(not facts.isdisjoint(one) for one in known.paths)
    return touched or facts in known.paths


def first_right(explanations: Sequence[Explanation], known: Sequence[Reasons], match: Match | None = None) -> Values:
    """Return the place, from 1, of the first right path of each explanation; infinity where none is shown."""
    return np.array(
        [
            next((place for place, path in enumerate(told.evidence, 1) if is_right(path, reasons, match)), np.inf)
            for told, reasons in zip(explanations, known, strict=True)
        ],
        dtype=np.float64,
    )


class Reach:
    """Looks for right paths by distances from head, avoiding tail, and from tail, avoiding head.

    Up to three facts that is exact; behind that the two halves of a path may share a node, so it may say too much.
    Where paths must have several facts, distances do not tell: then only whole known paths do.
    """

    def __init__(self, graph: KnowledgeGraph, messages: MessageGraph, longest: int, shortest: int = 1) -> None:
        self._graph, self._longest, self._shortest = graph, longest, shortest
        self._row, self._source = messages.row.cpu().numpy(), messages.source.cpu().numpy()

    def holds(self, query: Triple, known: Reasons, match: Match | None = None) -> bool | None:
        """Say whether there is a right path; None where that is not cheap to tell."""
        if match != "touches" and any(self._shortest <= len(path) <= self._longest for path in known.paths):
            return True
        if self._shortest > 1 and (known.entities or known.facts):
            return None
        if match == "is":
            return None if known.entities or known.facts else False
        head, relation, tail = query
        near_head, near_tail = self._distances(head, tail), self._distances(tail, head)
        inner = map(self._graph.entities.index, known.entities)
        if any(near_head[e] + near_tail[e] <= self._longest for e in inner if e not in (head, tail)):
            return True
        facts = chain(known.facts, *known.paths) if match == "touches" else known.facts
        return any(
            min(near_head[u] + near_tail[v], near_head[v] + near_tail[u]) < self._longest
            for u, r, v in (self._graph.triple(*fact) for fact in facts)
            if u != v and (u, r, v) != (head, relation, tail)
        )

    def _distances(self, start: int, avoided: int) -> NDArray[np.int64]:
        distance = np.full(self._graph.num_entities, FAR, dtype=np.int64)
        distance[start] = 0
        border = np.array([start])
        for step in range(1, self._longest):
            parts = [self._source[self._row[node] : self._row[node + 1]] for node in border]
            reached = np.unique(np.concatenate(parts)) if parts else border
            border = reached[(distance[reached] == FAR) & (reached != avoided)]
            distance[border] = step
        return distance


@dataclass(frozen=True, eq=False)
class Held:
    """One way of explaining, held against what is known of each query."""

    way: str
    places: Values  # of the first right path, from 1; infinity where none was shown
    seconds: float  # a query
    auc: Mapping[str, Values]  # of its edge scores, by reading; NaN where a query has none

    def measures(self, depth: int) -> dict[str, Values]:
        """Return every measure of each query; a right path behind `depth` was not looked for."""
        hits = {f"hit@{top}": (self.places <= top).astype(np.float64) for top in TOPS if top <= depth}
        shown = {"shown": np.isfinite(self.places).astype(np.float64)}
        return {MRR: 1 / self.places, **hits, **shown, **{f"AUC {name}": values for name, values in self.auc.items()}}


@dataclass(frozen=True)
class TruthRow:
    """What one way of explaining reaches, and how far it lies from the first one; the first has no differences."""

    way: str
    figures: dict[str, Figure]
    differences: dict[str, Difference]
    seconds: float
    places: Sequence[int | None]  # by query: where the first right path stands, from 1


@dataclass(frozen=True)
class TruthTable:
    """All ways of explaining one model's queries, or those of several together."""

    label: str
    queries: Sequence[Query]
    within_reach: int | None  # queries for which the graph has any right path; None: not told
    rows: Sequence[TruthRow]


def rows_of(held: Sequence[Held], depth: int, seed: int = 0, unit: Sequence[int] | None = None) -> tuple[TruthRow, ...]:
    """Summarise each way and set it beside the first, query by query.

    What has one `unit` is resampled together: a query that several models were asked is hard, or easy, for all of them.
    """
    if not held:
        return ()
    groups = np.arange(len(held[0].places)) if unit is None else np.array(unit, dtype=np.int64)
    reference = held[0].measures(depth)
    rows: list[TruthRow] = []
    for one in held:
        row = TruthRow(one.way, {}, {}, one.seconds, [int(p) if np.isfinite(p) else None for p in one.places])
        for name, values in one.measures(depth).items():
            if figure := figure_of(name, "powerlink", _mean_of(values, groups), seed):
                row.figures[name] = figure
            gap = _mean_of(values - reference[name], groups)
            if rows and (difference := difference_of(name, "powerlink", gap, seed)):
                row.differences[name] = difference
        rows.append(row)
    return tuple(rows)


def _mean_of(values: Values, groups: NDArray[np.int64]) -> Values:
    """Return each group's mean over the numbers that are there; NaN where none is."""
    there = ~np.isnan(values)
    total = np.bincount(groups, weights=np.where(there, values, 0.0))
    count = np.bincount(groups, weights=there)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def pooled(models: Sequence[Sequence[Held]]) -> list[Held]:
    """Take the queries of several models, which were all explained in the same ways, as those of one."""
    together = []
    for ways in zip(*models, strict=True):
        count = sum(len(one.places) for one in ways)
        names = [name for name in ways[0].auc if all(name in one.auc for one in ways)]
        together.append(
            Held(
                ways[0].way,
                np.concatenate([one.places for one in ways]),
                sum(one.seconds * len(one.places) for one in ways) / max(count, 1),
                {name: np.concatenate([one.auc[name] for one in ways]) for name in names},
            )
        )
    return together
