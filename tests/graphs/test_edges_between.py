"""Edges between two nodes, found by halving rows."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import fact_lists, messages_of
from powerlink.graphs.edges import edges_between

N, R = 9, 3


@given(
    rows=fact_lists(N, R, max_size=60, min_size=0),
    pairs=st.lists(st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)), max_size=12),
)
def test_they_are_those_of_a_look_at_every_edge(rows, pairs):
    graph = messages_of(rows, N, R)
    target, source = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).unbind(1)
    pair, edge = edges_between(graph, target, source)
    expected = (
        (i, e)
        for i, ends in enumerate(pairs)
        for e in range(graph.num_edges)
        if (int(graph.target[e]), int(graph.source[e])) == ends
    )
    assert list(zip(pair.tolist(), edge.tolist(), strict=True)) == list(expected)
