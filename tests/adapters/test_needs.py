"""What a pass needs, by hand, and that leaving the rest out changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.nn import FastRGCNConv, RGCNConv, TAGConv

from builders import knowledge_graph, random_rows
from powerlink.adapters import from_pyg
from powerlink.adapters.layer_runner import needs_of
from powerlink.graphs.computation_graph import extract
from powerlink.graphs.what_if import Removals, changed_nodes, what_if
from powerlink.models.session import Session
from pyg_encoders import LAYERS, draw_encoder

N, R, WIDTH = 40, 3, 8
GRAPH = knowledge_graph(random_rows(3, N, R, 60), N, R)

# 0 ← 1 ← 2 ← 3, and 4 → 3 was removed
EDGES = torch.tensor([[1, 2, 3], [0, 1, 2]])
INTACT = torch.tensor([True, True, True, False, True])


def chain(wanted: list[int], calls: int, hops: int) -> list[tuple[list[int], list[int]]]:
    """Who must receive messages in each call, and whose rows are known behind it."""
    asked = torch.zeros(5, dtype=torch.bool).index_fill(0, torch.tensor(wanted), True)
    needs = needs_of(EDGES, INTACT, asked, calls, hops)
    return [(each.read.nonzero().flatten().tolist(), each.known.nonzero().flatten().tolist()) for each in needs]


def test_what_is_known_needs_no_message():
    assert chain([0], calls=2, hops=2) == [([], [0, 1, 2, 4]), ([], [0, 1, 4])]


def test_a_change_travels_one_hop_a_call_and_only_what_is_read_is_made():
    assert chain([1], calls=2, hops=2) == [([], [0, 1, 2, 4]), ([], [0, 1, 4])]
    assert chain([2], calls=2, hops=2) == [([3], [0, 1, 2, 4]), ([2], [0, 1, 4])]
    assert chain([0, 1, 2, 3, 4], calls=1, hops=1) == [([3], [0, 1, 2, 4])]


def test_a_layer_that_looks_further_is_told_more():
    """With a hop more, a node whose neighbour lost an edge is no longer known, and its neighbour's edges are given."""
    assert chain([1], calls=1, hops=2) == [([], [0, 1, 4])]
    assert chain([2], calls=1, hops=2) == [([2, 3], [0, 1, 4])]


def both_ways(session: Session) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors of heads and tails after removals, with only what is needed and with everything."""
    queries = torch.tensor([[0, 1, 5], [7, 0, 2], [3, 2, 30], [11, 1, 4]])
    model = session.model
    part = extract(session.messages, queries, model.num_layers)
    removals = Removals.of(part, 4, torch.arange(4).repeat_interleave(3), torch.randint(part.num_edges, (12,)))
    changes = changed_nodes(part, removals, model.num_layers, wanted=torch.stack([part.head, part.tail], 1))
    world = what_if(part, removals, changes, model.num_layers, focused=True)
    weight = torch.linspace(0, 1, world.num_edges).double()
    found = []
    for hops in (model.num_layers, None):
        model.runner.save(hops)
        rows = [model.encode(world), model.encode(world, weight), model.encode(session.messages)]
        found.append(torch.cat([rows[0].entity[world.level == 0], rows[1].entity[world.level == 0], rows[2].entity]))
    return found[0], found[1]


@pytest.mark.parametrize("normaliser", ["recomputed", "fixed"])
@pytest.mark.parametrize("layer", LAYERS)
def test_nothing_changes_when_the_rest_is_left_out(layer, normaliser):
    encoder = draw_encoder(layer, N, 2 * R)
    session = from_pyg(encoder, "distmult", GRAPH, nodes="node_emb", relations=encoder.rel_emb, normaliser=normaliser)
    if layer == "compgcn" and normaliser == "fixed":  # absent edges tell a source's degree: they are all given
        assert not session.model.runner.saves
        return
    assert session.model.runner.saves
    torch.manual_seed(0)
    needed, every = both_ways(session)
    assert torch.allclose(needed, every, rtol=0, atol=1e-10)


class Odd(nn.Module):
    """A layer of three hops whose result is not the last layer's input: hops cannot be told from calls."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(N, WIDTH, dtype=torch.float64))
        self.far = TAGConv(WIDTH, WIDTH, K=3, normalize=False).double()
        self.near = RGCNConv(WIDTH, WIDTH, 2 * R).double()

    def forward(self, edge_index, edge_type):
        return self.near(self.table, edge_index, edge_type) + 0.1 * self.far(self.table, edge_index)


def test_who_cannot_be_followed_is_given_everything():
    torch.manual_seed(0)
    relations = torch.ones(R, WIDTH, dtype=torch.float64)
    session = from_pyg(Odd(), "distmult", GRAPH, nodes="table", relations=relations, num_layers=3)
    assert not session.model.runner.saves
    needed, every = both_ways(session)
    assert needed.shape == every.shape


def test_an_untouched_graph_costs_no_message():
    made = []

    class Counting(FastRGCNConv):
        def message(self, x_j, edge_type, edge_index_j):
            made.append(edge_type.numel())
            assert edge_type.max() < 2 * R  # which no one can say of no edge
            return super().message(x_j, edge_type, edge_index_j)

    encoder = draw_encoder("fast-rgcn", N, 2 * R)
    for layer in encoder.convs:
        layer.__class__ = Counting
    session = from_pyg(encoder, "distmult", GRAPH, nodes="node_emb", relations=encoder.rel_emb)
    made.clear()
    session.model.encode(session.messages)
    assert sum(made) <= 1
    session.model.encode(session.messages, torch.ones(session.messages.num_edges).index_fill(0, torch.tensor([0]), 0.0))
    assert 0 < sum(made) < session.messages.num_edges / 2
