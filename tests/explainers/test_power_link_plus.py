"""power-link-plus against a plain version of it: edges weighted one graph at a time, torch's own Adam, float64."""

from __future__ import annotations

import pytest
import torch

from builders import computation_graph, model_of, random_rows
from powerlink.errors import SettingsError
from powerlink.explainers.learned.masks import FreeLogits
from powerlink.explainers.learned.path_terms import PowerPath
from powerlink.explainers.learned.power_link_plus import PowerLinkPlus
from powerlink.explainers.learned.terms import counterfactual, keep_as_is, lose_prediction
from powerlink.explainers.slopes import fact_slopes

N, R = 12, 3
ROWS = random_rows(0, N, R, 34)
QUERIES = [(0, 0, 1), (2, 4, 3), (5, 1, 6)]


def pruned(queries):
    """Computation graphs without every fifth fact, the same facts in any batch."""
    graph = computation_graph(ROWS, N, R, queries, 2)
    fact = torch.minimum(graph.edge, graph.edge[graph.reverse])
    return graph.pruned_to(fact % 5 != 0)


def probability(model, graph, weight):
    return torch.sigmoid(model.score(model.encode(graph, weight), graph.triples))


@pytest.fixture(params=["rgcn-transe", "wgcn-conve", "compgcn-distmult"])
def model(request):
    return model_of(*request.param.split("-"), 2, N, R)


def test_the_terms_are_cross_entropies_of_what_the_weighted_graphs_predict(model):
    graph = pruned(QUERIES)
    assert not graph.kept.all(), "something is pruned, and keeps its weight in the counterfactual"
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(graph.kept_edges.num_edges, dtype=torch.float64, generator=generator)
    mask = graph.kept_edges.scatter(torch.sigmoid(logits), graph.num_edges)
    believed = probability(model, graph, torch.ones_like(mask))
    kept, rest = probability(model, graph, mask), probability(model, graph, 1 - mask)
    faithful = -(believed * kept.log() + (1 - believed) * (1 - kept).log())
    torch.testing.assert_close(keep_as_is(model, graph)(logits), faithful, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(lose_prediction(model, graph)(logits), -(1 - rest).log(), rtol=1e-8, atol=1e-10)
    assert counterfactual(0.0, model, graph) == []


def plain_mask(model, graph, how: PowerLinkPlus, seed: int) -> torch.Tensor:
    """Learn one query's mask the slow way."""
    edges = graph.kept_edges
    slopes = fact_slopes(model, graph, points=2)[edges.index]
    start = how.start * torch.sign(slopes) * (slopes.abs() / slopes.abs().max()) ** 0.25
    drawn = FreeLogits(graph, seed=seed).logits().detach()
    logits = (drawn + start).requires_grad_()
    believed = probability(model, graph, torch.ones(graph.num_edges, dtype=torch.float64)).detach()
    path, adam = PowerPath(graph, how.order, how.min_order), torch.optim.Adam([logits], lr=how.lr)
    for _ in range(how.steps):
        mask = edges.scatter(torch.sigmoid(logits), graph.num_edges)
        kept, rest = (probability(model, graph, weight.double()) for weight in (mask, 1 - mask))
        loss = how.prediction_weight * -(believed * kept.log() + (1 - believed) * (1 - kept).log())
        loss = loss - how.counterfactual_weight * (1 - rest).log() + how.path_weight * path(logits)
        loss = loss + how.size_weight * torch.sigmoid(logits).square().sum().sqrt()
        adam.zero_grad()
        loss.sum().backward()
        adam.step()
    return edges.scatter(torch.sigmoid(logits.detach()), graph.num_edges)


def test_a_batch_learns_what_each_query_learns_the_plain_way(model):
    how = PowerLinkPlus(steps=8)
    together = pruned(QUERIES)
    scores = how.score_edges(model, together, 5)
    for q, query in enumerate(QUERIES):
        alone = pruned([query])
        expected = plain_mask(model, alone, how, 5)
        own = scores.values[together.edge_row[q] : together.edge_row[q + 1]]
        torch.testing.assert_close(own.double(), expected.double(), rtol=0, atol=2e-4)


def test_paths_are_searched_by_the_slopes_and_the_mask_is_told_apart(model):
    graph = pruned(QUERIES)
    scores = PowerLinkPlus(steps=3).score_edges(model, graph, 0)
    assert scores.by_route is not None
    assert torch.equal(scores.for_search, scores.by_route)
    assert not torch.equal(scores.values, scores.by_route)


def test_what_cannot_be_is_refused():
    with pytest.raises(SettingsError, match="min_order must lie between 1 and order"):
        PowerLinkPlus(min_order=4)
    with pytest.raises(SettingsError, match="steps must not be negative"):
        PowerLinkPlus(steps=-1)
