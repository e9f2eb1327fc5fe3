"""The page: self-contained, inert to any name, well-formed, and small enough for many explanations."""

from __future__ import annotations

import math
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from variants import as_older, by_carried

from powerlink.explanation import Explanation, Query, Status
from powerlink.report.html import render_fragment, render_page
from powerlink.report.wording import harmless

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Document(HTMLParser):
    """Every tag with its attributes, all text, and whether every element was closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data

    def values(self, attribute: str) -> list[str | None]:
        return [attributes[attribute] for _, attributes in self.tags if attribute in attributes]


def check_inert(page: str) -> Document:
    document = Document(page)
    assert document.open == []
    tags = {tag for tag, _ in document.tags}
    assert not tags & {"script", "img", "iframe", "object", "embed", "link", "base", "form", "image", "use"}
    attributes = {name for _, found in document.tags for name in found}
    assert not any(name.startswith("on") for name in attributes)
    assert not attributes & {"src", "srcset", "action", "xlink:href", "formaction"}
    assert all(value and value.startswith("#") for value in document.values("href"))
    return document


def test_the_page_needs_nothing_else(france: Explanation, no_path: Explanation) -> None:
    page = render_page([france, no_path], "Why?")
    document = check_inert(page)
    assert not re.search(r"https?:|//[a-z]|@import|url\(|data:(?!;|\")", page)
    (policy,) = [a["content"] for t, a in document.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert page.index("Content-Security-Policy") < page.index("<style")
    assert page.lstrip().startswith("<!DOCTYPE html>")


def test_the_page_says_it_all(france: Explanation, no_path: Explanation) -> None:
    text = re.sub(r"\s+", " ", Document(render_page([france, no_path], "Why these?")).text)
    for words in (
        "Why these?",
        "2 predictions",
        "France located_in Europe",
        "1 explained evidence was found and proven on the model",
        "1 no path no path of the allowed lengths connects head and tail",
        "Without these 5 paths the score falls from 7.31 to 1.02, and the rank goes from 1 to 412.",
        "57 candidate paths judged on the model.",
        "score 7.31 probability 62.5 % rank 1 among tails",
        "Path 4: France member_of European Union; Europe has_organisation European Union.",
        "7.31 → 5.02 −2.29 rank 1 → 3",
        "without paths 1–2",
        "with only these",
        "hop 2: not seen by the model",
        "Dashed: not seen by the model.",
        "Why Ordered by the fall of the score",
        "one of 12 such paths: they differ only in hops that change next to nothing",
        "carried together 0.30",
        "each fact alone 0.60 · 0.020 · 0.90 (hop 2 changes next to nothing)",
        "How much hangs on these without path 1",
        "5.22 · 5.02 · 4.10 · 3.45 · 3.40 · 3.20 · 3.10 · 2.60 · … · 1.02",
        "without 1, 2, … 10 facts; deletion area 0.91",
        "0 to 2.09.",
        "proposed by gradient",
        "No path: no path of the allowed lengths connects head and tail.",
        "rank 532 among heads",
        "How this was made",
        "9f8e7d6c5b4a3210",
        "ab12cd34ef56ab78",
        "size weight 0.03",
        "torch 2.13.0",
        "fidelity+ (paper) 0.4100",
    ):
        assert words in text, words
    assert text.count("How this was made") == 1
    assert text.count("probability") == 1  # no_path has none


def test_the_drawing_is_readable_by_machines_and_screen_readers(france: Explanation) -> None:
    drawing, curve = re.findall(r"<svg.*?</svg>", render_page([france], "x"), re.DOTALL)
    assert ElementTree.fromstring(curve).get("aria-hidden") == "true"  # its numbers stand beside it
    svg = ElementTree.fromstring(drawing)
    assert svg.get("role") == "img"
    assert svg.findtext("title") == "Paths from France to Europe"
    assert "Germany borders France" in (svg.findtext("desc") or "")
    assert len(svg.findall("g[@class='edge']")) == 9
    assert len(svg.findall("g[@class='edge unseen']")) == 1
    assert [node.findtext("title") for node in svg.findall("g[@class='node head']")] == ["France"]


def test_links_lead_somewhere(france: Explanation) -> None:
    for count in (2, 40):
        document = check_inert(render_page([france] * count, "x"))
        ids = document.values("id")
        assert len(ids) == len(set(ids)) == count
        assert {f"#{name}" for name in ids} == set(document.values("href"))


def test_many_explanations_start_folded(france: Explanation) -> None:
    few, many = render_page([france] * 3, "x"), render_page([france] * 40, "x")
    assert few.count('<details class="fold"') == 0
    assert many.count('<details class="fold">') == 40


def test_one_explanation_needs_no_contents(france: Explanation) -> None:
    assert "<nav" not in render_page([france], "x")
    assert "There are no explanations" in render_page([], "x")


def test_hostile_names_are_only_text(hostile: Explanation) -> None:
    name = hostile.query.head
    for page in (render_page([hostile, hostile], name), render_fragment(hostile)):
        page.encode("utf-8")
        document = check_inert(page)
        assert harmless(name) in document.text
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", page)
        assert {tag for tag, _ in document.tags} <= {tag for tag, _ in Document(tame_page(hostile)).tags}
        for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
            ElementTree.fromstring(drawing)


def tame_page(hostile: Explanation) -> str:
    return render_page([hostile, replace(hostile, status=Status.NO_EFFECT)], "x")


def test_a_fragment_leaves_the_notebook_alone(france: Explanation) -> None:
    fragment = render_fragment(france)
    document = check_inert(fragment)
    assert document.values("id") == []
    assert fragment.strip().startswith('<div class="powerlink">')
    assert "9f8e7d6c5b4a3210" in document.text
    (style,) = re.findall(r"<style>(.*?)</style>", fragment, re.DOTALL)
    assert re.search(r"https?:|@import|url\(", style) is None
    for selector in top_level_selectors(style):
        assert all(".powerlink" in part.split() for part in selector.split(","))
    assert france._repr_html_() == fragment


def top_level_selectors(style: str) -> list[str]:
    """Return the selectors that are not nested in another rule; `@media` is looked through."""
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    selectors, inside, start = [], [], 0
    for match in re.finditer(r"[{};]", style):
        words = style[start : match.start()].strip()
        start = match.end()
        if match[0] == "{":
            if not any(inside) and not words.startswith("@"):
                selectors.append(words)
            inside.append(not words.startswith("@"))
        elif match[0] == "}":
            inside.pop()
    assert inside == []
    return selectors


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_card(status: Status) -> None:
    bare = Explanation(Query("A", "r", "B"), status, None, None)
    document = check_inert(render_page([bare], "x"))
    assert status.meaning in document.text
    assert "<svg" not in render_fragment(bare)


def bars(page: str) -> list[tuple[str, float, float]]:
    """Return kind, left end and width of every bar, in per cent of its track."""
    found = re.findall(r'<i class="(\w+)" style="left:([\d.]+)%;width:([\d.]+)%"', page)
    return [(kind, float(left), float(width)) for kind, left, width in found]


@pytest.mark.parametrize("score", [7.31, -2.0, 400.0])
def test_the_scale_of_bars_does_not_depend_on_the_explanation(france: Explanation, score: float) -> None:
    falls = {"lost": 0.5, "gained": -0.5}
    paths = tuple(replace(france.evidence[0], score_without=score - fall) for fall in (*falls.values(), 90.0, -90.0))
    for shown in (paths[:1], paths[:2], paths):
        alone = replace(france, score=score, evidence=shown, without_all=None, only_these=None, without_top={})
        found = [bar for bar in bars(render_page([alone], "x")) if bar[0] != "carried"]
        wide = 50 * (1 - math.exp(-0.5))
        expected = [("lost", 50.0, wide), ("gained", 50 - wide, wide), ("lost", 50.0, 50.0), ("gained", 0.0, 50.0)]
        for (kind, left, width), (kind_, left_, width_) in zip(found, expected[: len(shown)], strict=True):
            assert kind == kind_
            assert (left, width) == pytest.approx((left_, width_), abs=0.06)


def test_a_bar_says_what_it_carries_left_and_right_of_zero(france: Explanation) -> None:
    carried = [bar for bar in bars(render_page([france], "x")) if bar[0] == "carried"]
    assert [(left, width > 0) for _, left, width in carried[:3]] == [(50.0, True), (50.0, True), (50.0, False)]
    _, left, width = carried[3]
    assert left + width == pytest.approx(50.0)
    assert left < 50
    page = render_page([france], "x")
    assert page.count("<u></u>") == len(bars(page))


def test_the_number_that_orders_the_paths_comes_first(france: Explanation) -> None:
    def first(explanation: Explanation) -> list[str]:
        rows = re.findall(r"<li>.*?</li>", render_page([explanation], "x").split("<main>")[1], re.DOTALL)
        return [re.findall(r'class="what">([^<]+)<', row)[0] for row in rows]

    assert france.made_by is not None
    assert first(france) == ["without it"] * 5
    assert first(by_carried(france)) == ["carried together"] * 5
    assert first(as_older(by_carried(france))) == ["without it"] * 5
    mask = replace(france.made_by, settings={"select": "mask"})
    assert first(replace(france, made_by=mask)) == ["cost"] * 5
    assert "the lowest cost first" in render_page([replace(france, made_by=mask)], "x")


def test_doubts_stand_before_the_paths(france: Explanation) -> None:
    remark = "the mask is 1 nearly everywhere: its order of paths is by length"
    page = render_page([replace(france, status=Status.FAINT, remarks=(remark,)), france], "x")
    card = page.split("<main>")[1]
    assert card.index(Status.FAINT.meaning) < card.index(remark[1:]) < card.index("<h3>Why</h3>")
    assert card.count('<p class="note doubt"') == 2
    assert '<span class="chip">doubt</span>' in page
    assert "doubt</" not in render_page([france, france], "x")


def test_older_reports_still_have_their_page(france: Explanation) -> None:
    page = render_page([as_older(france)], "x")
    check_inert(page)
    assert "carried together<" not in page.split("<main>")[1].split("legend")[0]
    assert "without that fact's path" in words_of(page)
    assert "fact after fact" not in page


def words_of(page: str) -> str:
    return re.sub(r"\s+", " ", Document(page).text)


def test_different_makers_are_told_apart(france: Explanation) -> None:
    assert france.made_by is not None
    other = replace(france, made_by=replace(france.made_by, seed=8))
    text = re.sub(r"\s+", " ", Document(render_page([france, other, france], "x")).text)
    assert "How this was made 2 explanations" in text
    assert "How this was made 1 explanation " in text


def test_five_hundred_explanations_take_seconds(france: Explanation) -> None:
    start = time.perf_counter()
    page = render_page([france] * 500, "x")
    assert time.perf_counter() - start < 20  # about 2 on a quiet machine
    assert len(page) < 12_000_000
