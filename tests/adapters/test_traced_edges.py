"""Edge ids travel along with the index, whatever a layer does to it."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.utils import add_self_loops, remove_self_loops

from powerlink.adapters.traced_edges import ADDED, TracedEdges, plain

COLUMNS = torch.tensor([[0, 0, 0, 2, 1, 3, 3], [1, 1, 2, 2, 0, 3, 1]])


def traced() -> TracedEdges:
    return TracedEdges.of(COLUMNS, torch.arange(7).expand(2, -1))


def swap_by_hand(index):
    row, col = index
    return torch.stack([row, col])


MOVES = {
    "mask": lambda i: i[:, i[0] != i[1]],
    "half": lambda i: i[:, : i.size(1) // 2],
    "reverse": lambda i: i[:, torch.arange(i.size(1) - 1, -1, -1)],
    "sort": lambda i: i[:, i[1].argsort(stable=True)],
    "select": lambda i: i.index_select(1, torch.arange(0, i.size(1), 2)),
    "flip": lambda i: i.flip(1),
    "restack": swap_by_hand,
    "twice": lambda i: torch.cat([i, i], dim=1),
    "chunk": lambda i: torch.cat(i.chunk(2, dim=1)[::-1], dim=1),
    "split": lambda i: torch.cat(torch.split(i, 2, dim=1), dim=-1),
    "clone": lambda i: i.clone().contiguous(),
    "loops": lambda i: add_self_loops(remove_self_loops(i)[0], num_nodes=4)[0],
    "transpose": lambda i: i.t()[torch.randperm(i.size(1), generator=torch.Generator().manual_seed(0))].t(),
}


@given(st.lists(st.sampled_from(sorted(MOVES)), max_size=5))
def test_every_column_is_still_the_edge_it_says(names):
    index, columns = traced(), COLUMNS
    for name in names:
        index, columns = MOVES[name](index), MOVES[name](columns)
    assert isinstance(index, TracedEdges)
    assert torch.equal(plain(index), columns)
    assert torch.equal(index.edge[0], index.edge[1])
    edge = index.edge[0]
    own = edge != ADDED
    assert torch.equal(columns[:, own], COLUMNS[:, edge[own]])
    assert (columns[0, ~own] == columns[1, ~own]).all()
    assert own.all() or "loops" in names


def test_what_computes_gives_ordinary_tensors():
    index = traced()
    for result in (
        index + 1,
        index == 0,
        index.max(),
        torch.bincount(index[1]),
        torch.zeros(4)[index[0]],
        index.float(),
    ):
        assert type(result) is torch.Tensor


def test_rows_gathered_by_a_traced_index_are_rows():
    rows = torch.randn(4, 3)
    assert torch.equal(rows.index_select(0, traced()[0]), rows[COLUMNS[0]])
    assert torch.equal(rows[traced()[1]], rows[COLUMNS[1]])
