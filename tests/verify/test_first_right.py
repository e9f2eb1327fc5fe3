"""Which path is right, checked by hand and by the slow way; the figures, their pairs, and models taken together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerlink.explanation import Evidence, Explanation, Fact, Query, Status
from powerlink.kg.explained_links import Reasons
from powerlink.verify.first_right import Held, first_right, is_right, pooled, rows_of

NAMES = "abcdef"


def path_of(*nodes: str, backwards: frozenset[int] = frozenset()) -> Evidence:
    """A path over these entities by the relation r; some hops walk their fact from its tail."""
    hops = [
        Fact(v, "r", u, inverse=True) if i in backwards else Fact(u, "r", v) for i, (u, v) in enumerate(pairwise(nodes))
    ]
    return Evidence(tuple(hops), 1.0, 1.0, 0.0, None)


def facts_of(*pairs: str) -> frozenset[tuple[str, str, str]]:
    return frozenset((pair[0], "r", pair[1]) for pair in pairs)


PATH = path_of("a", "b", "c", "d", backwards=frozenset({1}))  # a→b, c→b walked backwards, c→d


@pytest.mark.parametrize(
    ("known", "touches", "exact", "plain"),
    [
        (Reasons(entities=frozenset("b")), True, False, True),
        (Reasons(entities=frozenset("bce")), True, True, True),
        (Reasons(entities=frozenset("ad")), False, False, False),  # head and tail never count
        (Reasons(facts=facts_of("cb")), True, False, True),
        (Reasons(facts=facts_of("bc")), False, False, False),  # another fact: the other way round
        (Reasons(facts=facts_of("ab", "cb", "cd", "ef")), True, True, True),
        (Reasons(paths=frozenset([facts_of("ab", "cb", "cd")])), True, True, True),
        (Reasons(paths=frozenset([facts_of("ab", "be", "ed")])), True, False, False),
        (Reasons(paths=frozenset([facts_of("ae", "ed")])), False, False, False),
        (Reasons(), False, False, False),
    ],
)
def test_both_readings_by_hand(known, touches, exact, plain):
    assert is_right(PATH, known, "touches") is touches
    assert is_right(PATH, known, "is") is exact
    assert is_right(PATH, known) is plain


def test_a_direct_fact_has_no_inner_entity():
    direct = path_of("a", "d")
    assert not is_right(direct, Reasons(entities=frozenset("ad")), "is")
    assert not is_right(direct, Reasons(entities=frozenset("ad")), "touches")
    assert is_right(direct, Reasons(facts=facts_of("ad")), "is")


def told(*paths: Evidence) -> Explanation:
    return Explanation(Query("a", "r", "f"), Status.EXPLAINED, 1.0, 1.0, paths)


walks = st.lists(st.sampled_from("bcde"), min_size=0, max_size=3, unique=True).map(lambda inner: ["a", *inner, "f"])


@given(st.lists(walks, max_size=6), st.frozensets(st.sampled_from(NAMES)), st.lists(walks, max_size=2))
def test_the_first_right_place_is_what_looking_at_each_path_gives(shown, entities, paths):
    known = Reasons(entities, paths=frozenset(facts_of(*map("".join, pairwise(walk))) for walk in paths))
    expected = float("inf")
    for place, walk in enumerate(shown, start=1):
        if set(walk[1:-1]) & entities or walk in paths:
            expected = place
            break
    assert first_right([told(*(path_of(*walk) for walk in shown))], [known]).tolist() == [expected]


def held(way: str, *places: float, seconds: float = 1.0, **auc: list[float]) -> Held:
    values = {name: np.array(numbers) for name, numbers in auc.items()}
    return Held(way, np.array(places, dtype=np.float64), seconds, values)


INF = float("inf")


def test_figures_are_means_and_a_query_without_a_right_path_counts_nothing():
    (row,) = rows_of([held("one", 1, 2, 4, INF, facts=[1.0, np.nan, 0.5, np.nan])], depth=5)
    means = {name: figure.mean for name, figure in row.figures.items()}
    assert means == pytest.approx(
        {"MRR": 1.75 / 4, "hit@1": 0.25, "hit@3": 0.5, "hit@5": 0.75, "shown": 0.75, "AUC facts": 0.75}
    )
    assert row.figures["AUC facts"].queries == 2
    assert row.figures["MRR"].low <= row.figures["MRR"].mean <= row.figures["MRR"].high
    assert row.differences == {}
    assert row.places == [1, 2, 4, None]


def test_differences_are_paired_with_the_first():
    rng = np.random.default_rng(0)
    first = rng.integers(1, 10, 200).astype(float)
    better = np.maximum(first - 1, 1)
    rows = rows_of([held("first", *first), held("better", *better), held("same", *first)], depth=10)
    gap = rows[1].differences["MRR"]
    assert gap.mean == pytest.approx((1 / better - 1 / first).mean())
    assert gap.significant
    assert 0 < gap.low < gap.mean < gap.high
    same = rows[2].differences["MRR"]
    assert (same.low, same.mean, same.high) == (0, 0, 0)
    assert not same.significant


def test_what_belongs_together_is_resampled_together():
    rng = np.random.default_rng(1)
    first, second = rng.integers(1, 10, 60).astype(float), rng.integers(1, 10, 60).astype(float)
    once = rows_of([held("a", *first), held("b", *second)], depth=10)
    units = [*range(60)] * 3
    thrice = rows_of([held("a", *[*first] * 3), held("b", *[*second] * 3)], depth=10, unit=units)
    alone = rows_of([held("a", *[*first] * 3), held("b", *[*second] * 3)], depth=10)
    for one, three, naive in zip(once, thrice, alone, strict=True):
        figure = three.figures["MRR"]
        assert (figure.mean, figure.low, figure.high) == pytest.approx(
            (one.figures["MRR"].mean, one.figures["MRR"].low, one.figures["MRR"].high)
        )
        assert naive.figures["MRR"].high - naive.figures["MRR"].low < 0.8 * (figure.high - figure.low)
    gap = thrice[1].differences["MRR"]
    assert (gap.mean, gap.low, gap.high) == pytest.approx(
        (once[1].differences["MRR"].mean, once[1].differences["MRR"].low, once[1].differences["MRR"].high)
    )


def test_models_together_are_all_their_queries():
    one = [held("x", 1, 2, seconds=1.0, facts=[0.5, 0.6]), held("y", INF, 1)]
    other = [held("x", 3, seconds=4.0, facts=[0.7]), held("y", 1)]
    x, y = pooled([one, other])
    assert (x.way, x.places.tolist(), x.auc["facts"].tolist()) == ("x", [1, 2, 3], [0.5, 0.6, 0.7])
    assert x.seconds == pytest.approx(2.0)
    assert y.places.tolist() == [INF, 1, 1]
