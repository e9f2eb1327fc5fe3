"""What from_pyg cannot explain is told in one clear sentence."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv, GraphNorm, MessagePassing, RGCNConv, TAGConv

from builders import knowledge_graph, random_rows
from powerlink.adapters import from_pyg
from powerlink.errors import MismatchError, ModelError, PowerlinkError, SettingsError, UnknownNameError
from powerlink.testing import check_link_model
from pyg_encoders import draw_encoder

N, R, WIDTH = 20, 2, 8
GRAPH = knowledge_graph(random_rows(5, N, R, 30), N, R)
RELATIONS = torch.ones(2 * R, WIDTH)


class Plain(nn.Module):
    """One layer over a table."""

    def __init__(self, layer: nn.Module | None = None) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(N, WIDTH))
        self.layer = layer or RGCNConv(WIDTH, WIDTH, 2 * R)

    def forward(self, edge_index, edge_type):
        return self.layer(self.table, edge_index, edge_type)


class WithoutTypes(Plain):
    def forward(self, edge_index, edge_type):
        return self.layer(self.table, edge_index)


class NoLayer(Plain):
    def __init__(self):
        super().__init__(nn.Linear(WIDTH, WIDTH))

    def forward(self, edge_index, edge_type):
        adjacency = torch.sparse_coo_tensor(edge_index, torch.ones(edge_type.numel()), (N, N))
        return self.layer(adjacency @ self.table)


class HidesItsGraph(Plain):
    def __init__(self):
        super().__init__()
        self.edges = torch.tensor([[0, 1], [1, 2]])

    def forward(self, edge_index, edge_type):
        return self.layer(self.table, self.edges, torch.zeros(2, dtype=torch.long))


class IgnoresMessages(Plain):
    def forward(self, edge_index, edge_type):
        super().forward(edge_index, edge_type)
        return self.table * 2


class Frozen(Plain):
    @torch.no_grad()
    def forward(self, edge_index, edge_type):
        return super().forward(edge_index, edge_type)


class AllNodes(Plain):
    def __init__(self):
        super().__init__()
        self.norm = GraphNorm(WIDTH)

    def forward(self, edge_index, edge_type):
        return self.norm(super().forward(edge_index, edge_type))


class DropoutLeftOn(Plain):
    def forward(self, edge_index, edge_type):
        return nn.functional.dropout(super().forward(edge_index, edge_type), 0.5)


class OwnLookup(Plain):
    """Looks up a second table by itself, which no one told."""

    def __init__(self):
        super().__init__()
        self.other = nn.Parameter(torch.randn(N, WIDTH))


class TakesMore(Plain):
    def forward(self, edge_index, edge_type, batch):
        return super().forward(edge_index, edge_type)


class TakesX(Plain):
    def forward(self, x, edge_index, edge_type):
        return self.layer(x, edge_index, edge_type)


class LooksUpAll(TakesX):
    def forward(self, x, edge_index, edge_type):
        return self.layer(self.table, edge_index, edge_type)


class TwoMessages(MessagePassing):
    def forward(self, x, edge_index, edge_type):
        return self.propagate(edge_index, x=x)

    def message(self, x_j):
        return torch.cat([x_j, x_j])


CASES = {
    "no layer": (NoLayer, {}, ModelError, "no MessagePassing layer"),
    "hidden graph": (HidesItsGraph, {}, ModelError, r"'layer' \(RGCNConv\) passes messages over other edges"),
    "cached": (lambda: WithoutTypes(cached()), {"inverse": "added"}, ModelError, "switch caching off"),
    "ignores": (IgnoresMessages, {}, ModelError, "do not depend on the messages"),
    "no_grad": (Frozen, {}, ModelError, "do not depend on the messages"),
    "all nodes": (AllNodes, {}, ModelError, "normalised over all nodes"),
    "dropout": (DropoutLeftOn, {}, ModelError, "dropout is left on"),
    "two tables": (OwnLookup, {}, ModelError, "its tables with 20 rows there are table, other"),
    "no table": (TakesX, {"nodes": "tabel"}, UnknownNameError, "did you mean 'table'"),
    "x or table": (TakesX, {}, ModelError, "takes x: give its rows"),
    "table or x": (Plain, {"nodes": torch.randn(N, WIDTH)}, ModelError, "takes no x"),
    "few rows": (TakesX, {"nodes": torch.randn(N - 1, WIDTH)}, MismatchError, "19 rows, but the graph has 20 entities"),
    "looks up": (LooksUpAll, {"nodes": torch.randn(N, WIDTH)}, ModelError, "looks its nodes up by itself"),
    "takes more": (TakesMore, {}, ModelError, "say how with call="),
    "relations": (
        lambda: Plain(RGCNConv(WIDTH, WIDTH, R)),
        {},
        MismatchError,
        "knows 2 relations, but with inverse='added'",
    ),
    "types": (Plain, {"inverse": "none"}, MismatchError, "knows 4 relations, but with inverse='none' the graph has 2"),
    "vectors": (Plain, {"relations": torch.ones(3, WIDTH)}, MismatchError, "3 relation vectors"),
    "no vectors": (Plain, {"relations": None}, ModelError, "relations=…"),
    "heads": (Plain, {"relations": torch.ones(R, WIDTH), "ask_heads": "inverse"}, SettingsError, "ask_heads='swap'"),
    "max": (
        lambda: Plain(RGCNConv(WIDTH, WIDTH, 2 * R, aggr="max")),
        {"normaliser": "fixed"},
        ModelError,
        "normaliser=.recomputed.",
    ),
    "messages": (lambda: Plain(TwoMessages()), {}, ModelError, "a message per edge"),
    "normaliser": (Plain, {"normaliser": "both"}, SettingsError, "fixed or recomputed"),
    "decoder": (Plain, {"decoder": "distmul"}, UnknownNameError, "did you mean 'distmult'"),
    "conve": (Plain, {"decoder": "conve"}, SettingsError, "give the trained module"),
    "logits": (Plain, {"decoder": lambda h, r, t: h * t}, ModelError, "one logit per triple"),
}


def cached() -> GCNConv:
    layer = GCNConv(WIDTH, WIDTH, cached=True)
    layer(torch.randn(N, WIDTH), torch.tensor([[0, 1], [1, 2]]))
    return layer


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_says_what_is_wrong(case):
    make, settings, kind, sentence = CASES[case]
    torch.manual_seed(0)
    with pytest.raises(kind, match=sentence) as raised:
        from_pyg(make(), **{"decoder": "distmult", "graph": GRAPH, "relations": RELATIONS} | settings)
    assert isinstance(raised.value, PowerlinkError)
    assert "\n" not in str(raised.value)


def test_a_maximum_can_be_explained_when_recomputed():
    encoder = Plain(RGCNConv(WIDTH, WIDTH, 2 * R, aggr="max"))
    subject = from_pyg(encoder, "distmult", GRAPH, relations=RELATIONS, normaliser="recomputed")
    assert check_link_model(subject.model, GRAPH) == []


def test_a_layer_that_propagates_several_times_needs_its_reach():
    encoder = WithoutTypes(TAGConv(WIDTH, WIDTH, K=3))
    with pytest.raises(ModelError, match=r"messages travel further \(say num_layers=…\)"):
        from_pyg(encoder, "distmult", GRAPH, relations=RELATIONS)
    for normaliser, seen in (("fixed", 3), ("recomputed", 4)):  # it divides by the degrees of sources, a hop further
        subject = from_pyg(encoder, "distmult", GRAPH, relations=RELATIONS, num_layers=3, normaliser=normaliser)
        assert subject.model.num_layers == seen
        assert check_link_model(subject.model, GRAPH) == []


def test_how_to_call_an_encoder_may_be_said():
    encoder = TakesMore()
    torch.manual_seed(0)
    subject = from_pyg(
        encoder,
        "distmult",
        GRAPH,
        relations=RELATIONS,
        call=lambda encoder, x, edge_index, edge_type: encoder(edge_index, edge_type, batch=None),
    )
    assert subject.name == "TakesMore-distmult, recomputed"


def test_x_may_be_rows_or_ids_and_edge_features_rows_by_type():
    class ByFeatures(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(N, WIDTH)
            self.inner = draw_encoder("gatv2", N, 2 * R).float().convs[0]

        def forward(self, x, edge_index, edge_attr):
            return self.inner(self.table(x) if x.dim() == 1 else x, edge_index, edge_attr)

    encoder = ByFeatures()
    features = torch.randn(2 * R, WIDTH)
    common = {"relations": RELATIONS, "edge_attr": features}
    by_ids = from_pyg(encoder, "distmult", GRAPH, nodes=torch.arange(N), **common)
    by_rows = from_pyg(encoder, "distmult", GRAPH, nodes=encoder.table, **common)
    assert torch.allclose(by_ids.whole.entity, by_rows.whole.entity, rtol=0, atol=1e-6)
    with pytest.raises(ModelError, match="takes edge_attr"):
        from_pyg(encoder, "distmult", GRAPH, nodes=torch.arange(N), relations=RELATIONS)
