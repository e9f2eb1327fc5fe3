"""Names are harmless, and numbers show the digits that matter."""

from __future__ import annotations

import pytest

from powerlink.explanation import Query
from powerlink.report import wording


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("France", "France"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202eabc", "\\u202eabc"),
        ("\u2067abc\u2069", "\\u2067abc\\u2069"),
        ("\u2028\x85", "\\u2028\\x85"),
        ("\ud800", "\\ud800"),
        ("👩‍👧", "👩‍👧"),
        ("می‌خواهم", "می‌خواهم"),
        ("", '""'),
        (" ", '" "'),
    ],
)
def test_names_are_harmless(name: str, shown: str) -> None:
    assert wording.harmless(name) == shown


def test_only_right_to_left_names_are_isolated() -> None:
    assert wording.isolated("Zürich") == "Zürich"
    assert wording.isolated("שלום") == "\u2068שלום\u2069"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (7.31, 5.02, ("7.31", "5.02", "−2.29")),
        (1.0, 1.0, ("1.00", "1.00", "±0.00")),
        (1.0, 1.5, ("1.00", "1.50", "+0.50")),
        (-3.25, -3.2541, ("−3.2500", "−3.2541", "−0.0041")),
        (2.0, 1.9999999999, ("2.000000", "2.000000", "−1e−10")),
        (0.001, -0.001, ("0.0010", "−0.0010", "−0.0020")),
        (1e9, 1.0, ("1e+09", "1.00", "−1e+09")),
    ],
)
def test_changes(before: float, after: float, words: tuple[str, str, str]) -> None:
    change = wording.change(before, after)
    assert (change.before, change.after, change.difference) == words


@pytest.mark.parametrize(
    ("chance", "words"),
    [
        (0.5, "50.0 %"),
        (0.99933, "99.93 %"),
        (0.231, "23.1 %"),
        (1.0, "> 99.99 %"),
        (0.0, "< 0.01 %"),
        (0.0025, "0.25 %"),
    ],
)
def test_probabilities(chance: float, words: str) -> None:
    assert wording.probability(chance) == words


def test_ranks_and_counts() -> None:
    assert [wording.rank(rank) for rank in (1.0, 2.5, 14541.0)] == ["1", "2.5", "14,541"]
    assert wording.counted(1, "path") == "1 path"
    assert wording.counted(1200, "path") == "1,200 paths"
    assert [wording.counted(n, "query") for n in (1, 3)] == ["1 query", "3 queries"]
    assert wording.number(-0.001) == "0.00"
    assert wording.ranked(Query("h", "r", "t", inverse=True)) == "among heads"


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.412, "0.41"), (0.0123, "0.012"), (0.0006, "0.001"), (0.0004, "0.00"), (-0.0731, "−0.073"), (12.0, "12.00")],
)
def test_parts_of_a_score_show_what_differs_from_nothing(value: float, words: str) -> None:
    assert wording.amount(value) == words


@pytest.mark.parametrize(("words", "said"), [("it is so", "It is so."), (" Really? ", "Really?"), ("a.", "A.")])
def test_sentences_end(words: str, said: str) -> None:
    assert wording.sentence(words) == said


def test_what_is_carried_together_is_told_in_words_where_digits_show_none() -> None:
    said = {0.412: "0.41", 0.0004: "next to nothing", 0.0: "0.00", -0.0004: "0.00", -0.0731: "−0.073"}
    assert {value: wording.carried(value) for value in said} == said
