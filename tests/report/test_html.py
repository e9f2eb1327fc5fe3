"""The page: self-contained, inert to any name, well-formed, and small enough for many explanations."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from powerlink.explanation import Explanation, Outcome, Query, Status
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
        "1 explained paths were found and proven on the model",
        "1 no path no path of the allowed lengths connects head and tail",
        "Without these 5 paths the score falls from 7.31 to 1.02, and the rank goes from 1 to 412.",
        "57 candidate paths were judged on the model.",
        "score 7.31 probability 62.5 % rank 1 among tails",
        "Path 4: France member_of European Union; Europe has_organisation European Union.",
        "7.31 → 5.02 −2.29 rank 1 → 3",
        "without paths 1–2",
        "with only these",
        "hop 2: not seen by the model",
        "Dashed edges are not seen by the model.",
        "proposed by gradient",
        "No path. No path of the allowed lengths connects head and tail.",
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
    (drawing,) = re.findall(r"<svg.*?</svg>", render_page([france], "x"), re.DOTALL)
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


def test_bars_below_zero_stay_inside_and_keep_their_order(france: Explanation) -> None:
    paths = tuple(replace(path, score_without=-9.0 + i) for i, path in enumerate(france.paths))
    page = render_page([replace(france, score=-2.0, paths=paths, only_these=Outcome(1.5, None))], "x")
    shares = [float(share) for share in re.findall(r"(?:width|left):(-?[\d.]+)%", page)]
    assert shares
    assert all(0 <= share <= 100 for share in shares)
    kept = [float(share) for share in re.findall(r'<i style="width:([\d.]+)%"', page)][:5]
    assert kept == sorted(kept)
    assert "+3.50" in page


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
