"""What every explainer must do, whatever it thinks of."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest
import torch

from builders import computation_graph, model_of, random_rows
from powerlink.errors import SettingsError, UnknownNameError
from powerlink.explainers.catalog import EXPLAINERS, make_explainer
from powerlink.explainers.floor import Gradient, Random
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.graphs.prune import prune

N, R = 12, 3
ROWS = random_rows(0, N, R, 30)
QUERIES = [(0, 0, 1), (2, 4, 3), (5, 1, 6), (0, 0, 1), (7, 2, 8)]
CASES = {
    "power-link": PowerLink(steps=6),
    "power-link, euclidean": PowerLink(steps=6, combination="euclidean", min_order=1),
    "power-link, prediction only": PowerLink(steps=4, path_weight=0, size_weight=0),
    "power-link, paths only": PowerLink(steps=4, prediction_weight=0, order=2),
    "power-link, no steps": PowerLink(steps=0),
    "gradient": Gradient(),
    "random": Random(),
}


def test_every_explainer_of_the_catalog_is_held_to_this_contract():
    assert {type(explainer) for explainer in CASES.values()} == set(EXPLAINERS.values())


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def explainer(request):
    return request.param


@pytest.fixture(params=["rgcn-transe", "wgcn-conve", "compgcn-distmult"])
def model(request):
    return model_of(*request.param.split("-"), 2, N, R)


def graph_for(model, queries=QUERIES, rows=ROWS):
    graph = prune(computation_graph(rows, N, R, queries, 2), hub_limit=9, core=2, max_length=3)
    messages = computation_graph(rows, N, R, [(0, 0, 0)], N)  # any encoding will do as features, as long as it is fixed
    entity = torch.zeros(N, 8, dtype=torch.float64)
    whole = model.encode(messages.everywhere)
    entity[messages.entity] = whole.entity.detach()
    return graph.with_features(entity, whole.relation.detach())


def test_scores_lie_in_the_range_on_kept_edges_and_are_zero_on_pruned_ones(explainer, model):
    graph = graph_for(model)
    assert not graph.kept.all()
    scores = explainer.score_edges(model, graph, seed=0)
    assert scores.values.shape == (graph.num_edges,)
    assert scores.values.isfinite().all()
    assert not scores.values.requires_grad
    kept = scores.values[graph.kept]
    assert ((kept > 0) & (kept <= 1)).all()
    assert (scores.values[~graph.kept] == 0).all()
    assert scores.path_term is None or scores.path_term.shape == (len(QUERIES),)


def test_the_same_seed_gives_the_same_scores(explainer, model):
    graph = graph_for(model)
    first, again = (explainer.score_edges(model, graph, seed=5).values for _ in range(2))
    assert torch.equal(first, again)
    if not isinstance(explainer, Gradient):
        assert not torch.equal(first, explainer.score_edges(model, graph, seed=6).values)


def test_a_querys_scores_do_not_depend_on_its_batch_or_order(explainer, model):
    graph = graph_for(model)
    together = explainer.score_edges(model, graph, seed=5)
    backwards = graph_for(model, QUERIES[::-1])
    turned = explainer.score_edges(model, backwards, seed=5)
    for q, query in enumerate(QUERIES):
        own = together.values[graph.query_of_edge == q]
        alone = explainer.score_edges(model, graph_for(model, [query]), seed=5)
        torch.testing.assert_close(own, alone.values, rtol=0, atol=1e-5)
        mirrored = turned.values[backwards.query_of_edge == len(QUERIES) - 1 - q]
        torch.testing.assert_close(own, mirrored, rtol=0, atol=1e-5)
        if together.path_term is not None:
            assert together.path_term[q] == alone.path_term[0]


def test_the_model_and_the_generators_are_left_as_they_were(explainer, model):
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    explainer.score_edges(model, graph_for(model), seed=0)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_it_works_where_gradients_are_switched_off(explainer, model):
    graph = graph_for(model)
    expected = explainer.score_edges(model, graph, seed=0).values
    with torch.no_grad():
        assert torch.equal(explainer.score_edges(model, graph, seed=0).values, expected)


def test_a_frozen_model_can_be_explained(explainer, model):
    graph = graph_for(model)
    expected = explainer.score_edges(model, graph, seed=0).values
    frozen = model.requires_grad_(False)
    torch.testing.assert_close(explainer.score_edges(frozen, graph, seed=0).values, expected)


@pytest.mark.parametrize("rows", [[(0, 0, 2), (1, 1, 3)], []], ids=["head and tail unconnected", "no edges at all"])
def test_queries_without_a_walk_or_without_an_edge_are_scored_all_the_same(explainer, model, rows):
    graph = graph_for(model, [(0, 0, 1)], rows)
    scores = explainer.score_edges(model, graph, seed=0)
    assert scores.values.shape == (graph.num_edges,)
    assert scores.values.isfinite().all()
    if scores.path_term is not None:
        assert scores.path_term.tolist() == [False]


def test_it_is_a_frozen_dataclass_and_the_catalog_makes_it_from_its_settings(explainer):
    assert is_dataclass(explainer)
    settings = {field.name: getattr(explainer, field.name) for field in fields(explainer)}
    assert make_explainer(explainer.name, settings) == explainer
    with pytest.raises(FrozenInstanceError):
        explainer.anything = 1


def test_unknown_explainers_and_settings_are_refused_with_what_there_is():
    with pytest.raises(UnknownNameError, match="power-link"):
        make_explainer("power-lnk")
    with pytest.raises(SettingsError, match="steps"):
        make_explainer("power-link", {"stepps": 3})
    with pytest.raises(SettingsError, match="none at all"):
        make_explainer("random", {"steps": 3})


@pytest.mark.parametrize(
    "wrong", [{"order": 1}, {"min_order": 0}, {"steps": -1}, {"lr": 0}, {"hidden": 0}, {"combination": "sum"}], ids=str
)
def test_power_link_refuses_settings_that_cannot_be(wrong):
    with pytest.raises(SettingsError):
        PowerLink(**wrong)


def test_the_gradient_explainer_gives_each_fact_its_first_order_effect():
    model = model_of("compgcn", "distmult", 2, N, R)
    graph = graph_for(model)
    weight = torch.ones(graph.num_edges, dtype=torch.float64, requires_grad=True)
    score = model.score(model.encode(graph, weight), graph.triples)
    found = Gradient(floor=0.01).score_edges(model, graph, seed=0).values
    for q in range(len(QUERIES)):
        (raw,) = torch.autograd.grad(score[q], weight, retain_graph=True)
        own = (graph.query_of_edge == q) & graph.kept
        effect = (raw + raw[graph.reverse]).clamp(min=0)[own]
        torch.testing.assert_close(found[own], (effect / effect.max()).clamp(min=0.01).float(), rtol=1e-4, atol=1e-6)


def test_power_link_moves_the_mask_towards_walks_from_head_to_tail():
    model = model_of("compgcn", "distmult", 1, 6, 1)
    rows = [(0, 0, 1), (1, 0, 2), (0, 0, 3), (1, 0, 4), (2, 0, 5)]  # 0 → 1 → 2, and three edges that lead nowhere
    graph = computation_graph(rows, 6, 1, [(0, 0, 2)], 2)
    whole = model.encode(graph.everywhere)
    entity = torch.zeros(6, 8, dtype=torch.float64).index_copy(0, graph.entity, whole.entity.detach())
    graph = graph.with_features(entity, whole.relation.detach())
    values = PowerLink(steps=100, order=2, prediction_weight=0, size_weight=0.5).score_edges(model, graph, 0).values
    on_walk = {(0, 1), (1, 2)}
    pairs = list(zip(graph.entity[graph.source].tolist(), graph.entity[graph.target].tolist(), strict=True))
    weakest = min(values[e].item() for e, pair in enumerate(pairs) if pair in on_walk)
    assert weakest > max(values[e].item() for e, pair in enumerate(pairs) if pair not in on_walk)
