"""Figures and paired differences against the plain way to compute them; overlaps by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from powerlink.explanation import Evidence, Explanation, Fact, Outcome, PaperMetrics, Query, Status
from powerlink.verify.comparison import FEWEST, Difference, compare_figures, compare_paths
from powerlink.verify.metrics import RESAMPLES, bootstrap_interval


def told(number: int, drop: float, fidelity: float | None = 0.5, paths: tuple[Evidence, ...] = ()) -> Explanation:
    paper = None if fidelity is None else PaperMetrics(fidelity, 0.1, 0.9, 0.8, 1.0, {1: 1.0, 3: 2.0, 5: 2.0})
    return Explanation(
        Query("h", "r", f"t{number}"),
        Status.EXPLAINED if fidelity is not None else Status.HEAD_IS_TAIL,
        score=2.0,
        rank=1.0,
        evidence=paths,
        without_all=Outcome(2.0 - drop, 1.0),
        paper=paper,
    )


def walk(*names: str) -> Evidence:
    """A path a → b → c; a name with a minus is walked against its fact."""
    facts = []
    for source, target in pairwise(names):
        one, other = source.lstrip("-"), target.lstrip("-")
        facts.append(Fact(other, "r", one, inverse=True) if target.startswith("-") else Fact(one, "r", other))
    return Evidence(tuple(facts), 0.5, 1.0, 0.0, 1.0)


def direct_interval(values: np.ndarray, seed: int) -> tuple[float, float]:
    """One resample after the other, sorted, and the values at both edges."""
    random = np.random.default_rng(seed)
    means = []
    for _ in range(RESAMPLES):
        total = 0.0
        for place in random.integers(0, len(values), len(values)):
            total += values[place]
        means.append(total / len(values))
    return float(np.percentile(means, 2.5)), float(np.percentile(means, 97.5))


@pytest.mark.parametrize("size", [1, 7, 700])
def test_the_bootstrap_is_the_direct_one(size):
    values = np.random.default_rng(5).normal(size=size)
    assert bootstrap_interval(values, 3) == pytest.approx(direct_interval(values, 3), abs=1e-12)
    assert bootstrap_interval(values, 4) != bootstrap_interval(values, 3) or size == 1


def test_differences_are_paired_and_told_from_chance():
    """Queries differ by far more than explainers do: only in pairs can a small steady gain be seen."""
    random = np.random.default_rng(0)
    hard = random.normal(scale=5, size=60)
    gain = 0.1 + 0.05 * random.normal(size=60)
    noise = random.normal(size=60)
    found = {
        "first": [told(i, hard[i]) for i in range(60)],
        "better": [told(i, hard[i] + gain[i]) for i in range(60)],
        "chance": [told(i, hard[i] + noise[i] - noise.mean()) for i in range(60)],
        "same": [told(i, hard[i]) for i in range(60)],
    }
    rows = {row.explainer: row for row in compare_figures(found, seed=1)}
    metric = ("logit drop, all paths", "powerlink")
    assert rows["first"].differences == ()
    better = rows["better"].difference(*metric)
    assert better.mean == pytest.approx(gain.mean())
    assert (better.low, better.high) == pytest.approx(direct_interval(gain, 1), abs=1e-9)
    assert better.significant
    assert not rows["chance"].difference(*metric).significant
    same = rows["same"].difference(*metric)
    assert (same.mean, same.low, same.high, same.significant) == (0, 0, 0, False)
    figure = rows["first"].figure(*metric)
    assert (figure.mean, figure.queries) == (pytest.approx(hard.mean()), 60)
    assert (figure.low, figure.high) == pytest.approx(direct_interval(hard, 1), abs=1e-9)


def test_a_query_without_a_figure_is_left_out_of_the_pair():
    found = {
        "first": [told(0, 1.0, 0.2), told(1, 1.0, None), told(2, 1.0, 0.4)],
        "other": [told(0, 1.0, 0.3), told(1, 1.0, 0.9), told(2, 1.0, None)],
    }
    first, other = compare_figures(found)
    assert first.figure("F+", "paper").queries == other.figure("F+", "paper").queries == 2
    gap = other.difference("F+", "paper")
    assert (gap.queries, gap.mean) == (1, pytest.approx(0.1))
    assert first.statuses == {"explained": 2, "head_is_tail": 1}
    assert first.figure("HΔR:3", "paper").mean == 0.0  # without a path there is no hit


def test_overlap_by_hand():
    found = {
        "one": [
            told(0, 1, paths=(walk("h", "a", "t"), walk("h", "b", "t"))),
            told(1, 1, paths=(walk("h", "c", "t"),)),
            told(2, 1),
            told(3, 1, paths=(walk("h", "t"),)),
        ],
        "two": [
            told(0, 1, paths=(walk("h", "a", "t"),)),
            told(1, 1, paths=(walk("h", "-c", "t"),)),  # the first fact the other way round is another fact
            told(2, 1),
            told(3, 1),
        ],
    }
    (overlap,) = compare_paths(found)
    assert (overlap.one, overlap.other) == ("one", "two")
    assert overlap.queries == 3, "for the third query neither shows anything"
    assert overlap.facts == pytest.approx((2 / 4 + 1 / 3 + 0) / 3)
    assert overlap.first == pytest.approx(1 / 3)


def test_only_the_first_five_paths_count_and_nothing_at_all_is_told():
    many = tuple(walk("h", f"n{i}", "t") for i in range(7))
    (overlap,) = compare_paths({"a": [told(0, 1, paths=many)], "b": [told(0, 1, paths=many[:5])]})
    assert (overlap.facts, overlap.first) == (1.0, 1.0)
    (nothing,) = compare_paths({"a": [told(0, 1)], "b": [told(0, 1)]})
    assert nothing.queries == 0
    assert compare_figures({}) == ()
    assert compare_paths({"a": []}) == ()


def test_one_or_two_queries_are_never_marked():
    few, enough = (Difference("HΔR:1", "paper", 1.0, 1.0, 1.0, queries) for queries in (FEWEST - 1, FEWEST))
    assert not few.significant
    assert enough.significant
