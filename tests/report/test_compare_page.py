"""A comparison as Markdown, terminal text and a page: complete, and safe with any name."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from powerlink.explanation import Explanation
from powerlink.report.compare import as_plain, render_markdown, render_page, render_tables, write_comparison
from powerlink.report.compare_plots import _log_scale, _scale, _tick
from powerlink.verify.comparison import ModelComparison, Pace, compare_figures, compare_paths


def compared(explanation: Explanation, names: tuple[str, ...] = ("one", "two"), **more) -> ModelComparison:
    better = replace(explanation, without_all=replace(explanation.without_all, score=-9.0))
    found = {names[0]: [explanation] * 3, names[1]: [better] * 3}
    pace = Pace(0.1, {"mask": 0.2, "carried": 0.3}, 0.1, {"mask": 0.2, "carried": 0.3}, [(100.0, 0.1), (900.0, 0.4)])
    tables = {select: compare_figures(found) for select in ("mask", "carried")}
    overlaps = {select: compare_paths(found) for select in ("mask", "carried")}
    examples = ({name: explanations[0] for name, explanations in found.items()},)
    described = ("label", "compgcn-distmult", "hash", "graph", 3, {"not believed": 1_234}, tables, overlaps)
    return ModelComparison(*described, dict.fromkeys(names, pace), examples=examples, **more)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.stray: list[str] = []

    def handle_starttag(self, tag, attributes):
        if tag in ("script", "img", "link", "iframe", "b") and ("onerror" in dict(attributes) or tag != "b"):
            self.stray.append(tag)
        if tag not in ("meta", "br", "path", "circle", "rect"):
            self.opened.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("path", "circle", "rect"):
            assert self.opened.pop() == tag


def test_every_form_tells_figures_marks_and_what_was_left_out(france, tmp_path):
    comparison = compared(france, refused={"three": "the explainer three broke off"})
    page, text = render_page([comparison], {"seed": 0}), render_markdown([comparison])
    for form in (_plain(render_tables(comparison)), text, page):
        assert "3 queries; left out: 1,234 not believed" in form
        assert "16.310▲" in re.sub(r"<[^>]+>", "", form), "7.31 − (−9), and above the first for all of three queries"
        assert re.search(r"6\.290(?!▲)", form)
    for form in (text, page):
        assert "the explainer three broke off" in form
        assert "100 / 100" in form
    assert page.count("<svg") == 9 + 2, "of what facts do against their number, one for each way of choosing"
    assert page.count("Western Europe") >= 2
    write_comparison([comparison], tmp_path, {"seed": 0})
    plain = json.loads((tmp_path / "compare.json").read_text("utf-8"))
    assert plain["models"] == [as_plain(comparison)]
    assert {path.name for path in tmp_path.iterdir()} == {"compare.json", "compare.md", "compare.html"}


def test_names_are_text_and_nothing_else(hostile):
    name = hostile.query.head
    comparison = compared(hostile, (name, "tame"), refused={"x" + name: name})
    comparison = replace(comparison, label=name, graph=name)
    parser = Tags()
    parser.feed(render_page([comparison], {"explainers": name}))
    assert parser.stray == []
    assert parser.opened == []
    for line in render_markdown([comparison]).splitlines():
        if line.startswith("| ") and "---" not in line:
            assert len(re.findall(r"(?<!\\)\|", line)) >= 3
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", render_markdown([comparison]))


def test_a_comparison_in_which_nobody_took_part_is_a_page_too():
    empty = ModelComparison("m", "m", "h", "g", 3, {}, {"mask": ()}, {"mask": ()}, {}, {"a": "broke"})
    assert "took no part" in render_page([empty], {})
    assert "took no part" in render_markdown([empty])
    assert "m on g" in _plain(render_tables(empty))


def _plain(renderable) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


@pytest.mark.parametrize("values", [[0.0, 1.0], [3.0], [-5.0, 4.0, 2.0], [1e-9, 2e-9], [0.0], [1e6, 3e6], []])
def test_scales_hold_their_values_and_round_ticks(values):
    scale, ticks = _scale(values, 10, 110, with_zero=True)
    assert all(10 - 1e-6 <= scale(value) <= 110 + 1e-6 for value in [*values, *ticks])
    assert 2 <= len(ticks) <= 7
    assert len({_tick(tick) for tick in ticks}) == len(ticks)
    positive = [value for value in values if value > 0]
    scale, ticks = _log_scale(positive, 110, 10)
    assert all(10 - 1e-6 <= scale(value) <= 110 + 1e-6 for value in [*positive, *ticks])
    assert len(ticks) >= 2


def test_a_plot_of_nothing_but_zeros_begins_at_zero():
    scale, ticks = _scale([0.0, 0.0], 10, 110, with_zero=True)
    assert scale(0.0) == 10
    assert min(ticks) == 0


def test_the_page_says_what_the_figures_mean_and_whose_order_stands_side_by_side(france):
    comparison = compared(france)
    head, *rest = render_page([comparison], {}).split("<main>")
    assert "a high F+, a low F− and a high Sparsity are wanted" in head
    assert "first 3 paths in their own order" in rest[0]
    proof = {
        "tables": {"carried": comparison.tables["carried"]},
        "overlaps": {"carried": comparison.overlaps["carried"]},
    }
    assert "first 3 paths by what their facts carry together" in render_page([replace(comparison, **proof)], {})


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.0, "0"), (1e-5, "0.00001"), (0.30000000000000004, "0.3"), (8123.4, "8,123"), (-2.5, "−2.5"), (100.0, "100")],
)
def test_ticks_are_written_as_people_do(value, told):
    assert _tick(value) == told
