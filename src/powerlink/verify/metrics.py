"""The metrics of the paper, and those a user should believe, as arithmetic over explanations.

Both protocols are described in docs/method.md. Every figure comes with the number of queries behind it and a
95 % bootstrap interval over queries; every status is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from powerlink.explanation import Explanation

Measurement = Literal["powerlink", "paper"]
FIRST_FACTS = (1, 2, 4, 8)  # by which explainers are set side by side that name few facts and that name many
RESAMPLES = 2000
PICKS_AT_ONCE = 1_000_000  # queries drawn at a time: bounds memory to a few MB


@dataclass(frozen=True)
class Figure:
    """A mean over queries with its 95 % interval."""

    metric: str
    protocol: Measurement
    mean: float
    low: float
    high: float
    queries: int


AnyFigure = TypeVar("AnyFigure", bound=Figure)


@dataclass(frozen=True)
class Evaluation:
    """All figures of a set of explanations."""

    figures: tuple[Figure, ...]
    statuses: dict[str, int]
    queries: int


def evaluate(explanations: Sequence[Explanation], seed: int = 0) -> Evaluation:
    """Summarise explanations in both protocols."""
    tops = sorted({m for e in explanations for m in e.without_top})
    figures = [
        mean_over(Figure, name, protocol, np.array([v for v in map(read, explanations) if v is not None], float), seed)
        for name, protocol, read in readings(tops)
        if protocol == "powerlink" or was_measured(explanations)
    ]
    statuses = Counter(e.status.value for e in explanations)
    return Evaluation(tuple(f for f in figures if f is not None), dict(statuses), len(explanations))


Read = Callable[[Explanation], float | None]


def readings(tops: Sequence[int]) -> list[tuple[str, Measurement, Read]]:
    """List each metric with how it is read off one explanation; None leaves the query out of the mean."""
    ours: list[tuple[str, Measurement, Read]] = [(f"HΔR:{m}", "powerlink", partial(_rank_got_worse, m)) for m in tops]
    ours += [
        ("logit drop, each path", "powerlink", _mean_single_drop),
        ("logit drop, all paths", "powerlink", _joint_drop),
        ("logit drop, per fact", "powerlink", _drop_per_fact),
        *((f"logit drop, first {k} facts", "powerlink", partial(_drop_of_first, k)) for k in FIRST_FACTS),
        ("deletion area", "powerlink", _deletion_area),
        ("logit change, only these kept", "powerlink", _kept_by_these),
        ("paths shown", "powerlink", lambda e: float(len(e.evidence))),
        ("facts shown", "powerlink", lambda e: float(len(e.deletion))),
    ]
    paper: list[tuple[str, Measurement, Read]] = [
        ("F+", "paper", lambda e: e.paper.fidelity_plus if e.paper else None),
        ("F−", "paper", lambda e: e.paper.fidelity_minus if e.paper else None),
        ("Sparsity", "paper", lambda e: e.paper.sparsity if e.paper else None),
        ("Sparsity (kept edges)", "paper", lambda e: e.paper.sparsity_kept if e.paper else None),
    ]
    paper += [(f"HΔR:{m}", "paper", partial(_paper_rank_got_worse, m)) for m in tops]
    return ours + paper


def was_measured(explanations: Sequence[Explanation]) -> bool:
    """Say whether the paper's figures were asked for, or could not be of any."""
    return any(e.paper is not None for e in explanations) or not any(e.evidence for e in explanations)


def _rank_got_worse(top: int, e: Explanation) -> float:
    """A query without a path is no hit."""
    outcome = e.without_top.get(top)
    if outcome is None or outcome.rank is None or e.rank is None:
        return 0.0
    return float(outcome.rank > e.rank)


def _paper_rank_got_worse(top: int, e: Explanation) -> float | None:
    """A query without evidence is no hit; one that has some and was not measured is left out."""
    if e.paper is None or not e.evidence:
        return None if e.evidence else 0.0
    return float(e.paper.rank_without_top.get(top, e.paper.rank) > e.paper.rank)


def _mean_single_drop(e: Explanation) -> float | None:
    """A query whose paths move nothing, or that has none, counts as zero: leaving it out would flatter."""
    if e.score is None:
        return None
    return float(np.mean([e.score - path.score_without for path in e.evidence])) if e.evidence else 0.0


def _joint_drop(e: Explanation) -> float | None:
    if e.score is None:
        return None
    return e.score - e.without_all.score if e.without_all else 0.0


def _drop_per_fact(e: Explanation) -> float | None:
    """The fall without all shown facts, over their number: who names many has no advantage."""
    drop = _joint_drop(e)
    return drop if drop is None or not e.deletion else drop / len(e.deletion)


def _drop_of_first(count: int, e: Explanation) -> float | None:
    """The fall without the first facts, in the order in which they are shown; of fewer, without all there are."""
    if e.score is None:
        return None
    return e.score - e.deletion[min(count, len(e.deletion)) - 1] if e.deletion else 0.0


def _deletion_area(e: Explanation) -> float | None:
    """A query without paths has no curve, and counts as zero."""
    return None if e.score is None else e.deletion_area or 0.0


def _kept_by_these(e: Explanation) -> float | None:
    return None if e.only_these is None or e.score is None else e.only_these.score - e.score


def mean_over(
    kind: type[AnyFigure], metric: str, protocol: Measurement, values: NDArray[np.float64], seed: int
) -> AnyFigure | None:
    """Return the mean of values (n,), one of each query, with its interval; None of no values."""
    if not values.size:
        return None
    return kind(metric, protocol, float(values.mean()), *bootstrap_interval(values, seed), values.size)


def bootstrap_interval(values: NDArray[np.float64], seed: int, share: float = 0.95) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean, resampling queries."""
    generator = np.random.default_rng(seed)
    at_once = max(PICKS_AT_ONCE // values.size, 1)
    sizes = [min(at_once, RESAMPLES - first) for first in range(0, RESAMPLES, at_once)]
    picks = (generator.integers(0, values.size, (size, values.size)) for size in sizes)
    means = np.concatenate([values[part].mean(1) for part in picks])
    edge = (1 - share) / 2
    low, high = np.quantile(means, [edge, 1 - edge])
    return float(low), float(high)
