"""Messages in pieces, and once for all that are the same, are the layer's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.utils import softmax

from powerlink.adapters import messages
from powerlink.adapters.messages import KnownMessages, MessageArguments, make_in_pieces

N, TYPES, WIDTH, EDGES = 12, 3, 4, 200
ENTITY = torch.arange(N)


class Layer:
    """Looks a matrix up for every edge, and counts for how many."""

    def __init__(self) -> None:
        self.weight, self.made = torch.randn(TYPES, WIDTH, WIDTH, dtype=torch.float64), 0

    def by_type(self, x_j: Tensor, edge_type: Tensor) -> Tensor:
        self.made += edge_type.numel()
        return torch.bmm(x_j.unsqueeze(1), self.weight[edge_type]).squeeze(1)

    def attending(self, x_i: Tensor, x_j: Tensor, edge_type: Tensor, index: Tensor, size_i: int) -> Tensor:
        sent = self.by_type(x_j, edge_type)
        return softmax((x_i * sent).sum(1), index, num_nodes=size_i).unsqueeze(1) * sent


@pytest.fixture
def drawn(monkeypatch):
    """A layer, node rows, and edges between them; pieces of ten edges."""
    monkeypatch.setattr(messages, "PIECE", 10 * WIDTH**2)
    monkeypatch.setattr(messages, "PIECE_OF_ATTENTION", 10 * WIDTH**2)
    torch.manual_seed(0)
    x = torch.randn(N, WIDTH, dtype=torch.float64)
    return Layer(), x, torch.randint(N, (EDGES,)), torch.randint(N, (EDGES,)), torch.randint(TYPES, (EDGES,))


def plain(x: Tensor, source: Tensor, target: Tensor, kind: Tensor) -> MessageArguments:
    rows = {"x_j": x[source], "edge_type": kind}
    return MessageArguments(rows, rows, source, target)


def test_each_source_and_type_is_asked_once(drawn):
    layer, *edges = drawn
    given = plain(*edges)
    truth = layer.by_type(**given.arguments)
    layer.made = 0
    found = make_in_pieces(layer.by_type, given, None, ENTITY, torch.zeros(N, dtype=torch.bool))
    assert torch.allclose(found, truth, rtol=0, atol=1e-12)
    assert layer.made == len({*zip(edges[1].tolist(), edges[3].tolist(), strict=True)}) < EDGES / 4


def test_what_the_whole_graph_sent_is_not_made_again(drawn):
    """Twice as many nodes as entities: the first half has the rows of the whole graph, the others have not."""
    layer, x, source, target, kind = drawn
    whole = KnownMessages.of(plain(x, source, target, kind), layer.by_type(x[source], kind), N)
    assert whole is not None
    rows = torch.cat([x, torch.randn(N, WIDTH, dtype=torch.float64)])
    entity, known = torch.cat([ENTITY, ENTITY]), torch.arange(2 * N) < N
    for copied in (torch.zeros(EDGES), torch.arange(EDGES) % 5 == 0, torch.ones(EDGES)):
        given = plain(rows, source + N * copied.long(), target, kind)
        layer.made = 0
        found = make_in_pieces(layer.by_type, given, whole, entity, known)
        assert layer.made == len(
            {*zip(given.source[given.source >= N].tolist(), kind[given.source >= N].tolist(), strict=True)}
        )
        assert torch.allclose(found, layer.by_type(**given.arguments), rtol=0, atol=1e-12)


def test_an_unknown_type_is_made(drawn):
    layer, x, source, target, kind = drawn
    some = kind < TYPES - 1
    whole = KnownMessages.of(
        plain(x, source[some], target[some], kind[some]), layer.by_type(x[source[some]], kind[some]), N
    )
    given = plain(x, source, target, kind)
    found = make_in_pieces(layer.by_type, given, whole, ENTITY, torch.ones(N, dtype=torch.bool))
    assert torch.allclose(found, layer.by_type(**given.arguments), rtol=0, atol=1e-12)


def test_attention_is_shared_among_all_edges_of_a_target(drawn):
    layer, x, source, target, kind = drawn
    rows = {"x_i": x[target], "x_j": x[source], "edge_type": kind, "index": target}
    given = MessageArguments(rows | {"size_i": N}, rows, source, target)
    assert KnownMessages.of(given, x[source], N) is None
    found = make_in_pieces(layer.attending, given, None, ENTITY, torch.ones(N, dtype=torch.bool))
    assert torch.allclose(found, layer.attending(**given.arguments), rtol=0, atol=1e-12)


def test_no_edge_no_message(drawn):
    layer, x, *_ = drawn
    nothing = torch.zeros(0, dtype=torch.long)
    given = plain(x, nothing, nothing, nothing)
    assert make_in_pieces(layer.by_type, given, None, ENTITY, torch.ones(N, dtype=torch.bool)).shape == (0, WIDTH)
