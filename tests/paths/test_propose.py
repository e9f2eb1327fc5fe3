from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import computation_graph, edge_rows, fact_lists, random_rows
from powerlink.paths.propose import RouteSearch, edge_cost, propose
from powerlink.paths.search import PathBatch, SearchGraph, best_paths


def batch(*paths, length=3):
    """Paths given as (query, edges, cost)."""
    rows = [list(edges) + [-1] * (length - len(edges)) for _, edges, _ in paths]
    return PathBatch(
        torch.tensor([q for q, _, _ in paths], dtype=torch.int64),
        torch.tensor(rows, dtype=torch.int64).reshape(-1, length),
        torch.tensor([len(edges) for _, edges, _ in paths], dtype=torch.int64),
        torch.tensor([cost for _, _, cost in paths], dtype=torch.float64),
    )


def listed(candidates):
    paths = candidates.paths
    return [
        (q, tuple(e for e in edges if e >= 0), cost, who)
        for q, edges, cost, who in zip(
            paths.query.tolist(), paths.edges.tolist(), paths.cost.tolist(), candidates.proposer.tolist(), strict=True
        )
    ]


def test_costs_are_inverse_scores_or_their_negative_logarithms_in_float64():
    scores = torch.tensor([1.0, 0.5, 1e-6])
    assert edge_cost(scores, "inverse").tolist() == pytest.approx([1, 2, 1e6])
    assert edge_cost(scores, "log").tolist() == pytest.approx([1e-9, math.log(2), 6 * math.log(10)], rel=1e-6)
    assert edge_cost(scores, "inverse").dtype == torch.float64


def test_under_log_cost_the_best_product_wins_and_under_inverse_cost_the_best_sum():
    # a long way of good edges and a short one of a bad edge
    rows = [(0, 0, 1), (1, 0, 2), (2, 0, 3), (0, 1, 3)]
    graph = computation_graph(rows, 4, 2, [(0, 0, 3)], 2)
    by_row = {row: e for e, row in enumerate(edge_rows(graph))}
    scores = torch.full((graph.num_edges,), 0.01)
    for row in rows[:3]:
        scores[by_row[row]] = 0.8
    scores[by_row[0, 1, 3]] = 0.3
    lengths = {"count": 1, "min_length": 1, "max_length": 3}
    assert propose(graph, scores, cost="log", **lengths).length.item() == 3
    assert propose(graph, scores, cost="inverse", **lengths).length.item() == 1


def test_proposals_name_the_graphs_own_edges_and_use_kept_ones_only():
    graph = computation_graph(random_rows(0, 10, 2, 30), 10, 2, [(0, 0, 1), (2, 0, 3)], 2)
    kept = torch.arange(graph.num_edges) % 4 != 0
    pruned = graph.pruned_to(kept)
    scores = torch.linspace(0.1, 0.9, graph.num_edges) * kept
    found = propose(pruned, scores, cost="inverse", count=10, min_length=1, max_length=3)
    assert found.count > 2
    for query, row, cost in zip(found.query, found.edges, found.cost, strict=True):
        path = row[row >= 0]
        assert kept[path].all()
        assert graph.source[path[0]] == graph.head[query]
        assert graph.target[path[-1]] == graph.tail[query]
        assert cost.item() == pytest.approx(scores[path].double().reciprocal().sum().item(), rel=1e-6)


def test_of_parallel_edges_only_the_cheapest_is_proposed_and_the_first_among_equals():
    graph = computation_graph([(0, 0, 2), (0, 1, 2), (0, 2, 2), (2, 0, 1), (2, 1, 1)], 3, 3, [(0, 0, 1)], 2)
    scores = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(1)).clamp(min=0.05)
    found = propose(graph, scores, cost="inverse", count=10, min_length=1, max_length=3)
    assert found.count == 1
    for edge in found.edges[0, :2].tolist():
        rivals = (graph.source == graph.source[edge]) & (graph.target == graph.target[edge])
        assert scores[edge] == scores[rivals].max()
    level = propose(graph, torch.full_like(scores, 0.5), cost="log", count=10, min_length=1, max_length=3)
    for edge in level.edges[0, :2].tolist():
        rivals = (graph.source == graph.source[edge]) & (graph.target == graph.target[edge])
        assert edge == rivals.nonzero().min()


@settings(max_examples=25)
@given(fact_lists(6, 2, 16), st.integers(0, 10**6))
def test_a_search_prepared_once_finds_what_a_new_one_finds_under_every_cost(rows, seed):
    graph = computation_graph(rows, 6, 2, [(0, 0, 1), (2, 3, 4)], 2)
    graph = graph.pruned_to(torch.arange(graph.num_edges) % 5 != 0)
    wish = {"count": 4, "min_length": 1, "max_length": 3}
    prepared = RouteSearch(graph, **wish)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(3):
        scores = torch.rand(graph.num_edges, generator=generator).clamp(min=0.01) * graph.kept
        cost = edge_cost(scores[graph.kept_edges.index], "log")
        found = prepared(cost)
        fresh = propose(graph, scores, cost="log", **wish)
        assert torch.equal(found.edges, fresh.edges)
        every = SearchGraph(  # all kept edges, parallel ones and those that lead nowhere included
            graph.kept_edges.source,
            graph.kept_edges.target,
            graph.num_nodes,
            graph.head,
            graph.tail,
        )
        best = best_paths(every, cost, count=1, max_length=3)
        first = [found.edges[(found.query == q).nonzero()[0, 0]].tolist() for q in found.query.unique().tolist()]
        ids = torch.where(best.edges >= 0, graph.kept_edges.index[best.edges.clamp(min=0)], -1) if best.count else None
        assert first == ([] if ids is None else ids.tolist())
