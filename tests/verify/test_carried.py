"""What facts carry together, against graphs that are rebuilt without them and encoded anew, in float64."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import (
    MessageSum,
    computation_graph,
    edges_without,
    evidence_of,
    fact_lists,
    model_of,
    random_rows,
    removal,
)
from powerlink.evidence import EvidenceBatch
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.memory import Room
from powerlink.models.protocol import LinkModel
from powerlink.paths.search import SearchGraph, best_paths
from powerlink.verify.carried import Carried, measure_carried

N, R = 8, 3
QUERIES = [(0, 0, 1), (2, 1, 3), (4, 2, 5), (0, 2, 6)]
MODELS = ["rgcn-transe", "wgcn-conve", "compgcn-distmult"]


def graph_and_paths(rows, queries=QUERIES, hops=2, seed=0, max_length=3) -> tuple[ComputationGraph, EvidenceBatch]:
    graph = computation_graph(rows, N, R, queries, hops)
    cost = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(seed)).clamp(min=0.01).double()
    search = SearchGraph(graph.source, graph.target, graph.num_nodes, graph.head, graph.tail)
    return graph, EvidenceBatch.of_paths(
        best_paths(search, cost, count=12, max_length=max_length)
    )  # parallel variants and all


def score(model: LinkModel, graph: ComputationGraph, query: int, removed: list[int]) -> float:
    both = sorted({*removed, *graph.reverse[removed].tolist()}) if removed else []
    with torch.no_grad():
        return model.score(model.encode(edges_without(graph, both)), graph.triples[query : query + 1]).item()


def naive(
    model: LinkModel, graph: ComputationGraph, paths: EvidenceBatch, path: int
) -> tuple[float, list[float], float]:
    """The fall without the path, without each fact alone, and inclusion and exclusion over all its subsets."""
    query, facts = int(paths.query[path]), [edge for edge in paths.edges[path].tolist() if edge >= 0]
    base = score(model, graph, query, [])

    def fall(removed):
        return base - score(model, graph, query, list(removed))

    together = sum(
        (-1) ** (size + 1) * sum(fall(some) for some in combinations(facts, size)) for size in range(1, len(facts) + 1)
    )
    return fall(facts), [fall([fact]) for fact in facts], together


def assert_brute_force(model: LinkModel, graph: ComputationGraph, paths: EvidenceBatch, carried: Carried) -> None:
    for path in range(paths.count):
        drop, alone, together = naive(model, graph, paths, path)
        assert carried.drop[path].item() == pytest.approx(drop, abs=1e-9)
        assert carried.alone[path, : len(alone)].tolist() == pytest.approx(alone, abs=1e-9)
        assert not carried.alone[path, len(alone) :].any()
        assert carried.together[path].item() == pytest.approx(together, abs=1e-9)
        assert carried.strongest[path].item() == pytest.approx(max(map(abs, alone)), abs=1e-9)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_it_is_inclusion_and_exclusion_over_rebuilt_graphs(name, layers):
    model = model_of(*name.split("-"), layers, N, R)
    graph, paths = graph_and_paths(random_rows(3, N, R, 30))
    assert paths.count > 20
    assert (paths.size == 3).any()
    assert_brute_force(model, graph, paths, measure_carried(removal(model, graph), graph, paths))


@settings(max_examples=25, deadline=None)
@given(rows=fact_lists(N, R, max_size=26, min_size=4), name=st.sampled_from(MODELS), layers=st.integers(1, 2))
def test_on_any_multigraph(rows, name, layers):
    model = model_of(*name.split("-"), layers, N, R)
    graph, paths = graph_and_paths(rows)
    assert_brute_force(model, graph, paths, measure_carried(removal(model, graph), graph, paths))


def test_a_batch_is_its_queries_one_by_one_whatever_the_room():
    rows, model = random_rows(5, N, R, 30), model_of("compgcn", "distmult", 2, N, R)
    graph, paths = graph_and_paths(rows)
    together = measure_carried(removal(model, graph), graph, paths)
    pieces = measure_carried(removal(model, graph, Room(edges=1, logits=1)), graph, paths)
    for name in ("drop", "alone", "together", "base"):
        torch.testing.assert_close(getattr(pieces, name), getattr(together, name), rtol=0, atol=1e-12)
    for q, query in enumerate(QUERIES):
        alone_graph = computation_graph(rows, N, R, [query], 2)
        shift = int(graph.edge_row[q])
        own = paths.query == q
        edges = torch.where(paths.edges[own] >= 0, paths.edges[own] - shift, -1)
        here = evidence_of(torch.zeros_like(paths.query[own]), edges)
        carried = measure_carried(removal(model, alone_graph), alone_graph, here)
        torch.testing.assert_close(carried.together, together.together[own], rtol=0, atol=1e-12)
        torch.testing.assert_close(carried.alone, together.alone[own], rtol=0, atol=1e-12)


def test_facts_that_each_do_something_of_their_own_carry_nothing_together():
    """`MessageSum` adds up what head and tail hear: no fact needs another."""
    rows = [(0, 0, 1), (1, 0, 3), (0, 0, 2), (2, 0, 3)]
    graph, paths = graph_and_paths(rows, [(0, 0, 3)], hops=1)
    carried = measure_carried(removal(MessageSum([1.0] * N, head_share=1.0), graph), graph, paths)
    assert (carried.drop > 0.5).all()
    assert carried.together.abs().max() < 1e-9


def test_a_fact_that_no_layer_sees_makes_the_whole_carry_exactly_nothing():
    model = model_of("rgcn", "distmult", 1, N, R)
    graph, paths = graph_and_paths(random_rows(3, N, R, 30))
    unseen = (paths.edges >= 0) & ~graph.visible(paths.edges, 1)
    assert unseen.any()
    carried = measure_carried(removal(model, graph), graph, paths)
    assert (carried.together[unseen.any(1)] == 0).all()
    assert (carried.alone[unseen] == 0).all()


def test_picking_places_keeps_the_numbers_and_leaves_gaps_empty():
    model = model_of("compgcn", "distmult", 2, N, R)
    graph, paths = graph_and_paths(random_rows(5, N, R, 30))
    carried = measure_carried(removal(model, graph), graph, paths)
    picked = carried.at(torch.tensor([[2, -1], [0, 1]]))
    assert picked.together.tolist() == [carried.together[2], 0.0, carried.together[0], carried.together[1]]
    assert torch.equal(picked.alone[[0, 2]], carried.alone[[2, 0]])
    assert not picked.alone[1].any()
    nothing = measure_carried(removal(model, graph), graph, paths.select(torch.empty(0, dtype=torch.int64)))
    assert nothing.at(torch.full((4, 2), -1)).drop.tolist() == [0.0] * 8
