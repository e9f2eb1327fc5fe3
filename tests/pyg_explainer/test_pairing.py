"""Which columns of an edge_index are the two directions of one fact."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import fact_lists, triple_tensor
from powerlink.errors import DataError
from powerlink.pyg_explainer.pairing import pair_up


def check(edge_index, edge_type, paired) -> None:
    """Every column is behind exactly one edge, which has its ends and stands beside its inverse."""
    messages, column = paired.messages, paired.column
    there = column >= 0
    assert sorted(column[there].tolist()) == list(range(edge_index.size(1)))
    assert torch.equal(messages.source[there], edge_index[0][column[there]])
    assert torch.equal(messages.target[there], edge_index[1][column[there]])
    kinds = edge_type[column[there]]
    half = messages.num_relations
    assert ((kinds == messages.relation[there]) | (kinds == messages.relation[there] % half)).all()


@given(fact_lists(6, 3, 12, min_size=1), st.randoms())
def test_mirrored_types_are_inverses(rows, rng):
    rows = [row for row in rows if row[1] < 2] + [(0, 2, 1)]
    both = [*rows, *((t, r + 3, h) for h, r, t in rows)]
    rng.shuffle(both)
    head, kind, tail = triple_tensor(both).unbind(1)
    paired = pair_up(torch.stack([head, tail]), kind, 6)
    assert paired.messages.num_relations == 3
    assert (paired.column >= 0).all()
    check(torch.stack([head, tail]), kind, paired)
    back = paired.column[paired.messages.reverse]
    assert torch.equal(kind[back], (kind[paired.column] + 3) % 6)


@given(fact_lists(6, 1, 12, min_size=1), st.randoms())
def test_a_graph_that_mirrors_itself_is_undirected(rows, rng):
    both = sorted({pair for h, _, t in rows for pair in ((h, t), (t, h))})
    rng.shuffle(both)
    edge_index = torch.tensor(both).t()
    paired = pair_up(edge_index, None, 6)
    check(edge_index, torch.zeros(len(both), dtype=torch.long), paired)
    loops = paired.messages.source == paired.messages.target
    assert (paired.column[~loops] >= 0).all()
    assert (paired.column[loops] >= 0).sum() == sum(a == b for a, b in both)


def test_any_other_edge_is_a_fact_of_its_own():
    edge_index, kind = torch.tensor([[0, 1, 2], [1, 2, 2]]), torch.tensor([0, 2, 1])
    paired = pair_up(edge_index, kind, 3)
    assert paired.messages.num_relations == 3
    assert (paired.column >= 0).tolist() == (paired.messages.relation < 3).tolist()
    check(edge_index, kind, paired)


def test_no_edges_and_repeated_edges():
    assert pair_up(torch.empty(2, 0, dtype=torch.long), None, 3).messages.num_edges == 0
    with pytest.raises(DataError, match="twice"):
        pair_up(torch.tensor([[0, 0], [1, 1]]), None, 2)
