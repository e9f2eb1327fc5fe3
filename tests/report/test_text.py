"""The terminal: readable at 80 columns without colour, whatever the names are."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console
from variants import as_older, by_carried

from powerlink.explanation import Explanation, Outcome, Query, Status
from powerlink.report.text import ExplanationText, print_explanations, render_summary


def shown(*explanations: Explanation, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_explanations(console, explanations)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_full_card(france: Explanation) -> None:
    text = shown(france)
    assert text.startswith("France ─located_in→ Europe\nscore 7.31 (probability 62.5 %), rank 1 among tails\n")
    for line in (
        "France ─in_region→ Western Europe ─part_of→ Europe",
        "without it: score 7.31 → 5.02 (−2.29), rank 1 → 3",
        "France ←borders─ Germany ┄in_region→ Western Europe ─part_of→ Europe",
        "hop 2: not seen by the model",
        "France ─member_of→ European Union ←has_organisation─ Europe",
        "rank 1 → 2.5",
        "proposed by gradient",
        "without all of these: score 7.31 → 1.02 (−6.29), rank 1 → 412",
        "with only these:      score 7.31 → 7.01 (−0.30), rank 1 → 1",
        "Without these 5 paths the score falls from 7.31 to 1.02, and the rank goes from",
        "Why: ordered by the fall of the score, each on top of those before it",
        "carried together: 0.30 ",
        "each alone: 2.09 · 0.50 ",
        "each alone: 0.60 · 0.020 · 0.90 (hop 2 changes next to nothing)",
        "one of 12 such paths: they differ only in hops that change next to nothing",
        "How much hangs on these\n",
        "fact after fact:      5.22 · 5.02 · 4.10 · 3.45 · 3.40 · 3.20 · 3.10 · 2.60 · …",
        "without 1, 2, … 10 facts; deletion area 0.91",
        "57 candidate paths judged on the model",
    ):
        assert line in text
    assert "explained" not in text
    assert "hop 2 changes" not in text.split("Germany ┄")[1], "what the model does not see is told as that"


def test_the_number_that_orders_the_paths_comes_first(france: Explanation) -> None:
    def first(explanation: Explanation) -> list[str]:
        return re.findall(r"^│ (carried together|without it|cost)", shown(explanation), re.MULTILINE)

    assert first(france)[:2] == ["without it", "carried together"]
    assert first(by_carried(france))[:2] == ["carried together", "without it"]
    assert "carried together: 0.30" in shown(by_carried(france))
    assert "Why: fewest facts first, then by what they carry together; behind them" in shown(by_carried(france))
    assert france.made_by is not None
    mask = replace(france, made_by=replace(france.made_by, settings={"select": "mask"}))
    assert first(mask)[:3] == ["cost", "carried together", "without it"]
    assert "cost: 0.70 (score 0.50)" in shown(mask)


def test_an_older_report_says_what_it_knows(france: Explanation) -> None:
    text = shown(as_older(france))
    for words in ("carried", "alone", "fact after fact", "such paths"):
        assert words not in text
    assert "without it: score 7.31 → 5.02 (−2.29), rank 1 → 3" in text


def test_doubts_stand_before_the_paths(france: Explanation) -> None:
    doubted = replace(france, status=Status.FAINT, remarks=("the mask is 1 nearly everywhere", "and so on."))
    text = shown(doubted)
    assert text.index("Faint: evidence was found") < text.index("Doubt: The mask is 1 nearly everywhere.\n")
    assert text.index("Doubt: And so on.\n") < text.index("Why: ")


def test_a_probability_that_is_not_calibrated_is_not_shown(france: Explanation) -> None:
    text = shown(replace(france, probability=None))
    assert text.startswith("France ─located_in→ Europe\nscore 7.31, rank 1 among tails\n")
    assert "%" not in text


def test_a_status_is_a_sentence(no_path: Explanation) -> None:
    text = shown(no_path)
    assert "rank 532 among heads" in text
    assert "No path: no path of the allowed lengths connects head and tail." in text
    assert "judged" not in text


@pytest.mark.parametrize("status", Status)
def test_every_status_can_be_shown_bare(status: Status) -> None:
    explanation = Explanation(Query("A", "r", "B"), status, None, None)
    meaning = "" if status is Status.EXPLAINED else status.meaning.split()[0]
    assert meaning in shown(explanation)


def test_what_was_not_measured_is_left_out(france: Explanation) -> None:
    bare = replace(france, rank=None, without_all=Outcome(1.0, None), only_these=None)
    text = shown(bare)
    assert "rank" not in text.replace("rank 1 → 3", "")
    assert "with only these" not in text
    assert "fact after fact" not in shown(replace(france, deletion=()))
    assert "without it" not in shown(replace(france, score=None))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_hostile_names_stay_inside_their_lines(hostile: Explanation, width: int) -> None:
    text = shown(hostile, width=width)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066\u2067]", text)
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert text.count("\u2068") == text.count("\u2069")


def test_markup_in_names_is_only_text() -> None:
    name = "[bold red]x[/] [link=file:///x]y[/link] :smile:"
    explanation = Explanation(Query(name, name, name), Status.NO_PATH, 1.0, 1.0)
    assert shown(explanation, width=300).startswith(f"{name} ─{name}→ {name}\n")
    coloured = Console(file=io.StringIO(), width=300, force_terminal=True, color_system="truecolor")
    coloured.print(ExplanationText(explanation))
    assert name in coloured.file.getvalue()  # type: ignore[attr-defined]


def test_a_terminal_without_unicode(france: Explanation) -> None:
    raw = io.BytesIO()
    explanation = replace(france, query=Query("Zürich", "located_in", "Europe"))
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii"), width=80)
    print_explanations(console, [explanation])
    console.file.flush()
    text = raw.getvalue().decode("ascii")
    assert "Z\\xfcrich -located_in> Europe" in text
    assert "score 7.31 > 5.02 (-2.29)" in text


def test_the_summary_counts_and_explains(france: Explanation, no_path: Explanation) -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(render_summary([france, france, no_path]))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.startswith("3 queries\n")
    assert re.search(r"2 +explained +evidence was found and proven on the model", text)
    assert re.search(r"1 +no path +no path of the allowed lengths", text)
    assert "not finite" not in text
    console.print(render_summary([]))


def test_no_colour_when_not_a_terminal(france: Explanation) -> None:
    assert "\x1b" not in shown(france)
