"""JSON Lines: nothing is lost, nothing unsafe is written, and every flaw of a file is named."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powerlink.errors import DataError
from powerlink.explainers.remarks import NO_WALK
from powerlink.explanation import (
    Evidence,
    Explanation,
    Fact,
    GraphSize,
    MadeBy,
    Outcome,
    PaperMetrics,
    Query,
    Status,
)
from powerlink.report.schema import SCHEMA, from_json, read_complete, read_explanations, to_json

DOCUMENT = Path(__file__).parents[2] / "docs/reference/report-schema.md"

names = st.text()
numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 10**9)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
outcomes = st.builds(Outcome, numbers, st.none() | numbers)
facts = st.builds(Fact, names, names, names, st.booleans(), st.booleans(), st.none() | numbers)
paths = st.builds(
    Evidence,
    st.lists(facts, max_size=3).map(tuple),
    numbers,
    numbers,
    numbers,
    st.none() | numbers,
    names,
    st.none() | numbers,
    counts,
)
by_count = st.integers(1, 999)
explanations = st.builds(
    Explanation,
    st.builds(Query, names, names, names, st.booleans()),
    st.sampled_from(Status),
    st.none() | numbers,
    st.none() | numbers,
    st.lists(paths, max_size=3).map(tuple),
    st.none() | outcomes,
    st.none() | outcomes,
    st.dictionaries(by_count, outcomes, max_size=3),
    st.lists(numbers, max_size=3).map(tuple),
    counts,
    st.lists(names, max_size=3).map(tuple),
    st.none()
    | st.builds(
        PaperMetrics, numbers, numbers, numbers, numbers, numbers, st.dictionaries(by_count, numbers, max_size=3)
    ),
    st.none() | st.builds(GraphSize, counts, counts, counts),
    st.none()
    | st.builds(
        MadeBy,
        names,
        st.dictionaries(names, json_values, max_size=3),
        st.dictionaries(names, json_values, max_size=3),
        st.integers(),
        names,
        names,
        names,
        st.dictionaries(names, names, max_size=3),
    ),
    st.none() | st.floats(0, 1),
)


@settings(deadline=None)
@given(explanations)
def test_nothing_is_lost(explanation: Explanation) -> None:
    line = to_json(explanation)
    assert from_json(line) == explanation
    assert to_json(from_json(line)) == line
    assert len(line.splitlines()) == 1
    assert json.loads(line)["schema"] == SCHEMA


def test_hostile_names_come_back(hostile: Explanation) -> None:
    line = to_json(hostile)
    line.encode("utf-8")
    assert from_json(line) == hostile
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", line)


def test_letters_stay_readable() -> None:
    assert "Zürich 日本" in to_json(Explanation(Query("Zürich 日本", "r", "t"), Status.NO_PATH, None, None))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_never_written(france: Explanation, value: float) -> None:
    with pytest.raises(DataError, match=r"^score is"):
        to_json(replace(france, score=value))
    spoiled = replace(france.evidence[1], score_without=value)
    with pytest.raises(DataError, match=r"^evidence\[1\]\.score_without is"):
        to_json(replace(france, evidence=(france.evidence[0], spoiled)))
    assert france.made_by is not None
    with pytest.raises(DataError, match=r"^made_by\.settings\.x is"):
        to_json(replace(france, made_by=replace(france.made_by, settings={"x": value})))


def test_a_setting_without_a_json_form_is_refused(france: Explanation) -> None:
    assert france.made_by is not None
    with pytest.raises(DataError, match=r"made_by\.settings\.x is a set"):
        to_json(replace(france, made_by=replace(france.made_by, settings={"x": {1}})))


def changed(explanation: Explanation, where: str, value: Any) -> str:
    """Return the line with one value replaced, or removed if it is `...`."""
    record = json.loads(to_json(explanation))
    place = record
    *steps, last = [int(step) if step.isdigit() else step for step in where.split(".")]
    for step in steps:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(record)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("query", ..., "query is missing"),
        ("made_by.seed", ..., "made_by.seed is missing"),
        ("evidence.1.facts.2.relation", ..., r"evidence\[1\].facts\[2\].relation is missing"),
        ("probability", "0.6", 'probability must be a number, not "0.6"'),
        ("without_all.rank", ..., "without_all.rank is missing"),
        ("query.head", 3, "query.head must be text, not 3"),
        ("query.inverse", 0, "query.inverse must be true or false, not 0"),
        ("score", "7", 'score must be a number, not "7"'),
        ("score", True, "score must be a number, not true"),
        ("score", 10**400, "score is too large"),
        ("considered", 1.5, "considered must be a whole number, not 1.5"),
        ("considered", None, "considered must be a whole number, not null"),
        ("evidence", {}, r"evidence must be an array, not \{\}"),
        ("evidence.0", None, r"evidence\[0\] must be an object, not null"),
        ("without_top", {"first": None}, "without_top has the key 'first'"),
        ("without_top", {"1": None}, "without_top.1 must be an object"),
        ("status", "fine", 'status is "fine"; it must be one of explained, '),
        ("status", ["explained"], "status is "),
        ("schema", 3, "newer powerlink .schema 3"),
        ("schema", ..., "not an explanation"),
        ("schema", "1", "not an explanation"),
        ("schema", True, "not an explanation"),
    ],
)
def test_flaws_are_named(france: Explanation, tmp_path: Path, where: str, value: Any, message: str) -> None:
    report = tmp_path / "report.jsonl"
    report.write_text(f"{to_json(france)}\n{changed(france, where, value)}\n", "utf-8")
    for read in (read_explanations, read_complete):
        with pytest.raises(DataError, match=message) as caught:
            read(report)
        assert str(caught.value).startswith(f"{report}, line 2: ")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "[]",
        "null",
        "1",
        '"schema"',
        '{"schema": 1',
        '{"schema": NaN}',
        '{"schema": 1e999}',
        "[" * 10**5,
    ],
)
def test_lines_that_are_no_explanation(line: str) -> None:
    with pytest.raises(DataError, match="not a"):
        from_json(line)


def test_keys_of_later_versions_are_ignored(france: Explanation) -> None:
    assert from_json(changed(france, "evidence.0.novelty", 1)) == france


def test_what_an_older_powerlink_did_not_write_takes_its_default(france: Explanation) -> None:
    assert from_json(changed(france, "probability", ...)) == replace(france, probability=None)
    assert from_json(changed(france, "deletion", ...)) == replace(france, deletion=())
    assert from_json(changed(france, "remarks", ...)) == replace(france, remarks=())
    for key, older in (("together", None), ("witnesses", 1)):
        assert from_json(changed(france, f"evidence.1.{key}", ...)).paths[1] == replace(
            france.evidence[1], **{key: older}
        )
    without_effect = replace(france.evidence[0].facts[0], effect=None)
    assert from_json(changed(france, "evidence.0.facts.0.effect", ...)).paths[0].facts[0] == without_effect
    unproposed = replace(france.evidence[0], proposed_by="")
    assert from_json(changed(france, "evidence.0.proposed_by", ...)).paths[0] == unproposed


VERSION_1 = Path(__file__).with_name("version_1.jsonl")  # written by powerlink 0.1 before there were sets and foils


def test_a_report_of_version_1_is_read_with_nothing_lost() -> None:
    lines = [json.loads(line) for line in VERSION_1.read_text("utf-8").splitlines()]
    found = read_explanations(VERSION_1)
    assert [line["schema"] for line in lines] == [1] * len(found)
    for line, explanation in zip(lines, found, strict=True):
        assert explanation.made_by is not None
        own, theirs = explanation.made_by.settings, explanation.made_by.explainer_settings
        assert line["made_by"]["settings"] == {**own, **theirs}
        assert set(theirs) == ({"points", "floor"} if explanation.made_by.explainer == "slopes" else {*theirs, "order"})
        again = json.loads(to_json(explanation))
        assert again["schema"] == SCHEMA
        assert [piece.pop("kind") for piece in again["evidence"]] == ["path"] * len(line["paths"])
        assert again.pop("evidence") == line.pop("paths")
        assert again["size"] is None or again["size"].pop("edges_looked_at") is None
        for changed_key in ("schema", "made_by", "query", "status", "remarks"):
            del again[changed_key], line[changed_key]
        assert again == line
    assert found[0].status is Status.EXPLAINED
    assert found[0].remarks == (NO_WALK,)
    assert from_json(to_json(found[0])) == found[0]


def test_whole_numbers_may_stand_for_numbers(france: Explanation) -> None:
    read = from_json(changed(france, "rank", 1))
    assert read == france
    assert isinstance(read.rank, float)


def test_a_report_is_read_in_order(france: Explanation, no_path: Explanation, tmp_path: Path) -> None:
    report = tmp_path / "report.jsonl"
    report.write_bytes(b"\xef\xbb\xbf" + f"{to_json(france)}\r\n\n{to_json(no_path)}".encode())
    assert read_explanations(report) == [france, no_path]


def test_a_report_that_is_not_utf8_or_not_there(tmp_path: Path) -> None:
    report = tmp_path / "report.jsonl"
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_explanations(report)
    with pytest.raises(DataError, match="cannot be read"):
        read_complete(tmp_path)
    report.write_bytes(b'{"schema": "\xff"}\n')
    with pytest.raises(DataError, match="line 1: not UTF-8 at byte 13"):
        read_explanations(report)


def test_a_killed_writer_loses_its_last_line_only(france: Explanation, no_path: Explanation, tmp_path: Path) -> None:
    report = tmp_path / "report.jsonl"
    first, second = (f"{to_json(explanation)}\n".encode() for explanation in (france, no_path))
    for kept in range(0, len(second) - 1, 7):  # one byte less is a whole line that only lacks its end
        report.write_bytes(first + second[:kept])
        found, offset = read_complete(report)
        assert found == [france]
        assert offset == len(first)
    with pytest.raises(DataError, match=r"line 2: .*was its writer stopped"):
        read_explanations(report)
    with report.open("r+b") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(second)
    assert read_complete(report) == ([france, no_path], len(first + second))
    report.write_bytes(b"")
    assert read_complete(report) == ([], 0)


def test_the_keys_are_the_documented_ones(france: Explanation) -> None:
    record = json.loads(to_json(france))
    assert list(record) == [
        "schema", "query", "status", "score", "rank", "evidence", "without_all", "only_these", "without_top",
        "deletion", "considered", "remarks", "paper", "size", "made_by", "probability",
    ]  # fmt: skip
    documented = set(re.findall(r"`(\w+)`", DOCUMENT.read_text("utf-8")))
    kinds = (Explanation, Query, Fact, Outcome, Evidence, PaperMetrics, GraphSize, MadeBy)
    assert all(map(is_dataclass, kinds))
    keys = {field.name for kind in kinds for field in fields(kind)} | {"schema"}
    assert keys - documented == set()
    assert {str(status) for status in Status} - documented == set()


def test_the_document_says_what_each_status_means() -> None:
    text = DOCUMENT.read_text("utf-8")
    for status in Status:
        assert f"| `{status}` | {status.meaning} |" in text


def test_the_documented_example_is_an_explanation() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    explanation = from_json(example)
    assert explanation.status is Status.EXPLAINED
    assert json.loads(to_json(explanation)) == json.loads(example)
