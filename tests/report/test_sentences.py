"""What the numbers of an explanation are said to mean: no more than they do, and doubts as plainly as proof."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from variants import as_older, by_carried

from powerlink.explanation import Explanation, Outcome
from powerlink.report import sentences
from powerlink.report.html import render_page
from powerlink.report.measures import Measure, leading, odds_share, slight_hops, work_apart


def test_the_lead_tells_what_goes_with_the_paths(france: Explanation) -> None:
    assert sentences.lead(france) == (
        "Without these 5 paths the score falls from 7.31 to 1.02, and the rank goes from 1 to 412."
    )
    assert sentences.lead(replace(france, score=None)) == ""


def test_the_lead_says_that_the_rank_does_not_move(france: Explanation) -> None:
    still = replace(france, without_all=Outcome(1.02, 1.0))
    assert "but the rank stays 1: the rank does not hang on them." in sentences.lead(still)
    one = replace(still, evidence=still.evidence[:1])
    assert "Without this path" in sentences.lead(one)
    assert "does not hang on it." in sentences.lead(one)


@pytest.mark.parametrize(
    ("score", "rank", "words"),
    [
        (7.31 - 0.69, 2.0, None),
        (7.31 - 0.70, 2.0, "falls to 6.61, and the rank goes from 1 to 2: by themselves they do not carry the answer."),
        (-3.0, 1.0, "falls to −3.00: by themselves they do not carry the score, though the rank stays 1."),
        (-3.0, None, "falls to −3.00: by themselves they do not carry it."),
    ],
)
def test_the_lead_says_that_only_these_are_not_enough(
    france: Explanation, score: float, rank: float | None, words: str | None
) -> None:
    lead = sentences.lead(replace(france, only_these=Outcome(score, rank)))
    assert ("With only these" in lead) == (words is not None)
    assert words is None or words in lead


def test_the_lead_says_that_facts_work_one_by_one(france: Explanation) -> None:
    assert not work_apart(france)
    apart = replace(france, evidence=tuple(replace(path, together=0.01 / 2.29) for path in france.evidence))
    assert work_apart(apart)
    assert sentences.lead(apart).endswith("The facts of these paths work one by one, hardly together.")
    assert not work_apart(as_older(apart))
    single = replace(apart, evidence=apart.evidence[-1:])
    assert not work_apart(single), "one fact cannot work with another"


def test_slight_hops_are_those_that_a_longer_path_could_spare(france: Explanation) -> None:
    assert [slight_hops(france, path) for path in france.evidence] == [(), (1,), (), (), ()]
    path = france.evidence[1]  # falls by 1.21: a twentieth of it is 0.0605
    for effect, slight in ((0.0604, (1,)), (0.0606, ()), (-0.0604, (1,)), (-0.0606, ()), (None, ())):
        facts = (path.facts[0], replace(path.facts[1], effect=effect), path.facts[2])
        assert slight_hops(france, replace(path, facts=facts)) == slight
    none, all_three = (tuple(replace(fact, effect=effect) for fact in path.facts) for effect in (0.0, 1.0))
    assert slight_hops(france, replace(path, facts=none)) == (), "a path is not all decoration"
    ends = (none[0], all_three[1], none[2])
    assert slight_hops(france, replace(path, facts=ends)) == (0, 2)
    two = replace(france.evidence[0], facts=(replace(path.facts[0], effect=0.0), path.facts[1]))
    assert slight_hops(france, two) == (), "two facts have none to spare"


def test_the_order_is_told_as_it_is(france: Explanation) -> None:
    carried = by_carried(france)
    assert "those that carry nothing together, by the fall of the score." in sentences.order(carried)
    some = replace(carried, evidence=carried.evidence[:3])
    assert sentences.order(some) == "Fewest facts first, then by what they carry together."


def test_the_first_number_is_the_one_that_orders(france: Explanation) -> None:
    assert leading(france) is Measure.WITHOUT
    assert leading(by_carried(france)) is Measure.TOGETHER
    assert leading(as_older(by_carried(france))) is Measure.WITHOUT
    assert leading(replace(france, made_by=None)) is Measure.WITHOUT


@given(st.floats(-1e300, 1e300))
def test_the_share_of_the_odds_is_bounded_and_odd(fall: float) -> None:
    assert -1 <= odds_share(fall) <= 1
    assert odds_share(-fall) == -odds_share(fall)
    assert (odds_share(fall) > 0) == (fall > 0)


def test_half_the_odds_are_half_a_side() -> None:
    assert odds_share(math.log(2)) == pytest.approx(0.5)
    assert odds_share(0.0) == 0
    assert odds_share(0.01) == pytest.approx(0.01, rel=0.01)


def test_the_area_under_the_deletion_curve_is_per_fact(france: Explanation) -> None:
    line = replace(france, score=5.0, deletion=(4.0, 3.0, 2.0))
    assert line.deletion_area == pytest.approx(1.0), "a fact takes 1, whichever it is"
    assert replace(line, deletion=(4.0, 3.0)).deletion_area == pytest.approx(1.0), "and however many there are"
    assert replace(line, deletion=(3.0, 3.0)).deletion_area == pytest.approx((2 + 1) / 2)
    assert replace(line, deletion=()).deletion_area is None
    assert replace(line, score=None).deletion_area is None


def test_many_steps_are_told_by_the_first_and_the_last(france: Explanation) -> None:
    assert sentences.deletion_row(replace(france, deletion=(2.0, -1.0))) == "2.00 · −1.00"
    nine, ten = (sentences.deletion_row(replace(france, deletion=tuple(map(float, range(n))))) for n in (9, 10))
    assert "…" not in nine
    assert ten.endswith("7.00 · … · 9.00")


def test_the_mean_fall_says_over_what(france: Explanation) -> None:
    told = [sentences.deletion_mean(replace(france, deletion=(6.31,) * n)) for n in (0, 1, 2, 3)]
    assert told == [
        "",
        "without 1 fact; deletion area 1.00",
        "without 1, 2 facts; deletion area 0.75",
        "without 1, 2, … 3 facts; deletion area 0.61",
    ]


def test_a_reason_that_holds_the_score_down_is_told_to(france: Explanation) -> None:
    assert france.score is not None
    path = replace(france.evidence[0], together=0.3, score_without=france.score + 0.2)
    assert "without them the score rises: one of them speaks against" in sentences.against_note(france, path)
    assert sentences.against_note(france, replace(path, score_without=france.score - 0.2)) == ""
    assert sentences.against_note(france, replace(path, together=0.0)) == ""
    assert sentences.against_note(france, replace(path, together=None)) == "", "older reports do not know"
    shown = replace(by_carried(france), evidence=(path,))
    assert "one of them speaks against the answer" in " ".join(render_page([shown], "t").split())
