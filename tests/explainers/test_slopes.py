"""Slopes against finite differences of the score, query by query."""

from __future__ import annotations

import pytest
import torch

from builders import computation_graph, model_of, random_rows
from powerlink.errors import SettingsError
from powerlink.explainers.floor import Gradient
from powerlink.explainers.slopes import FLOOR, Slopes, fact_slopes, share_of_largest
from powerlink.models.protocol import logits_by_weight

N, R = 10, 3
QUERIES = [(0, 0, 1), (2, 4, 3), (5, 1, 6)]


@pytest.fixture(params=["rgcn-distmult", "wgcn-conve", "compgcn-distmult"])
def case(request):
    graph = computation_graph(random_rows(2, N, R, 26), N, R, QUERIES, 2)
    return model_of(*request.param.split("-"), 2, N, R), graph


def by_differences(model, graph, weight: float) -> torch.Tensor:
    """Both directions of every fact, moved a little up and down while all edges weigh alike."""
    logits, step = logits_by_weight(model, graph, graph.triples), 1e-5
    slopes = torch.zeros(graph.num_edges, dtype=torch.float64)
    with torch.no_grad():
        for edge in range(graph.num_edges):
            both = {edge, int(graph.reverse[edge])}
            moved = []
            for sign in (1, -1):
                weights = torch.full((graph.num_edges,), weight, dtype=torch.float64)
                weights[list(both)] += sign * step
                moved.append(logits(weights)[graph.query_of_edge[edge]])
            slopes[edge] = (moved[0] - moved[1]) / (2 * step)
    return slopes


def test_they_are_the_scores_slopes_at_full_and_at_half_weight(case):
    model, graph = case
    whole, half = by_differences(model, graph, 1.0), by_differences(model, graph, 0.5)
    torch.testing.assert_close(fact_slopes(model, graph).double(), whole, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(fact_slopes(model, graph, points=2).double(), (whole + half) / 2, rtol=1e-3, atol=1e-5)


def test_scores_are_shares_of_the_querys_largest_and_the_same_for_a_facts_two_directions(case):
    model, graph = case
    scores = Slopes().score_edges(model, graph, 0).values
    assert torch.equal(scores, scores[graph.reverse])
    for q in range(graph.num_queries):
        own = scores[graph.query_of_edge == q]
        assert own.max() == 1
        assert own.min() >= FLOOR
    raw = torch.full((graph.num_edges,), -1.0)
    assert (share_of_largest(raw, graph, FLOOR) == FLOOR).all(), "what would raise the score alone has no share"


def test_one_point_is_the_plain_gradient(case):
    model, graph = case
    one, floor = Slopes(points=1), Gradient()
    assert torch.equal(one.score_edges(model, graph, 0).values, floor.score_edges(model, graph, 0).values)
    with pytest.raises(SettingsError, match="points must be at least 1, not 0"):
        Slopes(points=0)
