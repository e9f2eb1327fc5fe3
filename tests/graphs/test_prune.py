from __future__ import annotations

import networkx as nx
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import computation_graph, edge_rows, fact_lists
from powerlink.graphs.prune import connected, k_core, prune

N, R = 10, 2
ANY_QUERIES = st.lists(
    st.tuples(st.integers(0, N - 1), st.just(0), st.integers(0, N - 1)).filter(lambda q: q[0] != q[2]),
    min_size=1,
    max_size=3,
)


def simple(graph, kept, query):
    """One query's kept edges as a simple undirected networkx graph over its nodes."""
    projected = nx.Graph()
    projected.add_nodes_from(range(*graph.node_row[query : query + 2].tolist()))
    for s, t, k, q in zip(graph.source.tolist(), graph.target.tolist(), kept, graph.query_of_edge, strict=True):
        if k and q == query and s != t:
            projected.add_edge(s, t)
    return projected


@given(fact_lists(N, R, 30), ANY_QUERIES, st.integers(0, 4))
def test_without_exemptions_the_core_is_networkx_k_core_of_the_simple_projection(rows, queries, core):
    graph = computation_graph(rows, N, R, queries, hops=2)
    nobody = torch.zeros(graph.num_nodes, dtype=torch.bool)
    kept = k_core(graph, graph.kept, core, nobody)
    for q in range(len(queries)):
        expected = nx.k_core(simple(graph, graph.kept, q), core)
        found = simple(graph, kept, q)
        assert {frozenset(edge) for edge in found.edges} == {frozenset(edge) for edge in expected.edges}


@given(fact_lists(N, R, 30), ANY_QUERIES, st.integers(0, 4))
def test_pruning_treats_both_directions_and_all_parallels_of_an_edge_alike(rows, queries, core):
    graph = prune(computation_graph(rows, N, R, queries, 2), hub_limit=8, core=core, max_length=3)
    assert torch.equal(graph.kept, graph.kept[graph.reverse])
    pairs = list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    by_pair = {}
    for pair, kept in zip(pairs, graph.kept.tolist(), strict=True):
        by_pair.setdefault(pair, set()).add(kept)
    assert all(len(values) == 1 for values in by_pair.values())


@given(fact_lists(N, R, 30), ANY_QUERIES)
def test_with_exemptions_the_core_is_what_repeated_deletion_leaves(rows, queries):
    graph = computation_graph(rows, N, R, queries, hops=2)
    exempt = torch.zeros(graph.num_nodes, dtype=torch.bool)
    exempt[graph.head] = exempt[graph.tail] = True
    kept = k_core(graph, graph.kept, 2, exempt)
    for q in range(len(queries)):
        expected = simple(graph, graph.kept, q)
        while thin := [v for v in expected if 0 < expected.degree(v) < 2 and not exempt[v]]:
            expected.remove_edges_from(list(expected.edges(thin)))
        assert {frozenset(e) for e in simple(graph, kept, q).edges} == {frozenset(e) for e in expected.edges}


def kept_entities(graph, query=0):
    own = graph.kept & (graph.query_of_edge == query)
    return {frozenset((s, t)) for (s, _, t), k in zip(edge_rows(graph), own.tolist(), strict=True) if k}


def test_head_and_tail_are_exempt_from_the_core_though_they_hang_by_one_edge():
    rows = [(0, 0, 1), (1, 0, 2), (1, 0, 3), (2, 0, 4)]  # 0 – 1 – 2 – 4, and 3 hangs off 1
    graph = prune(computation_graph(rows, 5, 1, [(0, 0, 4)], 2), hub_limit=None, core=2, max_length=3)
    assert kept_entities(graph) == {frozenset(p) for p in [(0, 1), (1, 2), (2, 4)]}


def test_parallel_facts_and_self_loops_do_not_hold_a_node_in_the_core():
    rows = [(0, 0, 1), (1, 0, 2), (1, 0, 3), (1, 1, 3), (3, 0, 1), (3, 0, 3)]
    graph = prune(computation_graph(rows, 4, 2, [(0, 0, 2)], 2), hub_limit=None, core=2, max_length=3)
    assert kept_entities(graph) == {frozenset(p) for p in [(0, 1), (1, 2)]}


HUB = [(0, 0, 1), (1, 0, 2), (0, 0, 3), (3, 0, 2), *((3, 0, v) for v in range(4, 8))]


def test_edges_of_hubs_are_dropped():
    open_graph = computation_graph(HUB, 8, 1, [(0, 0, 2)], 2)
    around = {frozenset(p) for p in [(0, 1), (1, 2), (0, 3), (3, 2)]}
    assert kept_entities(prune(open_graph, hub_limit=6, core=2, max_length=3)) == around
    assert kept_entities(prune(open_graph, hub_limit=5, core=2, max_length=3)) == {
        frozenset(p) for p in [(0, 1), (1, 2)]
    }


def test_head_and_tail_are_exempt_from_the_hub_limit():
    graph = prune(computation_graph(HUB, 8, 1, [(3, 0, 1)], 2), hub_limit=5, core=2, max_length=3)
    assert frozenset((3, 0)) in kept_entities(graph)
    assert frozenset((0, 1)) in kept_entities(graph)


def test_a_query_whose_last_path_would_be_cut_keeps_its_whole_graph_and_the_others_do_not():
    rows = [fact for fact in HUB if 1 not in fact]  # 2 is reached through the hub 3 alone
    queries = [(0, 0, 2), (0, 0, 3)]
    graph = prune(computation_graph(rows, 8, 1, queries, 2), hub_limit=5, core=2, max_length=3)
    fell_back = graph.query_of_edge == 0
    assert graph.kept[fell_back].all()
    assert not graph.kept[~fell_back].all()
    alone = prune(computation_graph(rows, 8, 1, queries[1:], 2), hub_limit=5, core=2, max_length=3)
    assert torch.equal(graph.kept[~fell_back], alone.kept)


def test_a_query_without_any_path_is_pruned_all_the_same():
    rows = [(0, 0, 1), (2, 0, 3)]
    graph = prune(computation_graph(rows, 4, 1, [(0, 0, 3)], 2), hub_limit=None, core=2, max_length=3)
    assert not graph.kept.any()


@given(fact_lists(N, R, 14), ANY_QUERIES, st.integers(1, 4))
def test_connected_agrees_with_networkx(rows, queries, max_length):
    graph = computation_graph(rows, N, R, queries, hops=3)
    kept = (torch.arange(graph.num_edges) + torch.arange(graph.num_edges)[graph.reverse]) % 3 != 0
    found = connected(graph, kept, max_length).tolist()
    for q in range(len(queries)):
        try:
            head, tail = int(graph.head[q]), int(graph.tail[q])
            near = nx.shortest_path_length(simple(graph, kept, q), head, tail) <= max_length
        except nx.NetworkXNoPath:
            near = False
        assert found[q] == near
