"""Ways of explaining held against known reasons: every explainer, planted graphs, a kill, and what stands beside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from powerlink import memory
from powerlink.errors import DataError, PowerlinkError, SettingsError, UnknownNameError
from powerlink.explainers.catalog import EXPLAINERS, find_recipe, make_explainer
from powerlink.explainers.floor import Random
from powerlink.explainers.k_paths import KPaths
from powerlink.explainers.learned.kex import KEX
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.kg.explained_links import ExplainedLinks, KnownReasons, Reasons
from powerlink.kg.planted import NOISE, plant
from powerlink.kg.typed_folder import read_links
from powerlink.models.link_model import ModelSettings
from powerlink.models.link_training import LinkTrainingSettings, link_auc, train_on_links
from powerlink.models.session import Session
from powerlink.pipeline import DEFAULT_EXPLAINER, ExplainSettings, computation_graph, explain_batch
from powerlink.run.fitting import fit_explainer
from powerlink.run.queries import choose_queries
from powerlink.run.truth import FLOORS, Task, Trial, Way, find_ways
from powerlink.verify.first_right import first_right
from powerlink.verify.ground_truth import edge_auc, explaining_edges
from typed_example import SHARED, needs_user_item_attr, write_example

SMALL = ModelSettings(encoder="rgcn", widths=(8, 8, 8), blocks=2)
MASK = ExplainSettings(select="mask")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Task:
    data = read_links(write_example(tmp_path_factory.mktemp("shop")))
    return task_of(data, train_on_links(data, SMALL, LinkTrainingSettings(epochs=5)))


def task_of(data: ExplainedLinks, session: Session, queries: torch.Tensor | None = None) -> Task:
    return Task.of(session, KnownReasons.of_steps(data.name, session.graph, data.truth), queries)


@pytest.fixture(scope="module")
def planted() -> Task:
    task = Task.planted(plant(100, replace(NOISE["quiet"], entities=60)))
    return Task.of(task.session, task.known, task.queries[::4])


@pytest.mark.parametrize("name", EXPLAINERS)
def test_every_explainer_can_be_held_against_the_truth(shop: Task, name: str) -> None:
    try:
        asked = shop.ask(make_explainer(name), MASK)
    except PowerlinkError as error:
        pytest.skip(f"{name} cannot be used as it is: {error}")
    for values in asked.auc.values():
        assert values.shape == (3,)
        assert ((values >= 0) & (values <= 1) | np.isnan(values)).all()
    # each link has one route of at most three steps, or few: whoever searches for five must find it
    if "paths" in find_recipe(name).proposes:
        assert (shop.hold(name, asked).places <= 5).all()
    assert asked.seconds > 0


def test_the_auc_is_that_of_the_scores(shop: Task) -> None:
    asked = shop.ask(Random(), MASK, seed=3)
    graph = computation_graph(shop.session, shop.queries, MASK)
    explaining = explaining_edges(graph, [shop.known.steps[query] for query in shop.triples])
    scores = Random().score_edges(shop.session.model, graph, 3).values
    for reading, values in asked.auc.items():
        np.testing.assert_allclose(values, edge_auc(graph, scores, explaining, reading))  # type: ignore[arg-type]


def test_the_auc_of_a_proposer_is_that_of_its_mask_if_it_has_one(shop: Task) -> None:
    asked, maskless = (shop.ask(who, MASK, seed=3) for who in (KEX(steps=5), KPaths()))
    graph = computation_graph(shop.session, shop.queries, MASK)
    explaining = explaining_edges(graph, [shop.known.steps[query] for query in shop.triples])
    mask = KEX(steps=5).score_edges(shop.session.model, graph, 3).values
    for reading, values in asked.auc.items():
        np.testing.assert_allclose(values, edge_auc(graph, mask, explaining, reading))  # type: ignore[arg-type]
        assert np.isnan(maskless.auc[reading]).all()


def test_no_query_and_queries_without_reasons(shop: Task) -> None:
    nothing = Task.of(shop.session, shop.known, shop.queries[:0])
    assert nothing.ask(Random(), MASK).explanations == []
    with pytest.raises(DataError, match="does not say what explains"):
        Task.of(shop.session, shop.known, torch.tensor([[0, 0, 1]]))


def test_the_ways_by_default_and_the_product() -> None:
    first, second, *floors = find_ways()
    assert first == Way(DEFAULT_EXPLAINER.name, ExplainSettings().select)
    assert second == Way(DEFAULT_EXPLAINER.name, "largest-drop")
    assert floors == [Way(name, "mask") for name in FLOORS]
    product = find_ways(["random", "gradient", "random"], ["mask", "carried"])
    assert [way.name for way in product] == ["random, mask", "random, carried", "gradient, mask", "gradient, carried"]
    assert [way.select for way in find_ways(["random"])] == ["carried"]
    assert {way.explainer for way in find_ways(None, ["mask"])} == {DEFAULT_EXPLAINER.name, *FLOORS}
    with pytest.raises(UnknownNameError, match="did you mean 'mask'"):
        find_ways(None, ["masks"])
    with pytest.raises(UnknownNameError, match="did you mean 'page-link'"):
        find_ways(["pagelink"])


def test_the_first_row_is_what_explain_does(planted: Task) -> None:
    table, *_ = Trial(find_ways()).run([planted])
    alone = explain_batch(planted.session, planted.queries, settings=ExplainSettings(paths=10))
    places = first_right(alone, [planted.known.of[query] for query in planted.triples])
    assert table.rows[0].places == [int(place) if np.isfinite(place) else None for place in places]


def test_the_slopes_and_the_choice_find_planted_reasons_and_the_floors_do_not(planted: Task) -> None:
    (table,) = Trial(find_ways()).run([planted])
    assert table.within_reach == len(table.queries) == len(planted.queries)
    found = {row.way: row.figures["MRR"].mean for row in table.rows}
    assert found["slopes, carried"] > 0.9
    for floor in ("low-degree", "shortest", "random"):
        assert found[f"{floor}, mask"] < 0.5
        gap = next(row for row in table.rows if row.way == f"{floor}, mask").differences["MRR"]
        assert gap.significant
        assert gap.mean == pytest.approx(found[f"{floor}, mask"] - found["slopes, carried"])


def test_known_entities_are_the_inner_ones_of_the_true_paths(planted: Task) -> None:
    entities = {}
    for query, known in planted.known.steps.items():
        inner = {step[2] for path in known.paths for step in path[:-1]}
        entities[query] = Reasons(frozenset(planted.session.graph.entities[e] for e in inner))
    task = Task.of(planted.session, KnownReasons("entities", entities), planted.queries)
    ways = [Way("gradient", "carried"), Way("shortest", "mask")]
    exact, touched = Trial(ways).run([planted])[0], Trial(ways).run([task])[0]
    for one, other in zip(exact.rows, touched.rows, strict=True):
        assert other.figures["MRR"].mean >= one.figures["MRR"].mean
        assert not any(name.startswith("AUC") for name in other.figures)


def test_several_models_are_told_apart_and_together(planted: Task) -> None:
    other = Task.planted(plant(101, replace(NOISE["quiet"], entities=60)))
    other = Task.of(other.session, other.known, other.queries[:4])
    one, two, both = Trial([Way("gradient", "mask"), Way("random", "mask")]).run([planted, other])
    assert (one.label, two.label) == ("rules-planted-100", "rules-planted-101")
    assert [*one.queries, *two.queries] == list(both.queries)
    for a, b, c in zip(one.rows, two.rows, both.rows, strict=True):
        assert [*a.places, *b.places] == list(c.places)


@pytest.mark.parametrize("killed_after", [1, 2, 4])
def test_killed_and_run_again_ends_like_an_uninterrupted_run(
    planted: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_after: int
) -> None:
    monkeypatch.setattr(memory, "MOST_QUERIES", 3)
    trial = Trial([Way("gradient", "carried"), Way("random", "mask")], folder=tmp_path / "whole")
    (whole,) = trial.run([planted])
    beats = 0

    def told(what: str, done: int, of: int) -> None:
        nonlocal beats
        beats += done > 0
        if beats == killed_after:
            raise KeyboardInterrupt

    killed = replace(trial, folder=tmp_path / "killed")
    with pytest.raises(KeyboardInterrupt):
        killed.run([planted], told)
    written = {path: path.read_bytes() for path in (tmp_path / "killed").rglob("*.jsonl")}
    first = next(path for path in written if path.stat().st_size)
    first.write_bytes(written[first] + b'{"schema": 1, "que')  # a kill in the middle of a line
    heard: dict[str, int] = {}
    (again,) = killed.run([planted], lambda what, done, of: heard.update({what: done}))
    assert list(heard.values()) == [len(planted.queries)] * 2
    assert all(path.read_bytes().startswith(before) for path, before in written.items())
    for row, expected in zip(again.rows, whole.rows, strict=True):
        assert row.places == expected.places
        assert row.figures == expected.figures, "also the AUC of what was scored before the kill"


def test_a_damaged_file_of_measures_is_told(planted: Task, tmp_path: Path) -> None:
    trial = Trial([Way("random", "mask")], folder=tmp_path)
    trial.run([planted])
    (file,) = tmp_path.rglob("*.measured.json")
    file.write_text("{")
    with pytest.raises(DataError, match="is damaged: delete"):
        trial.run([planted])


def test_an_explainer_that_is_fitted_needs_its_weights(shop: Task, tmp_path: Path) -> None:
    way = Way("pg-explainer", "mask")
    with pytest.raises(SettingsError, match="--weights"):
        Trial([way])
    fit_explainer(shop.session, shop.queries, tmp_path / "pg.safetensors")
    (table,) = Trial([way], weights=[tmp_path / "pg.safetensors"]).run([shop])
    assert table.rows[0].figures["shown"].mean == 1


@needs_user_item_attr
def test_power_link_finds_planted_explanations() -> None:
    data = read_links(SHARED)
    settings = ModelSettings(encoder="rgcn", widths=(64, 64, 64), blocks=1)
    session = train_on_links(data, settings)
    assert link_auc(session.model, session.messages, data, "test") > 0.9
    believed = choose_queries(session, torch.from_numpy(data.links_of("test").copy())).queries
    assert 0.8 < len(believed) / len(data.links_of("test")) < 1
    task = task_of(data, session, believed[:32])
    found, chance = (task.ask(explainer, MASK) for explainer in (PowerLink(size_weight=0.5), Random()))
    assert min(np.nanmean(values) for values in found.auc.values()) >= 0.961
    assert abs(np.nanmean(chance.auc["directed"]) - 0.5) < 0.1
    assert (task.hold("", found).places <= 5).mean() > (task.hold("", chance).places <= 5).mean()
