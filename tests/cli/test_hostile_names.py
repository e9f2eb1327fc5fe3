"""Names are untrusted: whatever they hold stays inert and readable in the terminal, in JSON and in HTML."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from html.parser import HTMLParser

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import call_once

from powerlink.report.schema import read_explanations

NAMES = {
    "script": "<script>alert(1)</script>",
    "quotes": "\"double\" and 'single' & <b>",
    "emoji": "👩‍👩‍👧 family :smile:",
    "right to left": "مرحبا بالعالم",
    "override": "abc\u202edcba",
    "markup": "[red]not red[/red] [/nothing]",
    "tab": "one\ttwo",
    "newline": "one\ntwo\r\nthree",
    "escape": "\x1b[31mred\x1b[0m\x07",
    "template": "{{ 7 * 7 }} {% raw %} %s {0}",
    "blank": " ",
    "dash": "--help",
}
RELATION = "<blink>[bold]is\tin</blink>"
ROWS = [(name, RELATION, "the middle") for name in NAMES.values()] + [
    ("the middle", "knows", name) for name in NAMES.values()
]
ASKED = [(name, RELATION, other) for name, other in zip(NAMES.values(), [*list(NAMES.values())[1:], "a"], strict=True)][
    :-1
]


@pytest.fixture(scope="module", params=["csv", "parquet"])
def hostile_model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"hostile-{request.param}")
    data = folder / "[red]data"
    data.mkdir()
    for split, rows in {"train": ROWS, "valid": ASKED[:3], "test": ASKED}.items():
        if request.param == "csv":
            (data / f"{split}.csv").write_bytes(as_csv(rows))
        else:
            columns = dict(zip(("head", "relation", "tail"), zip(*rows, strict=True), strict=True))
            pq.write_table(pa.table(columns), data / f"{split}.parquet")
    call_once("train", "--data", data, "--epochs", 3, "--dim", 10, "--layers", 1, "--out", folder / "model")
    return folder / "model"


def as_csv(rows):
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("head", "relation", "tail"), *rows])
    return text.getvalue().encode()


def assert_inert(text):
    """No control character but the line's end, and nothing that reorders what follows it."""
    for char in text:
        assert char == "\n" or unicodedata.category(char) not in {"Cc", "Cs", "Zl", "Zp"}, repr(char)
        assert char not in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067", repr(char)
    assert text.count("\u2068") == text.count("\u2069")


@pytest.mark.parametrize("kind", NAMES)
def test_a_hostile_name_is_asked_for_and_told(powerlink, hostile_model, kind):
    name = NAMES[kind]
    asked = (f"--head={name}", f"--relation={RELATION}")
    outcome = powerlink("predict", hostile_model, *asked, "--top", 30)
    assert (outcome.code, outcome.err) == (0, "")
    assert_inert(outcome.out)
    answers = json.loads(powerlink("predict", hostile_model, *asked, "--top", 30, "--json").out)
    assert {answer["head"] for answer in answers} == {name}
    assert set(NAMES.values()) <= {answer["tail"] for answer in answers}
    explained = powerlink("explain", hostile_model, *asked, "--tail=the middle", "--max-length", 2)
    assert explained.code == 0
    assert_inert(explained.out)
    if kind in ("script", "markup", "template"):
        assert name in explained.out


def test_json_for_machines_is_inert_too(powerlink, hostile_model):
    for command in (("explain", "--split", "test"), ("predict", f"--relation={RELATION}", "--head= ")):
        outcome = powerlink(command[0], hostile_model, *command[1:], "--json")
        assert_inert(outcome.out)
    assert_inert(powerlink("rank", hostile_model, "--json").out)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []
        self.text = []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)


def test_the_whole_way_with_hostile_names(powerlink, hostile_model, tmp_path):
    queries = tmp_path / "queries.csv"
    queries.write_bytes(as_csv(ASKED))
    out, page = tmp_path / "[bold]out.jsonl", tmp_path / "[red]r.html"
    outcome = powerlink("explain", hostile_model, "--queries", queries, "--out", out)
    assert outcome.code == 0
    assert f"{len(ASKED)} explanations in {out}" in outcome.said
    found = read_explanations(out)
    assert [(e.query.head, e.query.relation, e.query.tail) for e in found] == ASKED
    assert any(e.paths for e in found)
    assert_inert(out.read_text("utf-8"))
    assert_inert(powerlink("evaluate", hostile_model, out).out)
    assert powerlink("report", hostile_model, out, "--out", page).said == f"{len(ASKED)} explanations in {page}"
    text = page.read_text("utf-8")
    tags = Tags()
    tags.feed(text)
    assert not {tag for tag, _ in tags.tags} & {"blink", "script", "img", "iframe"}
    assert "alert(1)</script>" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert not any(name.startswith("on") for _, attributes in tags.tags for name in attributes)
    assert "{{ 7 * 7 }}" in "".join(tags.text)
    again = powerlink("explain", hostile_model, "--queries", queries, "--out", out)
    assert f"{len(ASKED)} of {len(ASKED)} are already in" in again.said


def test_the_name_of_the_graph_is_plain_text(powerlink, hostile_model):
    assert "[red]data" in powerlink("rank", hostile_model).out


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\nb", "[red]x[/red]", ":smile:", "\u202eabc"])
def test_a_hostile_name_that_is_not_there_is_still_one_sentence(refused, hostile_model, name):
    outcome = refused("predict", hostile_model, f"--head={name}", f"--relation={RELATION}")
    assert_inert(outcome.err)
    assert re.search("there is no entity named", outcome.err)
    if name.startswith(("[", ":")):
        assert name in outcome.err


def test_a_path_that_is_not_utf8_is_printed_all_the_same(powerlink, hostile_model, tmp_path):
    out = str(tmp_path) + "/\udcff.jsonl"
    asked = (f"--head={NAMES['tab']}", f"--relation={RELATION}", "--tail=the middle")
    outcome = powerlink("explain", hostile_model, *asked, "--out", out)
    assert outcome.code == 0
    assert "\\udcff.jsonl" in outcome.out
