"""Explainers side by side on the same queries: figures, paired differences, and how far their paths agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from powerlink.explanation import Explanation, Fact
from powerlink.verify.metrics import Figure, Measurement, mean_over, readings, was_measured

TOPS = (1, 3, 5)
PATHS_COMPARED = 5
FEWEST = 3  # queries: of fewer, resampling says nothing


@dataclass(frozen=True)
class Difference(Figure):
    """How far a mean lies from the reference's: queries are resampled in pairs."""

    @property
    def significant(self) -> bool:
        """Zero lies outside the interval, which one or two queries cannot tell."""
        return self.queries >= FEWEST and (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class Row:
    """One explainer's figures, and their differences to the reference's; the reference itself has none."""

    explainer: str
    figures: tuple[Figure, ...]
    differences: tuple[Difference, ...]
    statuses: Mapping[str, int]
    queries: int

    def figure(self, metric: str, protocol: Measurement) -> Figure | None:
        """Find a figure by its name."""
        return next((f for f in self.figures if (f.metric, f.protocol) == (metric, protocol)), None)

    def difference(self, metric: str, protocol: Measurement) -> Difference | None:
        """Find a difference by the figure's name."""
        return next((d for d in self.differences if (d.metric, d.protocol) == (metric, protocol)), None)


@dataclass(frozen=True)
class Overlap:
    """How far two explainers show the same, over the queries for which either shows a path."""

    one: str
    other: str
    facts: float  # mean Jaccard index of the facts of their first five paths
    first: float  # share of queries with the same first path
    queries: int


@dataclass(frozen=True)
class Pace:
    """What an explainer takes: mean seconds a query, by the clock and of the processor."""

    scoring: float  # its edge scores alone
    whole: Mapping[str, float]  # selection → with extraction, search, choice and verdict
    scoring_cpu: float
    whole_cpu: Mapping[str, float]
    batches: Sequence[tuple[float, float]]  # of each batch: mean edges of a query, mean seconds of scoring one


@dataclass(frozen=True)
class ModelComparison:
    """Everything that was found about the explainers of one model."""

    label: str
    model: str  # e.g. "compgcn-distmult"
    model_hash: str
    graph: str
    queries: int
    left_out: Mapping[str, int]  # why → how many facts
    tables: Mapping[str, tuple[Row, ...]]  # selection → a row per explainer, the reference first
    overlaps: Mapping[str, tuple[Overlap, ...]]
    paces: Mapping[str, Pace]
    refused: Mapping[str, str] = field(default_factory=dict)  # explainer → why it could not take part
    examples: tuple[Mapping[str, Explanation], ...] = ()  # of a query each: explainer → what it says

    @property
    def explainers(self) -> list[str]:
        """Those that took part, the reference first."""
        return [row.explainer for row in next(iter(self.tables.values()), ())]


ByExplainer = Mapping[str, Sequence[Explanation]]  # the explanations of each, all of the same queries in the same order


def compare_figures(found: ByExplainer, seed: int = 0) -> tuple[Row, ...]:
    """Summarise each explainer and set it beside the first; query by query, so that hard queries are hard for both."""
    measured = {name: _measure(explanations) for name, explanations in found.items()}
    reference = next(iter(measured.values()), {})
    rows: list[Row] = []
    for name, values in measured.items():
        figures = (figure_of(*key, v, seed) for key, v in values.items())
        gaps = (difference_of(*key, v - reference[key], seed) for key, v in values.items() if rows)
        statuses = dict(Counter(e.status.value for e in found[name]))
        rows.append(Row(name, tuple(filter(None, figures)), tuple(filter(None, gaps)), statuses, len(found[name])))
    return tuple(rows)


_Values = NDArray[np.float64]  # (Q,); NaN where a query has no such figure


def _measure(explanations: Sequence[Explanation]) -> dict[tuple[str, Measurement], _Values]:
    measured = was_measured(explanations)
    return {
        (metric, protocol): np.array(
            [read(e) if measured or protocol == "powerlink" else None for e in explanations], dtype=np.float64
        )  # None becomes NaN
        for metric, protocol, read in readings(TOPS)
    }


def figure_of(metric: str, protocol: Measurement, values: _Values, seed: int) -> Figure | None:
    """Return the mean with its interval over the queries that have this figure; None where none has."""
    return mean_over(Figure, metric, protocol, values[~np.isnan(values)], seed)


def difference_of(metric: str, protocol: Measurement, gaps: _Values, seed: int) -> Difference | None:
    """Return the mean difference over the queries that have this figure in both; None where none has."""
    return mean_over(Difference, metric, protocol, gaps[~np.isnan(gaps)], seed)


def compare_paths(found: ByExplainer) -> tuple[Overlap, ...]:
    """Compare the paths of every two explainers."""
    shown = {name: [_shown(e) for e in explanations] for name, explanations in found.items()}
    return tuple(_overlap(one, other, shown[one], shown[other]) for one, other in combinations(shown, 2))


_Shown = tuple[frozenset[Fact], tuple[Fact, ...]]  # the facts of the first paths, and the first path


def _shown(explanation: Explanation) -> _Shown:
    paths = explanation.evidence[:PATHS_COMPARED]
    facts = frozenset(Fact(f.head, f.relation, f.tail) for path in paths for f in path.facts)
    return facts, paths[0].facts if paths else ()


def _overlap(one: str, other: str, ones: Sequence[_Shown], others: Sequence[_Shown]) -> Overlap:
    pairs = [(a, b) for a, b in zip(ones, others, strict=True) if a[0] or b[0]]
    if not pairs:
        return Overlap(one, other, math.nan, math.nan, 0)
    facts = [len(a[0] & b[0]) / len(a[0] | b[0]) for a, b in pairs]
    first = [a[1] == b[1] for a, b in pairs]
    return Overlap(one, other, float(np.mean(facts)), float(np.mean(first)), len(pairs))
