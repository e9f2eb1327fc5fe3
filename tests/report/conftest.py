"""Explanations to render: a full one, one without a path, and one whose every name is hostile."""

from __future__ import annotations

import pytest

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

HOSTILE_NAMES = (
    "<script>alert(1)</script>",
    "\"><img src='x' onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "</style></svg></textarea>--><b>",
    "[bold red]x[/] [/nothing] :smile:",
    "line\nbreak\ttab\rreturn\x00nul",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202eoverride\u202c \u2066isolate",
    "\u2028separator\u2029\x85",
    "مرحبا بالعالم",
    "שלום (1) עולם",
    "日本語の名前 😀 👩‍👩‍👧 e\u0301",
    "$x_1^2$ \\frac{1}{0} %s {0} $",
    "",
    "   ",
    "&amp; &lt; &#0;",
    "long " * 60,
    "Donaudampfschifffahrtsgesellschaft" * 8,
    "\ud800 lone surrogate",
    "javascript:alert(1)",
)


def make_path(
    *facts: Fact,
    without: float,
    rank: float | None = None,
    by: str = "powerlink",
    together: float | None = None,
    witnesses: int = 1,
) -> Evidence:
    return Evidence(facts, 0.5, 0.7, without, rank, by, together, witnesses)


@pytest.fixture
def made_by() -> MadeBy:
    return MadeBy(
        explainer="powerlink",
        settings={"prune": None},
        explainer_settings={"steps": 50, "size_weight": 0.03, "layers": [1, 2]},
        seed=7,
        graph="9f8e7d6c5b4a3210",
        model="compgcn-distmult",
        model_hash="ab12cd34ef56ab78",
        versions={"powerlink": "0.1.0", "torch": "2.13.0"},
    )


@pytest.fixture
def france(made_by: MadeBy) -> Explanation:
    part_of = Fact("Western Europe", "part_of", "Europe", effect=0.5)
    paths = (
        make_path(
            Fact("France", "in_region", "Western Europe", effect=2.09), part_of, without=5.02, rank=3.0, together=0.3
        ),
        make_path(
            Fact("France", "borders", "Spain", effect=0.6),
            Fact("Spain", "in_region", "Southern Europe", effect=0.02),
            Fact("Southern Europe", "part_of", "Europe", effect=0.9),
            without=6.1,
            rank=2.5,
            by="gradient",
            together=0.36,
            witnesses=12,
        ),
        make_path(
            Fact("Germany", "borders", "France", inverse=True, effect=0.21),
            Fact("Germany", "in_region", "Western Europe", visible=False, effect=0.0),
            part_of,
            without=6.6,
            rank=1.0,
            together=0.0,
        ),
        make_path(
            Fact("France", "member_of", "European Union", effect=-0.05),
            Fact("Europe", "has_organisation", "European Union", inverse=True, effect=0.1),
            without=6.9,
            rank=1.0,
            together=-0.36,
        ),
        make_path(
            Fact("Europe", "largest_country", "France", inverse=True, effect=0.11), without=7.2, rank=1.0, together=0.11
        ),
    )
    return Explanation(
        query=Query("France", "located_in", "Europe"),
        status=Status.EXPLAINED,
        score=7.31,
        rank=1.0,
        evidence=paths,
        without_all=Outcome(1.02, 412.0),
        only_these=Outcome(7.01, 1.0),
        without_top={1: Outcome(5.02, 3.0), 2: Outcome(3.4, 40.0)},
        deletion=(5.22, 5.02, 4.1, 3.45, 3.4, 3.2, 3.1, 2.6, 2.0, 1.02),
        considered=57,
        paper=PaperMetrics(0.41, 0.03, 0.98, 0.95, 1.0, {1: 2.0, 3: 5.0}),
        size=GraphSize(412, 3021, 1200),
        made_by=made_by,
        probability=0.625,
    )


@pytest.fixture
def no_path(made_by: MadeBy) -> Explanation:
    query = Query("Aspirin", "treats", "Solitude", inverse=True)
    return Explanation(query, Status.NO_PATH, -1.2, 532.0, made_by=made_by)


@pytest.fixture(params=HOSTILE_NAMES, ids=[f"name{i}" for i in range(len(HOSTILE_NAMES))])
def hostile(request: pytest.FixtureRequest) -> Explanation:
    """One name everywhere a name can be, beside tame ones that must stay readable."""
    name: str = request.param
    return Explanation(
        query=Query(name, name, "Europe"),
        status=Status.EXPLAINED,
        score=2.0,
        rank=1.0,
        evidence=(
            make_path(Fact(name, name, "Spain"), Fact("Europe", name, "Spain", inverse=True), without=1.0, by=name),
            make_path(Fact(name, "knows", "Spain"), Fact("Spain", "in", "Europe"), without=1.9999999),
        ),
        without_all=Outcome(0.0, None),
        remarks=(name,),
        made_by=MadeBy(name, {name: name}, {name: name}, 0, name, name, name, {name: name}),
    )
