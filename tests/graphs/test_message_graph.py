from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given

from builders import edge_rows, fact_lists, knowledge_graph, triple_tensor
from powerlink.graphs.message_graph import MessageGraph, inverse_relation

N, R = 6, 3


def built(rows):
    return MessageGraph.from_facts(triple_tensor(rows), N, R)


@given(fact_lists(N, R, 20))
def test_every_fact_becomes_two_edges_and_nothing_else_does(rows):
    expected = [(h, r, t) for h, r, t in rows] + [(t, r + R, h) for h, r, t in rows]
    assert sorted(edge_rows(built(rows))) == sorted(expected)


@given(fact_lists(N, R, 20))
def test_edges_are_sorted_by_target_source_and_relation(rows):
    order = [(t, s, r) for s, r, t in edge_rows(built(rows))]
    assert order == sorted(order)


@given(fact_lists(N, R, 20))
def test_the_reverse_of_an_edge_is_the_same_fact_walked_the_other_way(rows):
    graph = built(rows)
    edges = torch.arange(graph.num_edges)
    assert torch.equal(graph.reverse[graph.reverse], edges)
    assert torch.equal(graph.source[graph.reverse], graph.target)
    assert torch.equal(graph.target[graph.reverse], graph.source)
    assert torch.equal(graph.relation[graph.reverse], inverse_relation(graph.relation, R))
    assert torch.equal(graph.fact[graph.reverse], graph.fact)
    assert (graph.reverse != edges).all()


@given(fact_lists(N, R, 20))
def test_each_edge_knows_its_fact(rows):
    graph = built(rows)
    for (source, relation, target), fact in zip(edge_rows(graph), graph.fact.tolist(), strict=True):
        told = (source, relation, target) if relation < R else (target, relation - R, source)
        assert rows[fact] == told


@given(fact_lists(N, R, 20))
def test_the_norm_comes_from_the_degrees_of_both_ends(rows):
    graph = built(rows)
    degree = [sum(h == v for h, _, _ in rows) + sum(t == v for _, _, t in rows) for v in range(N)]
    for (source, _, target), norm in zip(edge_rows(graph), graph.norm.tolist(), strict=True):
        assert norm == pytest.approx(1 / math.sqrt(degree[source] * degree[target]), rel=1e-6)


@given(fact_lists(N, R, 20))
def test_rows_point_at_each_targets_edges(rows):
    graph = built(rows)
    for node in range(N):
        first, last = graph.row[node : node + 2].tolist()
        assert (graph.target[first:last] == node).all()
        assert last - first == int((graph.target == node).sum())


def test_a_knowledge_graph_passes_messages_over_its_training_facts_only():
    graph = knowledge_graph([(0, 0, 1)], 3, 1, valid=[(1, 0, 2)], test=[(2, 0, 0)])
    assert sorted(edge_rows(MessageGraph.of(graph))) == [(0, 0, 1), (1, 1, 0)]


def test_inverting_a_relation_twice_gives_it_back():
    relations = torch.arange(2 * R)
    assert inverse_relation(relations, R).tolist() == [3, 4, 5, 0, 1, 2]
    assert torch.equal(inverse_relation(inverse_relation(relations, R), R), relations)
