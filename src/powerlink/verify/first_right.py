"""Explanations held against what is known to explain their queries: how early does a path that is right come?

A path is right in one of two readings:

| reading | known entities | known facts | known paths |
|---|---|---|---|
| `touches` | an inner entity is known | a fact is known | a fact of a known path is among its facts |
| `is` | all inner entities are known | all its facts are known | it equals a known one, in its facts |

Head and tail never count. Without a reading, whole paths must be equalled, and entities or facts touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from powerlink.explain_settings import Match as Match  # noqa: PLC0414 - where it is looked for
from powerlink.explanation import Evidence, Explanation, Query
from powerlink.kg.known_reasons import Reasons
from powerlink.verify.comparison import Difference, difference_of, figure_of
from powerlink.verify.metrics import Figure

TOPS = (1, 3, 5, 10)
MRR = "MRR"
Values = NDArray[np.float64]  # (Q,)


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
    figures: Mapping[str, Figure]
    differences: Mapping[str, Difference]
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
        figures, gaps = {}, {}
        for name, values in one.measures(depth).items():
            figures[name] = figure_of(name, "powerlink", _mean_of(values, groups), seed)
            if rows:
                gap = _mean_of(values - reference[name], groups)
                gaps[name] = difference_of(name, "powerlink", gap, np.zeros_like(gap), seed)
        rows.append(
            TruthRow(
                one.way,
                {name: figure for name, figure in figures.items() if figure is not None},
                {name: gap for name, gap in gaps.items() if gap is not None},
                one.seconds,
                [int(place) if np.isfinite(place) else None for place in one.places],
            )
        )
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
