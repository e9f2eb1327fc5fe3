from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import edge_rows, edges_of_fact, fact_lists, messages_of, random_rows, triple_tensor, undirected
from powerlink.graphs.computation_graph import edge_bounds, extract, target_edges

N, R = 9, 3
QUERIES = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, 2 * R - 1), st.integers(0, N - 1)), min_size=1, max_size=4
)


@st.composite
def asked(draw):
    """Facts and queries; some queries are facts of the graph, asked forwards or through the inverse."""
    rows = draw(fact_lists(N, R, 22))
    queries = list(draw(QUERIES))
    for head, relation, tail in draw(st.lists(st.sampled_from(rows), max_size=2)) if rows else []:
        queries.append((head, relation, tail) if draw(st.booleans()) else (tail, relation + R, head))
    return rows, queries


def naive(rows, query, hops):
    """Entities with their distance, and edges, as networkx sees them."""
    head, relation, tail = query
    level = nx.multi_source_dijkstra_path_length(undirected(rows, N), {head, tail}, cutoff=hops)
    fact = (head, relation, tail) if relation < R else (tail, relation - R, head)
    inside = [(h, r, t) for h, r, t in rows if h in level and t in level and (h, r, t) != fact]
    return level, sorted([*inside, *((t, r + R, h) for h, r, t in inside)])


def parts(graph):
    """What a batch says about each of its queries, in global terms."""
    rows = edge_rows(graph)
    for q in range(graph.num_queries):
        nodes = range(*graph.node_row[q : q + 2].tolist())
        edges = range(*graph.edge_row[q : q + 2].tolist())
        yield (
            {int(graph.entity[v]): int(graph.level[v]) for v in nodes},
            [rows[e] for e in edges],
            graph.edge[edges.start : edges.stop].tolist(),
        )


@given(asked(), st.integers(1, 3))
def test_each_query_sees_its_k_hop_node_induced_subgraph_without_the_fact_in_question(case, hops):
    rows, queries = case
    graph = extract(messages_of(rows, N, R), triple_tensor(queries), hops)
    for query, (level, edges, _) in zip(queries, parts(graph), strict=True):
        expected_level, expected_edges = naive(rows, query, hops)
        assert level == expected_level
        assert sorted(edges) == expected_edges


@given(asked(), st.integers(1, 3))
def test_a_batch_is_its_queries_one_by_one(case, hops):
    rows, queries = case
    messages = messages_of(rows, N, R)
    together = list(parts(extract(messages, triple_tensor(queries), hops)))
    for query, part in zip(queries, together, strict=True):
        assert part == next(parts(extract(messages, triple_tensor([query]), hops)))


@given(asked())
def test_the_parts_of_a_batch_fit_together(case):
    rows, queries = case
    messages = messages_of(rows, N, R)
    graph = extract(messages, triple_tensor(queries), 2)
    assert torch.equal(graph.entity[graph.head], graph.queries[:, 0])
    assert torch.equal(graph.entity[graph.tail], graph.queries[:, 2])
    assert torch.equal(graph.query_of_node[graph.head], torch.arange(len(queries)))
    assert torch.equal(graph.query_of_node[graph.tail], torch.arange(len(queries)))
    assert torch.equal(graph.query_of_node[graph.source], graph.query_of_edge)
    assert torch.equal(graph.query_of_node[graph.target], graph.query_of_edge)
    assert torch.equal(graph.norm, messages.norm[graph.edge])
    assert torch.equal(graph.relation, messages.relation[graph.edge])
    assert (graph.target.diff() >= 0).all()
    assert (graph.level[graph.head] == 0).all()
    # the same fact in the other direction, of the same query
    assert torch.equal(graph.edge[graph.reverse], messages.reverse[graph.edge])
    assert torch.equal(graph.query_of_edge[graph.reverse], graph.query_of_edge)
    assert torch.equal(graph.reverse[graph.reverse], torch.arange(graph.num_edges))
    assert graph.kept.all()


@given(asked(), st.integers(1, 3))
def test_edge_bounds_are_never_below_the_number_of_edges(case, hops):
    rows, queries = case
    messages = messages_of(rows, N, R)
    bounds = edge_bounds(messages, triple_tensor(queries), hops)
    assert bounds.shape == (len(queries),)
    assert (bounds >= extract(messages, triple_tensor(queries), hops).edge_row.diff()).all()


@given(asked())
def test_the_fact_in_question_is_found_in_both_directions(case):
    rows, queries = case
    messages = messages_of(rows, N, R)
    query, edge = target_edges(messages, triple_tensor(queries))
    found = sorted(zip(query.tolist(), edge.tolist(), strict=True))
    assert found == sorted((q, e) for q, triple in enumerate(queries) for e in edges_of_fact(messages, triple))


@pytest.mark.parametrize("query", [(0, 0, 1), (1, 2, 0)], ids=["forwards", "through the inverse"])
def test_a_fact_does_not_explain_itself_but_its_parallels_and_its_opposite_may(query):
    rows = [(0, 0, 1), (0, 1, 1), (1, 0, 0)]
    graph = extract(messages_of(rows, 2, 2), triple_tensor([query]), 1)
    assert sorted(edge_rows(graph)) == [(0, 1, 1), (0, 2, 1), (1, 0, 0), (1, 3, 0)]


def test_the_same_query_twice_in_a_batch_gets_two_graphs():
    rows = random_rows(0, 6, 2, 12)
    graph = extract(messages_of(rows, 6, 2), triple_tensor([(0, 0, 1), (0, 0, 1)]), 2)
    first, second = parts(graph)
    assert first == second
    assert graph.head[0] != graph.head[1]


def test_kept_edges_keep_their_place_and_spread_values_back():
    graph = extract(messages_of(random_rows(1, 8, 2, 14), 8, 2), triple_tensor([(0, 0, 1), (2, 1, 3)]), 2)
    kept = torch.arange(graph.num_edges) % 3 == 0
    part = graph.pruned_to(kept).kept_edges
    assert torch.equal(part.index, kept.nonzero().squeeze(1))
    assert torch.equal(part.query, graph.query_of_edge[kept])
    spread = part.scatter(torch.ones(part.num_edges), graph.num_edges)
    assert torch.equal(spread.bool(), kept)
    assert graph.kept.all()  # the graph pruned was another one
