"""K-Paths against networkx and a loop over its paths."""

from __future__ import annotations

import itertools

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import computation_graph, edge_rows, fact_lists, model_of, random_rows, removal
from powerlink.explainers.k_paths import KPaths
from powerlink.explainers.protocol import Wish
from powerlink.pipeline import ExplainSettings, explain_batch
from powerlink.testing import small_session
from powerlink.testing.small_world import WORLD_QUERIES

N, R = 7, 2
QUERIES = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, 2 * R - 1), st.integers(0, N - 1)).filter(lambda q: q[0] != q[2]),
    min_size=1,
    max_size=3,
)


def proposed(graph, how, **wish):
    model = model_of("compgcn", "distmult", 2, N, R)
    evidence = how.propose(removal(model, graph), graph, Wish(**wish), 0).evidence
    assert evidence.is_path.all()
    return [
        [tuple(e for e in row if e >= 0) for row in evidence.edges[evidence.query == q].tolist()]
        for q in range(graph.num_queries)
    ]


def shortest_first(graph, query, least, most):
    """All loopless routes between head and tail by networkx, as edges: shortest first, equal ones by edge ids."""
    first = {}  # of parallel edges
    for e in graph.kept_edges.index.tolist():
        if int(graph.query_of_edge[e]) == query:
            first.setdefault((int(graph.source[e]), int(graph.target[e])), e)
    routes, head, tail = nx.DiGraph(list(first)), int(graph.head[query]), int(graph.tail[query])
    if head not in routes or tail not in routes or not nx.has_path(routes, head, tail):
        return []
    found = []
    for nodes in nx.shortest_simple_paths(routes, head, tail):
        if len(nodes) - 1 > most:
            break
        found.append(tuple(first[pair] for pair in itertools.pairwise(nodes)))
    return sorted((path for path in found if len(path) >= least), key=lambda path: (len(path), path))


def diverse_first(graph, paths, count):
    seen, first, again = set(), [], []
    for path in paths:
        sequence = tuple(graph.relation[list(path)].tolist())
        (again if sequence in seen else first).append(path)
        seen.add(sequence)
    return [*first, *again][:count]


@settings(max_examples=60)
@given(fact_lists(N, R, 22), QUERIES, st.integers(1, 6), st.integers(1, 3), st.integers(1, 2), st.booleans())
def test_it_names_the_paths_of_networkx_first_of_each_sequence_first(rows, queries, count, search, least, pruned):
    graph = computation_graph(rows, N, R, queries, 2)
    if pruned:
        graph = graph.pruned_to(torch.arange(graph.num_edges) % 4 != 0)
    found = proposed(graph, KPaths(search=search), count=count, min_length=least, max_length=3)
    for q, own in enumerate(found):
        looked_at = shortest_first(graph, q, least, 3)[: search * count]
        assert own == diverse_first(graph, looked_at, count)


def test_equal_paths_go_by_edge_ids_also_where_networkx_has_many_of_them():
    graph = computation_graph(random_rows(3, N, R, 40), N, R, [(0, 0, 1), (2, 3, 5)], 2)
    found = proposed(graph, KPaths(), count=8, min_length=1, max_length=3)
    for q, own in enumerate(found):
        sequences = [tuple(graph.relation[list(path)].tolist()) for path in own]
        assert len(own) == 8
        assert own == diverse_first(graph, shortest_first(graph, q, 1, 3)[:40], 8)
        assert len(set(sequences)) > 5


def test_a_path_of_other_relations_is_shown_before_a_second_one_of_the_same():
    # five ways of r0, r0 and a later one of r1, r1; all of two hops
    rows = [fact for middle in (2, 3, 4, 5, 6) for fact in ((0, 0, middle), (middle, 0, 1))]
    rows += [(0, 1, 7), (7, 1, 1)]
    graph = computation_graph(rows, 8, 2, [(0, 0, 1)], 2)
    (found,) = proposed(graph, KPaths(search=3), count=3, min_length=1, max_length=3)
    through = [[edge_rows(graph)[e] for e in path] for path in found]
    assert through == [[(0, 0, 2), (2, 0, 1)], [(0, 1, 7), (7, 1, 1)], [(0, 0, 3), (3, 0, 1)]]
    (narrow,) = proposed(graph, KPaths(search=1), count=3, min_length=1, max_length=3)
    assert [edge_rows(graph)[path[0]][2] for path in narrow] == [2, 3, 4], "what is not searched is not found"


def test_it_is_told_like_any_other_and_finds_what_shortest_paths_there_are():
    alone = ExplainSettings(also_consider="none", select="mask", core=0)
    told = explain_batch(small_session(), WORLD_QUERIES, explainer=KPaths(), settings=alone)
    assert {path.proposed_by for e in told for path in e.paths} == {"k-paths"}
    assert all(e.paper is None for e in told)
    lengths = [[len(path.facts) for path in e.paths] for e in told]
    assert all(own[0] == min(own) for own in lengths if own)
    assert told[5].evidence == (), "nothing connects its head and tail"


@pytest.mark.parametrize("select", ["carried", "largest-drop"])
def test_its_paths_are_judged_like_any_other(select):
    settings = ExplainSettings(also_consider="none", select=select, core=0)
    told = explain_batch(small_session(), WORLD_QUERIES, explainer=KPaths(), settings=settings)
    assert any(e.paths for e in told)
