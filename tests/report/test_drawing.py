"""The layout: head left, tail right, nothing overlaps, the same every time."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powerlink.explanation import Evidence, Explanation, Fact, Query, Status
from powerlink.report.drawing import Drawing, lay_out
from powerlink.report.layering import merge_paths
from powerlink.report.lettering import break_lines, text_width
from powerlink.report.rows import Item, order_layers, settle


def walk(*stops: str, without: float = 0.0, relation: str = "r") -> Evidence:
    """Return a path through these stops; every second hop goes against its fact."""
    facts = [
        Fact(b, relation, a, inverse=True) if i % 2 else Fact(a, relation, b)
        for i, (a, b) in enumerate(pairwise(stops))
    ]
    return Evidence(tuple(facts), 0.5, 0.5, without, None)


def explain(*paths: Evidence) -> Explanation:
    return Explanation(Query("H", "r", "T"), Status.EXPLAINED, 1.0, 1.0, paths)


inner_stops = st.lists(st.sampled_from(["a", "b", "c", "a long name of an entity", "d" * 200]), max_size=4, unique=True)
drawn = st.lists(
    st.builds(
        lambda stops, without, relation: walk("H", *stops, "T", without=without, relation=relation),
        inner_stops,
        st.floats(-5, 5),
        st.sampled_from(["r", "a_relation/with.a/long-name " * 3]),
    ),
    max_size=8,
).map(lambda paths: explain(*paths))


def overlap(a: Item, b: Item) -> bool:
    return abs(a.x - b.x) < (a.width + b.width) / 2 and abs(a.y - b.y) < (a.height + b.height) / 2


def check(drawing: Drawing) -> None:
    head, tail = (node for node in drawing.nodes if node.role != "between")
    assert (head.role, tail.role) == ("head", "tail")
    for node in drawing.nodes:
        assert node in (head, tail) or head.box.right < node.box.left < node.box.right < tail.box.left
    boxes = [node.box for node in drawing.nodes] + [edge.label for edge in drawing.edges]
    assert not any(overlap(a, b) for a, b in combinations(boxes, 2))
    for box in boxes:
        assert box.left >= 0
        assert box.right <= drawing.width
        assert box.top >= 0
        assert box.top + box.height <= drawing.height
    for edge in drawing.edges:
        xs = [x for x, _ in edge.curve]
        assert xs == sorted(xs)
        assert len(edge.curve) % 3 == 1
        tip, wing, _ = edge.arrow
        assert (tip[0] < wing[0]) == edge.fact.inverse
        assert 0 <= edge.strength <= 1


@settings(deadline=None)
@given(drawn)
def test_layouts_hold_for_any_paths(explanation: Explanation) -> None:
    drawing = lay_out(explanation)
    check(drawing)
    assert drawing == lay_out(explanation)


def test_the_full_example(france: Explanation) -> None:
    drawing = lay_out(france)
    check(drawing)
    names = [node.name for node in drawing.nodes]
    assert sorted(names) == sorted(set(names))
    assert len(drawing.edges) == len({fact for path in france.evidence for fact in path.facts}) == 10
    shared = next(edge for edge in drawing.edges if len(edge.paths) == 2)
    assert shared.fact == Fact("Western Europe", "part_of", "Europe", effect=0.5)
    assert shared.strength == pytest.approx(0.5 / 2.09)
    assert drawing.largest == 2.09


def test_hostile_names_can_be_drawn(hostile: Explanation) -> None:
    check(lay_out(hostile))


def test_without_paths_head_and_tail_stand_apart(no_path: Explanation) -> None:
    check(lay_out(no_path))


def test_opposite_orders_give_a_copy() -> None:
    merged = merge_paths(Query("H", "r", "T"), [walk("H", "a", "b", "T"), walk("H", "b", "a", "T")])
    assert sorted(merged.names) == ["H", "T", "a", "b", "b"] or sorted(merged.names) == ["H", "T", "a", "a", "b"]
    for hop in merged.hops:
        assert merged.columns[hop.source] < merged.columns[hop.target]


def test_a_path_through_head_or_tail_is_still_drawn() -> None:
    check(lay_out(explain(walk("H", "T", "H", "a", "T"))))


def test_a_short_path_stands_in_the_middle_of_a_long_one() -> None:
    merged = merge_paths(Query("H", "r", "T"), [walk("H", "a", "b", "c", "T"), walk("H", "m", "T")])
    assert merged.columns[merged.names.index("m")] == 2


def test_two_relations_between_the_same_nodes_are_two_edges() -> None:
    drawing = lay_out(explain(walk("H", "T", relation="one"), walk("H", "T", relation="two")))
    check(drawing)
    assert [edge.fact.relation for edge in drawing.edges] == ["one", "two"]


def test_crossings_that_need_not_be_are_undone() -> None:
    layers = order_layers([[0], [1, 2], [4, 3], [5]], [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5)])
    assert layers[1].index(1) == layers[2].index(3)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.data())
def test_settled_rows_keep_their_gaps(wanted: list[float], data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.floats(0, 50), min_size=len(wanted) - 1, max_size=len(wanted) - 1))
    rows = settle(wanted, gaps)
    assert all(b - a >= gap - 1e-9 for (a, b), gap in zip(pairwise(rows), gaps, strict=True))
    # Moving all of them together cannot come nearer to what was wanted.
    assert sum(rows) == pytest.approx(sum(wanted), abs=1e-6)


def test_widths_in_older_reports_follow_the_fall_without_the_path() -> None:
    explanation = explain(
        walk("H", "T", without=-1.0), walk("H", "a", "T", without=0.5), walk("H", "b", "T", without=2)
    )
    drawing = lay_out(explanation)
    assert [edge.strength for edge in drawing.edges] == [1.0, 0.25, 0.25, 0.0, 0.0]
    assert drawing.largest == 2.0
    assert [edge.strength for edge in lay_out(explain(walk("H", "T", without=1.0))).edges] == [0.0]


effects = st.floats(-5, 5).map(lambda effect: round(effect, 3))


@settings(deadline=None)
@given(st.lists(st.lists(effects, min_size=1, max_size=4), min_size=1, max_size=4), effects)
def test_widths_follow_the_effects_of_the_facts(rows: list[list[float]], without: float) -> None:
    paths = []
    for i, row in enumerate(rows):
        path = walk("H", *(f"{i}.{j}" for j in range(1, len(row))), "T", without=without, relation=str(i))
        facts = tuple(replace(fact, effect=effect) for fact, effect in zip(path.facts, row, strict=True))
        paths.append(replace(path, facts=facts))
    drawing = lay_out(explain(*paths))
    largest = max(0.0, *(effect for row in rows for effect in row))
    assert drawing.largest == largest
    for edge in drawing.edges:
        assert edge.fact.effect is not None
        assert edge.strength * largest == pytest.approx(max(0.0, edge.fact.effect))


def test_a_fact_is_one_edge_whatever_rounding_made_of_its_effect() -> None:
    first, second = walk("H", "a", "T"), walk("H", "a", "b", "T")
    shared = [replace(path.facts[0], effect=effect) for path, effect in ((first, 0.5), (second, 0.5000001))]
    paths = [replace(p, facts=(fact, *p.facts[1:])) for p, fact in zip((first, second), shared, strict=True)]
    assert len(lay_out(explain(*paths)).edges) == 4


def test_names_break_where_they_can() -> None:
    assert break_lines("/film/film/starring", 12, 80, 3) == ("/film/film/", "starring")
    assert break_lines("short", 12, 80, 3) == ("short",)
    assert break_lines("", 12, 80, 3) == ("",)


@given(st.text(min_size=1), st.integers(1, 4))
def test_broken_names_fit(name: str, limit: int) -> None:
    lines = break_lines(name, 12, 60, limit)
    assert 1 <= len(lines) <= limit
    if name.strip():
        assert all(text_width(line, 12) <= 60 for line in lines)
