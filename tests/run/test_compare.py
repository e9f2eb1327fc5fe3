"""A comparison: resumed or not it is the same, one bad explainer does not stop the others, scores are made once."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from builders import knowledge_graph, random_rows, settings_of
from powerlink import memory
from powerlink.errors import DataError, MismatchError, OutputError, SettingsError, UnknownNameError
from powerlink.explainers.catalog import EXPLAINERS
from powerlink.explainers.floor import Gradient, Random, Shortest
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explainers.protocol import EdgeScores
from powerlink.explainers.slopes import Slopes
from powerlink.models.link_model import build_model
from powerlink.models.session import Session
from powerlink.pipeline import ExplainSettings
from powerlink.report.compare import as_plain
from powerlink.run.compare import compare_model, find_recipes, makers
from powerlink.run.comparison_folder import CompareSettings, Comparison
from powerlink.run.explain_many import explain_many
from powerlink.run.queries import choose_queries

N, R = 20, 3
EXPLAIN = ExplainSettings(candidates=8)
SETTINGS = CompareSettings(which="all", explain=EXPLAIN)
THREE = {"power-link": lambda: PowerLink(steps=3), "gradient": Gradient, "random": Random}


@pytest.fixture(scope="module")
def session():
    model = build_model(settings_of("compgcn", "distmult", 2), N, R, 0).eval()
    return Session.of(knowledge_graph(random_rows(3, N, R, 60), N, R), model, "cpu", name="m", hash="0123456789")


@pytest.fixture(scope="module")
def chosen(session):
    facts = torch.tensor([(h, 0, t) for h in range(6) for t in (7, 8)])
    return choose_queries(session, facts, "all", limit=10)


@pytest.fixture(autouse=True)
def batches_of_three(monkeypatch):
    monkeypatch.setattr(memory, "MOST_QUERIES", 3)


def compare(folder, session, chosen, explainers=None, selections=("mask", "carried"), settings=SETTINGS, **more):
    comparison = Comparison(folder, settings, session.graph.fingerprint)
    return compare_model(comparison, session, chosen, explainers or THREE, selections, **more)


def figures(compared):
    plain = as_plain(compared)
    told = {name: plain[name] for name in ("tables", "overlaps", "queries", "left_out", "refused")}
    # the last digits of a number depend on its batch
    return json.loads(json.dumps(told), parse_float=lambda digits: round(float(digits), 6))


def test_a_comparison_is_what_explaining_one_by_one_gives(session, chosen, tmp_path):
    compared = compare(tmp_path / "c", session, chosen)
    assert compared.explainers == list(THREE)
    assert compared.queries == 10
    for select, table in compared.tables.items():
        for row in table:
            how = ExplainSettings(candidates=8, select=select, also_consider="none")
            alone = explain_many(session, chosen.queries, explainer=THREE[row.explainer](), settings=how)
            drops = [e.score - e.without_all.score if e.without_all else 0.0 for e in alone]
            assert row.figure("logit drop, all paths", "powerlink").mean == pytest.approx(np.mean(drops), abs=1e-6)
            assert sum(row.statuses.values()) == row.queries == 10
    assert [(o.one, o.other) for o in compared.overlaps["mask"]] == [
        ("power-link", "gradient"),
        ("power-link", "random"),
        ("gradient", "random"),
    ]
    pace = compared.paces["power-link"]
    assert 0 < pace.scoring < min(pace.whole.values())
    assert len(pace.batches) == 4
    assert all(edges > 0 for edges, _ in pace.batches)
    assert 0 < len(compared.examples) <= 4
    assert all(list(example) == list(THREE) for example in compared.examples)


@pytest.mark.parametrize("killed_after", [1, 3, 6, 11])
def test_killed_and_run_again_ends_like_an_uninterrupted_run(session, chosen, tmp_path, killed_after):
    whole = compare(tmp_path / "whole", session, chosen)
    beats = before = 0

    def told(_what, done, _of):
        nonlocal beats, before
        beats += done > 0 and done != before
        before = done
        if beats == killed_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(tmp_path / "killed", session, chosen, told=told)
    written = {path: path.read_bytes() for path in (tmp_path / "killed").rglob("*.jsonl")}
    first = next(path for path in written if path.stat().st_size)
    first.write_bytes(written[first] + b'{"schema": 1, "que')  # a kill in the middle of a line
    heard = []
    again = compare(tmp_path / "killed", session, chosen, told=lambda *what: heard.append(what))
    assert figures(again) == figures(whole)
    for path, before in written.items():
        assert path.read_bytes().startswith(before), "what was there is kept as it was"
    done = {what: done for what, done, of in heard if done == of}
    assert done == {f"m: {name}": 10 for name in THREE}, "told are those that were there, and those that were not"
    assert again.paces.keys() == whole.paces.keys()


def test_a_kill_between_two_ledgers_makes_up_for_the_missing_one(session, chosen, tmp_path):
    whole = compare(tmp_path / "c", session, chosen)
    (ledger,) = (tmp_path / "c").rglob("gradient.carried.jsonl")
    lines = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join(lines[:6]))
    assert figures(compare(tmp_path / "c", session, chosen)) == figures(whole)
    (other,) = (tmp_path / "c").rglob("gradient.mask.jsonl")
    for path in (ledger, other):
        queries = [json.dumps(json.loads(line)["query"]) for line in path.read_text().splitlines()]
        assert len(queries) == len(set(queries)) == 10


def test_scores_are_made_once_however_paths_are_chosen(session, chosen, tmp_path, monkeypatch):
    asked = []
    real = Random.score_edges
    monkeypatch.setattr(Random, "score_edges", lambda *a: asked.append(a[2].num_queries) or real(*a))
    compared = compare(
        tmp_path / "c", session, chosen, {"random": Random}, ("mask", "carried", "largest-drop", "pooled")
    )
    assert sum(asked) <= 10
    assert list(compared.tables) == ["mask", "carried", "largest-drop", "pooled"]
    drop = {s: t[0].figure("logit drop, all paths", "powerlink").mean for s, t in compared.tables.items()}
    assert max(drop["mask"], drop["carried"]) <= drop["largest-drop"], (
        "nothing lowers the score more than what tries to"
    )


def test_pooled_is_what_explain_does_also_where_pruning_leaves_much_out(session, chosen, tmp_path):
    how = ExplainSettings(paths=3, candidates=3, hub_limit=4, core=3)
    settings = CompareSettings(which="all", explain=how)
    comparison = Comparison(tmp_path / "c", settings, session.graph.fingerprint)
    run = comparison.of(session, Slopes(), ("mask", "pooled"))
    heard: list[int] = []
    run.run(chosen.queries, told=heard.append)
    assert sum(heard) == 10
    found = run.found(chosen.queries)
    for select, own in (("pooled", how), ("mask", replace(how, select="mask", also_consider="none"))):
        alone = explain_many(session, chosen.queries, explainer=Slopes(), settings=own)
        for one, other in zip(alone, found[select], strict=True):
            assert [path.facts for path in one.paths] == [path.facts for path in other.paths]
            assert (one.considered, one.remarks) == (other.considered, other.remarks)
    assert any(e.considered > 3 for e in found["pooled"]), "low-degree brings paths of its own"


def test_more_queries_explainers_and_choices_go_on_in_the_same_folder(session, chosen, tmp_path):
    fewer = choose_queries(session, chosen.queries, "all", limit=4)
    compare(tmp_path / "c", session, fewer, {"gradient": Gradient}, ("mask",))
    grown = compare(tmp_path / "c", session, chosen)
    assert figures(grown) == figures(compare(tmp_path / "whole", session, chosen))
    assert all(np.isfinite(value) for value in grown.paces["gradient"].whole.values())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (CompareSettings(which="all", seed=1, explain=EXPLAIN), r"another seed \(0, now 1\)"),
        (CompareSettings(which="first", explain=EXPLAIN), r"another which \(all, now first\)"),
        (CompareSettings(which="all", max_nodes=5, explain=EXPLAIN), r"another max_nodes \(None, now 5\)"),
        (CompareSettings(which="all", explain=ExplainSettings(core=3, candidates=8)), r"another core \(2, now 3\)"),
    ],
)
def test_other_settings_are_refused(session, chosen, tmp_path, settings, said):
    one = {"shortest": Shortest}
    compare(tmp_path / "c", session, chosen, one)
    with pytest.raises(MismatchError, match=said):
        compare(tmp_path / "c", session, chosen, one, settings=settings)


def test_other_settings_of_an_explainer_are_refused(session, chosen, tmp_path):
    compare(tmp_path / "c", session, chosen, {"power-link": lambda: PowerLink(steps=1)})
    with pytest.raises(MismatchError, match=r"another steps \(1, now 2\)"):
        compare(tmp_path / "c", session, chosen, {"power-link": lambda: PowerLink(steps=2)})


def test_a_folder_of_something_else_and_a_damaged_one_are_refused(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "thesis.txt").write_text("precious")
    with pytest.raises(OutputError, match="holds no comparison"):
        Comparison(tmp_path / "c", SETTINGS, "g")
    Comparison(tmp_path / "d", SETTINGS, "g")
    with pytest.raises(MismatchError, match="another graph"):
        Comparison(tmp_path / "d", SETTINGS, "another")
    (tmp_path / "d" / "settings.json").write_text("[1")
    with pytest.raises(DataError, match="damaged"):
        Comparison(tmp_path / "d", SETTINGS, "g")


@dataclass(frozen=True, kw_only=True)
class Careless:
    """Breaks its contract, or breaks off, from the second batch on."""

    name: ClassVar[str] = "careless"
    cost: ClassVar[str] = "inverse"
    how: str = "negative"

    def score_edges(self, model, graph, seed):
        if self.how == "raises":
            raise IndexError("no such edge")
        return EdgeScores(-torch.ones(graph.num_edges))


@pytest.mark.parametrize(
    ("how", "said"),
    [("negative", "the explainer careless returned scores from -1 to -1"), ("raises", "IndexError: no such edge")],
)
def test_an_explainer_that_breaks_is_named_and_the_others_go_on(session, chosen, tmp_path, how, said):
    explainers = {"careless": lambda: Careless(how=how), "gradient": Gradient, "random": Random}
    compared = compare(tmp_path / "c", session, chosen, explainers)
    assert list(compared.refused) == ["careless"]
    assert said in compared.refused["careless"]
    assert compared.explainers == ["gradient", "random"]
    assert compared.tables["mask"][0].differences == (), "the first that took part is the yardstick"
    assert compared.tables["mask"][1].differences


def test_who_takes_part():
    names = {recipe.name for recipe in find_recipes(None, can_fit=False)}
    assert names == EXPLAINERS.keys() - {"pg-explainer"}
    assert {recipe.name for recipe in find_recipes(None, can_fit=True)} == EXPLAINERS.keys()
    assert [r.name for r in find_recipes(["random", "gradient", "random"], can_fit=False)] == ["random", "gradient"]
    with pytest.raises(UnknownNameError, match="did you mean 'page-link'"):
        find_recipes(["pagelink"], can_fit=False)
    with pytest.raises(SettingsError, match="--weights, or let it be fitted"):
        find_recipes(["pg-explainer"], can_fit=False)


def test_a_fit_is_made_once_and_weights_find_their_model(session, chosen, tmp_path):
    settings = CompareSettings(which="all", fit=5, explain=EXPLAIN)
    recipes = find_recipes(["pg-explainer", "random"], can_fit=True)
    comparison = Comparison(tmp_path / "c", settings, session.graph.fingerprint)
    compared = compare_model(comparison, session, chosen, makers(comparison, session, recipes))
    assert compared.explainers == ["pg-explainer", "random"]
    (weights,) = (tmp_path / "c").rglob("*.safetensors")
    before = weights.stat().st_mtime_ns
    again = compare_model(comparison, session, chosen, makers(comparison, session, recipes))
    assert weights.stat().st_mtime_ns == before
    assert figures(again) == figures(compared)

    other = Session.of(session.graph, session.model, "cpu", name="m", hash="another")
    taken = makers(comparison, other, recipes, [weights])
    compared = compare_model(comparison, other, chosen, taken)
    assert "was fitted on another model" in compared.refused["pg-explainer"]
    assert compared.explainers == ["random"]
    assert makers(comparison, session, recipes, [weights])["pg-explainer"]().fit
