from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import computation_graph, random_rows
from powerlink.graphs.edges import expand_rows, find_sorted, row_pointer


@given(st.lists(st.integers(0, 6)), st.lists(st.integers(0, 6)))
def test_expanding_rows_lists_each_rows_elements_in_order(values, wanted):
    row = row_pointer(torch.tensor(sorted(values), dtype=torch.int64), 7)
    owner, position = expand_rows(row, torch.tensor(wanted, dtype=torch.int64))
    starts = row.tolist()
    expected = [(i, p) for i, w in enumerate(wanted) for p in range(starts[w], starts[w + 1])]
    assert list(zip(owner.tolist(), position.tolist(), strict=True)) == expected


@given(st.sets(st.integers(0, 20)), st.lists(st.integers(-3, 25)))
def test_looking_up_sorted_keys_finds_what_is_there_and_only_that(keys, wanted):
    position, found = find_sorted(
        torch.tensor(sorted(keys), dtype=torch.int64), torch.tensor(wanted, dtype=torch.int64)
    )
    assert found.tolist() == [w in keys for w in wanted]
    assert all(sorted(keys)[p] == w for p, w, f in zip(position, wanted, found, strict=True) if f)


def test_a_layer_needs_the_edges_into_nodes_that_still_matter_and_cuts_weights_alike():
    graph = computation_graph(random_rows(0, 12, 2, 25), 12, 2, [(0, 0, 1), (3, 1, 4)], hops=3)
    weight = torch.arange(graph.num_edges)
    for remaining in range(4):
        part = graph.layer(remaining)
        expected = (graph.level[graph.target] <= remaining).nonzero().squeeze(1)
        assert torch.equal(part.index, expected)
        assert torch.equal(part.source, graph.source[expected])
        assert torch.equal(part.weights(weight), expected)
        assert torch.equal(part.weights(None), torch.ones(expected.numel()))
    assert graph.everywhere.layer(0) is graph.everywhere.layer(3)
    assert graph.everywhere.layer(0).source.numel() == graph.num_edges
