from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from powerlink.paths.search import SearchGraph, best_paths

NODES = 6


def search_graph(edges, ends, num_nodes):
    """The graph and its edges' costs."""
    source, target, cost = ([edge[i] for edge in edges] for i in range(3))
    head, tail = (torch.tensor([end[i] for end in ends], dtype=torch.int64) for i in range(2))
    source, target = (torch.tensor(nodes, dtype=torch.int64) for nodes in (source, target))
    return SearchGraph(source, target, num_nodes, head, tail), torch.tensor(cost, dtype=torch.float64)


def every_path(edges, head, tail, min_length, max_length):
    """All simple paths by depth-first search, as (cost summed from the tail, edge ids), sorted."""
    found = []

    def grow(node, visited, path):
        if node == tail:
            if len(path) >= min_length:
                cost = 0.0
                for edge in reversed(path):
                    cost = edges[edge][2] + cost
                found.append((cost, tuple(path)))
            return
        if len(path) == max_length:
            return
        for edge, (source, target, _) in enumerate(edges):
            if source == node and target not in visited:
                grow(target, visited | {target}, [*path, edge])

    if head != tail:
        grow(head, {head}, [])
    return sorted(found)


def told(batch, query):
    rows = zip(batch.query.tolist(), batch.cost.tolist(), batch.edges.tolist(), batch.length.tolist(), strict=True)
    return [(cost, tuple(edges[:length])) for q, cost, edges, length in rows if q == query]


def side_by_side(blocks):
    """Give every query its own copy of nodes, as a batch does; return edges, ends, number of nodes, first edges."""
    edges, ends, starts = [], [], []
    for q, (own, (head, tail)) in enumerate(blocks):
        starts.append(len(edges))
        edges += [(s + q * NODES, t + q * NODES, c) for s, t, c in own]
        ends.append((head + q * NODES, tail + q * NODES))
    return edges, ends, NODES * len(blocks), starts


def block(costs):
    node = st.integers(0, NODES - 1)
    edge = st.tuples(node, node, costs)
    return st.tuples(st.lists(edge, max_size=22), st.tuples(node, node))


INTEGERS = st.integers(1, 3).map(float)  # many equal costs: edge ids must decide
AWKWARD = st.sampled_from([0.1, 0.2, 0.3, 0.7, 1e-9, 1e6, 1.0])  # sums depend on their order
LENGTHS = st.tuples(st.integers(1, 5), st.integers(1, 5)).map(sorted)


@pytest.mark.parametrize("costs", [INTEGERS, AWKWARD], ids=["ties", "rounding"])
def test_the_best_paths_are_those_of_an_exhaustive_search(costs):
    @settings(max_examples=150)
    @given(
        st.lists(block(costs), min_size=1, max_size=3),
        LENGTHS,
        st.integers(1, 8),
        st.sampled_from([None, 1, 2]),
        st.sampled_from([1, 3, 10**6]),
    )
    def check(blocks, lengths, count, width, at_once):
        min_length, max_length = lengths
        edges, ends, num_nodes, _ = side_by_side(blocks)
        graph, how = search_graph(edges, ends, num_nodes), {"count": count, "width": width, "at_once": at_once}
        found = best_paths(*graph, min_length=min_length, max_length=max_length, **how)
        assert found.edges.size(1) == max_length
        for q, (head, tail) in enumerate(ends):
            assert told(found, q) == every_path(edges, head, tail, min_length, max_length)[:count]

    check()


@given(st.integers(0, 10**6))
@example(0)
def test_a_dense_graph_with_a_beam_of_one_is_searched_again_until_exact(seed):
    generator = torch.Generator().manual_seed(seed)
    edges = [
        (s, t, float(torch.randint(1, 4, (1,), generator=generator)))
        for s in range(NODES)
        for t in range(NODES)
        for _ in range(int(torch.randint(0, 3, (1,), generator=generator)))
    ]
    found = best_paths(*search_graph(edges, [(0, 1)], NODES), count=12, max_length=4, width=1)
    assert told(found, 0) == every_path(edges, 0, 1, 1, 4)[:12]


@given(st.lists(block(AWKWARD), min_size=1, max_size=4))
def test_paths_do_not_repeat_nodes_and_lead_from_head_to_tail(blocks):
    edges, ends, num_nodes, _ = side_by_side(blocks)
    found = best_paths(*search_graph(edges, ends, num_nodes), count=40, max_length=5)
    for q, row, length in zip(found.query.tolist(), found.edges.tolist(), found.length.tolist(), strict=True):
        path = row[:length]
        assert row[length:] == [-1] * (5 - length)
        nodes = [edges[path[0]][0], *(edges[e][1] for e in path)]
        assert len(set(nodes)) == len(nodes)
        assert (nodes[0], nodes[-1]) == ends[q]
        assert all(edges[a][1] == edges[b][0] for a, b in itertools.pairwise(path))


@given(st.lists(block(INTEGERS), min_size=2, max_size=4))
def test_a_query_finds_the_same_paths_alone_and_in_a_batch(blocks):
    edges, ends, num_nodes, starts = side_by_side(blocks)
    together = best_paths(*search_graph(edges, ends, num_nodes), count=5, max_length=4, width=2)
    for q, (own, end) in enumerate(blocks):
        alone = best_paths(*search_graph(own, [end], NODES), count=5, max_length=4, width=2)
        shifted = [(cost, tuple(e + starts[q] for e in path)) for cost, path in told(alone, 0)]
        assert told(together, q) == shifted


def test_queries_without_a_path_have_none_and_disturb_nobody():
    edges = [(0, 1, 1.0), (1, 2, 1.0), (3, 4, 1.0)]
    found = best_paths(*search_graph(edges, [(3, 5), (0, 2), (4, 3), (0, 0)], 6), count=3, max_length=3)
    assert found.query.tolist() == [1]
    assert found.edges.tolist() == [[0, 1, -1]]


def test_no_edges_and_no_queries_are_fine():
    assert best_paths(*search_graph([], [(0, 1)], 2), count=3, max_length=3).count == 0
    nothing = best_paths(*search_graph([(0, 1, 1.0)], [], 2), count=3, max_length=3)
    assert nothing.edges.shape == (0, 3)


def test_costs_are_summed_from_the_tail():
    edges = [(0, 1, 0.1), (1, 2, 0.2), (2, 3, 0.3)]
    found = best_paths(*search_graph(edges, [(0, 3)], 4), count=1, max_length=3)
    assert found.cost.item() == 0.1 + (0.2 + 0.3)
    assert found.cost.item() != (0.1 + 0.2) + 0.3
