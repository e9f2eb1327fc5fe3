"""The triplet scorer and the terms, against their formulas."""

from __future__ import annotations

import math

import pytest
import torch

from builders import computation_graph, model_of, random_rows
from powerlink.errors import SettingsError
from powerlink.explainers.learned.learner import Descent, learn_mask
from powerlink.explainers.learned.masks import TripletScorer, mask_of
from powerlink.explainers.learned.terms import keep_prediction, mask_norm
from powerlink.paths.propose import edge_cost

N, R, WIDTH = 10, 2, 4
ROWS = random_rows(0, N, R, 26)
QUERIES = [(0, 0, 1), (2, 3, 3), (4, 1, 9), (0, 0, 1)]
COMBINATIONS = ["concat", "euclidean"]


def graph_of(queries=QUERIES, pruned=True):
    generator = torch.Generator().manual_seed(5)
    entity = torch.randn(N, WIDTH, dtype=torch.float64, generator=generator)
    relation = torch.randn(2 * R, WIDTH, dtype=torch.float64, generator=generator)
    graph = computation_graph(ROWS, N, R, queries, 2)
    if pruned:  # by the message graph's edge, so that a query's edges are the same in any batch
        graph = graph.pruned_to(graph.edge % 3 != 0)
    return graph.with_features(entity, relation)


def explicit_logits(scorer, graph):
    """One ordinary MLP per query on one row per edge."""
    nodes, relations = graph.features
    edges = graph.kept_edges
    out = []
    for e in range(edges.num_edges):
        q = int(edges.query[e])
        own = [nodes[edges.source[e]], relations[edges.relation[e]], nodes[edges.target[e]]]
        asked = [nodes[graph.head[q]], relations[graph.queries[q, 1]], nodes[graph.tail[q]]]
        if scorer.first.size(1) == 3:
            row = torch.stack([(a - b).norm() for a, b in zip(own, asked, strict=True)])
        else:
            row = torch.cat([*own, *asked])
        hidden = torch.relu(row @ scorer.first[q] + scorer.first_bias[q])
        hidden = torch.relu(hidden @ scorer.second[q] + scorer.second_bias[q])
        out.append((hidden @ scorer.last[q] + scorer.last_bias[q]).squeeze())
    return torch.stack(out)


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_logits_equal_an_explicit_mlp_over_concatenated_rows_and_so_do_gradients(combination):
    graph = graph_of()
    scorer = TripletScorer(graph, combination=combination, hidden=8, seed=3)
    fast, slow = scorer.logits(), explicit_logits(scorer, graph)
    torch.testing.assert_close(fast, slow)
    weights = torch.linspace(-1, 1, fast.numel(), dtype=torch.float64)
    for one, other in zip(
        torch.autograd.grad((fast * weights).sum(), scorer.parameters),
        torch.autograd.grad((slow * weights).sum(), scorer.parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_a_batch_of_queries_is_scored_as_each_alone(combination):
    graph = graph_of()
    together = TripletScorer(graph, combination=combination, hidden=8, seed=3).logits()
    for q, query in enumerate(QUERIES):
        alone = TripletScorer(graph_of([query]), combination=combination, hidden=8, seed=3).logits()
        torch.testing.assert_close(together[graph.kept_edges.query == q], alone)


def test_weights_start_within_the_bounds_of_a_linear_layer_and_differ_between_queries_and_seeds():
    scorer = TripletScorer(graph_of(), combination="concat", hidden=8, seed=3)
    for part, fan_in in zip(scorer.parameters, (6 * WIDTH, 6 * WIDTH, 8, 8, 8, 8), strict=True):
        assert part.abs().max() <= 1 / math.sqrt(fan_in)
    assert scorer.first.std().item() == pytest.approx(1 / math.sqrt(3 * 6 * WIDTH), rel=0.1)
    assert torch.equal(scorer.first[0], scorer.first[3])  # the same query twice
    assert not torch.equal(scorer.first[0], scorer.first[1])
    other = TripletScorer(graph_of(), combination="concat", hidden=8, seed=4)
    assert not torch.equal(scorer.first, other.first)


def test_a_graph_without_features_is_refused():
    with pytest.raises(SettingsError, match="with_features"):
        TripletScorer(computation_graph(ROWS, N, R, QUERIES, 2), combination="concat", hidden=8, seed=0)


def test_the_size_term_is_the_norm_of_each_querys_mask():
    graph = graph_of()
    logits = torch.randn(graph.kept_edges.num_edges, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = mask_norm(graph)(logits)
    for q in range(len(QUERIES)):
        assert found[q].item() == pytest.approx(torch.sigmoid(logits[graph.kept_edges.query == q]).norm().item())


def test_a_query_without_kept_edges_has_no_size_and_poisons_nobody():
    graph = graph_of()
    graph = graph.pruned_to(graph.kept & (graph.query_of_edge != 1))
    logits = torch.zeros(graph.kept_edges.num_edges, dtype=torch.float64, requires_grad=True)
    size = mask_norm(graph)(logits)
    assert size[1] < 1e-100
    (gradient,) = torch.autograd.grad(size.sum(), logits)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("encoder", ["rgcn", "wgcn", "compgcn"])
def test_the_prediction_term_is_minus_the_log_probability_on_the_masked_graph(encoder):
    graph, model = graph_of(), model_of(encoder, "distmult", 2, N, R)
    kept = graph.kept_edges
    logits = torch.randn(kept.num_edges, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight = kept.scatter(torch.sigmoid(logits), graph.num_edges)  # pruned edges weigh nothing
    score = model.score(model.encode(graph, weight), graph.triples)
    torch.testing.assert_close(keep_prediction(model, graph)(logits), -torch.sigmoid(score).log())


def test_the_prediction_term_does_not_underflow():
    class Certain:
        num_layers = 1

        def encode(self, graph, edge_weight=None):
            return None

        def score(self, embeddings, triples):
            return torch.full((len(triples),), -2000.0)

    graph = graph_of()
    assert keep_prediction(Certain(), graph)(torch.zeros(graph.kept_edges.num_edges)).tolist() == [2000.0] * 4


def test_learning_a_batch_learns_every_query_as_if_it_were_alone_and_gives_the_model_no_gradient():
    model = model_of("compgcn", "distmult", 2, N, R)

    def learn(graph):
        scorer = TripletScorer(graph, combination="concat", hidden=8, seed=1)
        return learn_mask(scorer, [(1.0, keep_prediction(model, graph)), (0.1, mask_norm(graph))], steps=10, lr=0.01)

    graph = graph_of()
    together = learn(graph)
    for q, query in enumerate(QUERIES):
        torch.testing.assert_close(together[graph.kept_edges.query == q], learn(graph_of([query])), rtol=0, atol=1e-6)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_learning_lowers_the_loss_and_works_where_gradients_are_off():
    model, graph = model_of("compgcn", "distmult", 2, N, R), graph_of()
    terms = [(1.0, keep_prediction(model, graph)), (0.1, mask_norm(graph))]

    def loss(mask):
        logits = torch.logit(mask)
        return sum(weight * term(logits).sum().item() for weight, term in terms)

    with torch.no_grad():
        before, after = (
            loss(learn_mask(TripletScorer(graph, combination="concat", hidden=8, seed=1), terms, steps=n, lr=0.01))
            for n in (0, 30)
        )
    assert after < before - 0.1


def test_gradients_lie_as_their_parameters_do_whatever_made_them():
    class Turned:
        def __init__(self):
            self.parameters = [torch.ones(2, 3, requires_grad=True), torch.ones(3, requires_grad=True)]

        def logits(self):  # the first gradient comes transposed, the second with a stride of zero
            return torch.cat([self.parameters[0].t().flatten() ** 2, self.parameters[1]])

    mask = Turned()
    Descent(mask.parameters, 0.1).step(mask, [(1.0, lambda logits: logits.sum().unsqueeze(0))])
    for parameter in mask.parameters:
        assert parameter.grad.stride() == parameter.stride()
        torch.testing.assert_close(parameter.detach(), torch.full_like(parameter, 0.9))


def test_masks_close_to_one_still_tell_edges_apart():
    logits = torch.tensor([18.0, 17.5, 17.0])
    assert torch.sigmoid(logits).unique().numel() == 1, "float32 holds them all for 1"
    cost = edge_cost(mask_of(logits), "inverse")
    assert cost.dtype == torch.float64
    torch.testing.assert_close(cost - 1, torch.exp(-logits.double()), rtol=1e-6, atol=0)
