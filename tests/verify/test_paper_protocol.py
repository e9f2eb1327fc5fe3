"""The paper's metrics on graphs small enough to do by hand."""

from __future__ import annotations

import math

import pytest
import torch

from builders import MessageSum, computation_graph, edge_rows, edges_without, model_of, random_rows
from powerlink.evidence import EvidenceBatch
from powerlink.paths.propose import propose
from powerlink.verify.choice import choose_in_order
from powerlink.verify.paper_protocol import measure_paper

# 0 → 1 → 2 with a parallel fact between 1 and 2, and 0 → 3 → 2. Head 0, tail 2.
ROWS = [(0, 0, 1), (1, 0, 2), (1, 1, 2), (0, 0, 3), (3, 0, 2)]
VALUES = [1.0, 10.0, 0.5, 5.0]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def hand_graph():
    graph = computation_graph(ROWS, 4, 2, [(0, 1, 2)], 1)
    return graph, {row: e for e, row in enumerate(edge_rows(graph))}


def padded(*paths, length=3):
    rows = [list(path) + [-1] * (length - len(path)) for path in paths]
    return torch.tensor(rows, dtype=torch.int64).reshape(1, -1, length)


def test_fidelity_and_sparsity_by_hand():
    graph, edge = hand_graph()
    mask = torch.zeros(graph.num_edges, dtype=torch.float64)
    mask[edge[1, 0, 2]], mask[edge[3, 0, 2]] = 0.5, 0.25
    graph = graph.pruned_to(mask > 0)
    model = MessageSum([0.1, 0.2, 0.3, 0.4])
    found = measure_paper(model, graph, mask, padded(), [1])
    plain = sigmoid(0.3 + 0.2 + 0.2 + 0.4)  # own value, 1 twice, 3
    assert found.fidelity_plus.item() == pytest.approx(abs(plain - sigmoid(0.3 + 0.5 * 0.2 + 0.2 + 0.75 * 0.4)))
    assert found.fidelity_minus.item() == pytest.approx(abs(sigmoid(0.3 + 0.5 * 0.2 + 0.25 * 0.4) - plain))
    assert found.sparsity.item() == pytest.approx(1 - 0.75 / 10)
    assert found.sparsity_kept.item() == pytest.approx(1 - 0.75 / 2)


def test_ranks_are_among_the_graphs_own_nodes_unfiltered():
    # numbers after one layer: 0: 1 + 10 + 5, 1: 10 + 1 + 0.5 + 0.5, 2: 0.5 + 10 + 10 + 5, 3: 5 + 1 + 0.5
    graph, edge = hand_graph()
    found = measure_paper(
        MessageSum(VALUES), graph, torch.ones(graph.num_edges), padded([edge[0, 0, 1], edge[1, 0, 2]]), [1]
    )
    assert found.rank.item() == 1
    # all parallels of 1 → 2 go, so 2 has 5.5; 0 → 1 goes too, so 1 has 11; 0 keeps 16 (direction!), 3 has 6.5
    assert found.rank_without_top.item() == 4


def test_parallel_edges_go_in_the_paths_direction_only():
    graph, edge = hand_graph()
    model = MessageSum([0.0, 0.0, 0.0, 0.0])
    model.values.data = torch.tensor([0.0, 1.0, 4.0, 0.0], dtype=torch.float64)
    # whole: 0: 1, 1: 1 + 4 + 4 = 9, 2: 4 + 1 + 1 = 6, 3: 4. Without 1 → 2: 2 has 4, 1 still 9, 3 ties at 4.
    found = measure_paper(model, graph, torch.ones(graph.num_edges), padded([edge[1, 1, 2]]), [1])
    assert found.rank.item() == 2
    assert found.rank_without_top.item() == 3  # the tie counts against the tail


def test_ties_count_against_the_tail():
    graph, _ = hand_graph()
    found = measure_paper(MessageSum([0.0] * 4), graph, torch.ones(graph.num_edges), padded(), [1])
    assert found.rank.item() == 4


def test_with_fewer_than_m_paths_all_there_are_are_removed():
    graph, edge = hand_graph()
    paths = padded([edge[0, 0, 1], edge[1, 0, 2]], [edge[0, 0, 3], edge[3, 0, 2]])
    found = measure_paper(MessageSum(VALUES), graph, torch.ones(graph.num_edges), paths, [1, 2, 5])
    assert found.rank_without_top.shape == (1, 3)
    assert found.rank_without_top[0, 1] == found.rank_without_top[0, 2]


def test_a_query_without_paths_keeps_its_rank():
    graph, _ = hand_graph()
    paths = torch.full((1, 2, 3), -1)
    found = measure_paper(MessageSum(VALUES), graph, torch.ones(graph.num_edges), paths, [1, 3])
    assert found.rank_without_top.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("name", ["rgcn-transe", "wgcn-distmult", "compgcn-conve"])
def test_ranks_of_real_models_equal_those_on_graphs_with_the_edges_deleted(name):
    n, r = 10, 2
    queries = [(0, 0, 1), (2, 3, 3), (4, 1, 9)]
    graph = computation_graph(random_rows(0, n, r, 28), n, r, queries, 2)
    model = model_of(*name.split("-"), 2, n, r)
    scores = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0)).clamp(min=0.05)
    candidates = propose(graph, scores, cost="inverse", count=9, min_length=1, max_length=3)
    candidates = EvidenceBatch.of_paths(candidates)
    paths = choose_in_order(graph, candidates, 4).edges_of(candidates)
    mask = scores.double()
    found = measure_paper(model, graph, mask, paths, [1, 3, 5])

    def rank(edges, q):
        nodes = torch.arange(*graph.node_row[q : q + 2].tolist())
        triples = torch.stack([graph.head[q].expand_as(nodes), graph.queries[q, 1].expand_as(nodes), nodes], 1)
        logits = model.score(model.encode(edges), triples)
        return int((logits >= logits[nodes == graph.tail[q]]).sum())

    pairs = list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    for q in range(len(queries)):
        assert found.rank[q] == rank(edges_without(graph, []), q)
        for column, top in enumerate([1, 3, 5]):
            hops = {pairs[e] for e in paths[q, :top].flatten().tolist() if e >= 0}
            removed = [e for e, pair in enumerate(pairs) if pair in hops]
            assert found.rank_without_top[q, column] == rank(edges_without(graph, removed), q)
        own = graph.query_of_edge == q
        assert found.sparsity[q].item() == pytest.approx(1 - mask[own].mean().item())
    plain = torch.sigmoid(model.score(model.encode(graph.everywhere), graph.triples))
    masked = torch.sigmoid(model.score(model.encode(graph.everywhere, mask), graph.triples))
    rest = torch.sigmoid(model.score(model.encode(graph.everywhere, 1 - mask), graph.triples))
    torch.testing.assert_close(found.fidelity_plus, (plain - rest).abs().detach())
    torch.testing.assert_close(found.fidelity_minus, (plain - masked).abs().detach())
