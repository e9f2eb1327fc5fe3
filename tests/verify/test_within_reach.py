"""Whether any right path exists, against listing all simple paths."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import pytest

from builders import knowledge_graph, random_rows
from powerlink.explanation import Evidence, Fact
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kg.explained_links import Reasons
from powerlink.verify.first_right import Reach, is_right

N, R = 10, 2


def paths_between(rows, names, query, longest):
    """Every loopless path of at most so many facts, without the fact in question."""
    graph = nx.MultiGraph()
    graph.add_nodes_from(range(N))
    for fact in rows:
        if fact != query and fact[0] != fact[2]:
            graph.add_edge(fact[0], fact[2], fact=fact)
    for walk in nx.all_simple_edge_paths(graph, query[0], query[2], cutoff=longest):
        here, hops = query[0], []
        for u, v, key in walk:
            head, relation, tail = graph.edges[u, v, key]["fact"]
            hops.append(Fact(names[head], f"r{relation}", names[tail], inverse=here != head))
            here = v if here == u else u
        yield Evidence(tuple(hops), 1.0, 1.0, 0.0, None)


@pytest.mark.parametrize("longest", [2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_reach_is_what_listing_all_paths_gives(seed, longest):
    rows = random_rows(seed, N, R, 14)
    graph = knowledge_graph(rows, N, R)
    names, relations = graph.entities.ids, graph.relations.ids
    reach = Reach(graph, MessageGraph.of(graph), longest)
    for tail in range(1, N):
        query = (0, 0, tail)
        there = [
            Evidence(
                tuple(Fact(f.head, relations[int(f.relation[1:])], f.tail, f.inverse) for f in path.facts),
                1.0,
                1.0,
                0.0,
                None,
            )
            for path in paths_between(rows, names, query, longest)
        ]
        for entity in names:
            known = Reasons(entities=frozenset([entity]))
            assert reach.holds(query, known) == any(is_right(path, known) for path in there)
        for head, relation, end in rows:
            known = Reasons(facts=frozenset([(names[head], relations[relation], names[end])]))
            assert reach.holds(query, known) == any(is_right(path, known) for path in there)


def test_whole_paths_are_there_if_they_are_short_enough():
    rows = [(0, 0, 1), (1, 0, 2), (2, 0, 3)]
    graph = knowledge_graph(rows, 4, 1)
    shown, relation = graph.entities.ids, graph.relations.ids[0]
    path = frozenset((shown[u], relation, shown[v]) for u, v in pairwise(range(4)))
    for longest, there in ((2, False), (3, True)):
        reach = Reach(graph, MessageGraph.of(graph), longest)
        assert reach.holds((0, 0, 3), Reasons(paths=frozenset([path]))) is there
        assert reach.holds((0, 0, 3), Reasons(paths=frozenset([path])), "is") is there
        assert reach.holds((0, 0, 3), Reasons(paths=frozenset([path])), "touches") is there
        assert reach.holds((0, 0, 3), Reasons(entities=frozenset([shown[1]])), "is") is None
    longer = Reach(graph, MessageGraph.of(graph), 5, 4)
    assert longer.holds((0, 0, 3), Reasons(paths=frozenset([path]))) is False, "it is too short for who asks for four"
    assert longer.holds((0, 0, 3), Reasons(entities=frozenset([shown[1]]))) is None
