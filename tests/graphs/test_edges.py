from __future__ import annotations

from collections import Counter

import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import computation_graph, fact_lists, messages_of, random_rows
from powerlink.graphs.edges import expand_rows, find_sorted
from powerlink.graphs.incidence import row_pointer


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


@given(fact_lists(6, 3, 20))
def test_messages_are_made_once_per_relation_and_source_and_reach_the_right_targets(rows):
    edges = messages_of(rows, 6, 3).layer(0)
    pairs = list(zip(edges.pair_relation.tolist(), edges.pair_source.tolist(), strict=True))
    assert pairs == sorted(set(zip(edges.relation.tolist(), edges.source.tolist(), strict=True)))
    assert {relation: some.stop - some.start for relation, some in edges.pairs_by_relation} == Counter(
        relation for relation, _ in pairs
    )
    assert all({r for r, _ in pairs[some]} == {relation} for relation, some in edges.pairs_by_relation)
    arranged = {
        "nodes": (edges.nodes_to_targets, edges.source, edges.target),
        "pairs": (edges.pairs_to_targets, None, edges.target),
        "by direction": (edges.pairs_to_targets_by_direction, None, 2 * edges.target + (edges.relation >= 3)),
    }
    for incidence, source, row in arranged.values():
        for part, ends in ((incidence, False), (incidence.transposed, True)):
            rows_of, columns = (part.column, part.row_of_entry) if ends else (part.row_of_entry, part.column)
            assert sorted(part.edge.tolist()) == list(range(edges.source.numel()))
            assert torch.equal(rows_of, row[part.edge])
            assert (part.row_of_entry.diff() >= 0).all()
            if source is not None:
                assert torch.equal(columns, source[part.edge])
            else:
                assert torch.equal(edges.pair_source[columns], edges.source[part.edge])
                assert torch.equal(edges.pair_relation[columns], edges.relation[part.edge])
