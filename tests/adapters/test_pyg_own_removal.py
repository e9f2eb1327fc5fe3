"""Every score that is shown is what users get who remove the facts and call their own model again, at defaults."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import FastRGCNConv, GATv2Conv, RGATConv, RGCNConv, TransformerConv

from builders import knowledge_graph, random_rows
from powerlink.adapters import from_pyg
from powerlink.adapters.wiring import Inverse
from powerlink.explanation import Explanation, Fact
from powerlink.kg.catalog import load
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.run.explain_many import explain_many

WIDTH = 16
LAYERS = {
    "fast-rgcn": lambda types: FastRGCNConv(WIDTH, WIDTH, types),
    "fast-rgcn-bases": lambda types: FastRGCNConv(WIDTH, WIDTH, types, num_bases=3),
    "rgcn": lambda types: RGCNConv(WIDTH, WIDTH, types),
    "gatv2": lambda types: GATv2Conv(WIDTH, WIDTH // 2, heads=2, edge_dim=WIDTH),
    "rgat": lambda types: RGATConv(WIDTH, WIDTH, types),
    "rgat-within": lambda types: RGATConv(WIDTH, WIDTH, types, attention_mechanism="within-relation"),
    "transformer": lambda types: TransformerConv(WIDTH, WIDTH // 2, heads=2, edge_dim=WIDTH),
}
DATASETS = Path(os.environ.get("POWERLINK_DATA") or Path(__file__).parents[3] / "shared" / "datasets")


class Encoder(nn.Module):
    """Two layers, and what an encoder may do between them: a residual, and in the end a look back at the first."""

    def __init__(self, layer: str, entities: int, types: int) -> None:
        super().__init__()
        self.node_emb = nn.Parameter(torch.randn(entities, WIDTH))
        self.rel_emb = nn.Embedding(types, WIDTH)
        self.first, self.second = LAYERS[layer](types), LAYERS[layer](types)

    def forward(self, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        with_features = isinstance(self.first, GATv2Conv | TransformerConv)
        kind = self.rel_emb(edge_type) if with_features else edge_type
        near = torch.tanh(self.node_emb + self.first(self.node_emb, edge_index, kind))
        return 0.5 * near + torch.tanh(self.second(near, edge_index, kind))


@dataclass
class Own:
    """The user's side: their facts, their encoder, their decoder, and nothing of ours."""

    encoder: nn.Module
    facts: set[tuple[int, int, int]]
    relations: int
    inverse: Inverse

    @torch.no_grad()
    def score(self, triple: tuple[int, int, int], facts: Iterable[tuple[int, int, int]]) -> float:
        """Encode a graph of some facts, but not the one in question, and score it."""
        rows = torch.tensor(sorted(set(facts) - {triple}), dtype=torch.long).reshape(-1, 3)
        head, relation, tail = rows.unbind(1)
        edge_index, edge_type = torch.stack([head, tail]), relation
        if self.inverse == "added":
            edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
            edge_type = torch.cat([relation, relation + self.relations])
        z = self.encoder(edge_index, edge_type)
        h, r, t = triple
        return float((z[h] * self.encoder.rel_emb.weight[r] * z[t]).sum())


def drawn(layer: str, graph: KnowledgeGraph, inverse: Inverse) -> Own:
    torch.manual_seed(0)
    types = graph.num_relations * (2 if inverse == "added" else 1)
    encoder = Encoder(layer, graph.num_entities, types).eval()
    with torch.no_grad():
        for parameter in encoder.parameters():  # RGATConv leaves one of its parameters uninitialised
            parameter.nan_to_num_(0.0).clamp_(-1.0, 1.0).add_(0.1 * torch.randn_like(parameter))
    return Own(encoder, set(map(tuple, graph.train.tolist())), graph.num_relations, inverse)


def differences(own: Own, graph: KnowledgeGraph, told: Explanation) -> list[float]:
    """Compare every score that is shown with the user's own: the list of what is between them."""

    def ids(facts: Iterable[Fact]) -> set[tuple[int, int, int]]:
        return {graph.triple(fact.head, fact.relation, fact.tail) for fact in facts}

    asked = graph.triple(told.query.head, told.query.relation, told.query.tail)
    whole = own.score(asked, own.facts)
    everything = [fact for path in told.paths for fact in path.facts]
    pairs = [(told.score, whole)]
    for path in told.paths:
        pairs.append((path.score_without, own.score(asked, own.facts - ids(path.facts))))
        pairs += [(fact.effect, whole - own.score(asked, own.facts - ids([fact]))) for fact in path.facts]
    pairs.append((told.without_all.score, own.score(asked, own.facts - ids(everything))))
    pairs.append((told.only_these.score, own.score(asked, ids(everything))))
    for first, outcome in told.without_top.items():
        some = [fact for path in told.paths[:first] for fact in path.facts]
        pairs.append((outcome.score, own.score(asked, own.facts - ids(some))))
    return [abs(ours - theirs) for ours, theirs in pairs]


def check(layer: str, graph: KnowledgeGraph, triples: Tensor, inverse: Inverse = "added") -> None:
    own = drawn(layer, graph, inverse)
    subject = from_pyg(own.encoder, "distmult", graph, nodes="node_emb", relations=own.encoder.rel_emb, inverse=inverse)
    explained = [told for told in explain_many(subject, triples) if told.paths]
    assert len(explained) >= 2
    assert all(told.without_all and told.only_these for told in explained)
    found = [difference for told in explained for difference in differences(own, graph, told)]
    assert max(found) < 1e-4
    moved = [abs(told.score - path.score_without) for told in explained for path in told.paths]
    assert max(moved) > 1e-2  # or nothing was tested


@pytest.mark.parametrize("inverse", ["added", "none"])
@pytest.mark.parametrize("layer", LAYERS)
def test_on_a_random_multigraph(layer, inverse):
    """Facts of the graph, which must not explain themselves, and others; parallel edges, self-loops, hubs."""
    rows = random_rows(4, 60, 4, 300) + [(7, r, t) for r in range(4) for t in range(20, 50)] + [(3, 1, 3), (7, 2, 7)]
    graph = knowledge_graph(sorted(set(rows)), 60, 4)
    asked = [*[row for row in rows if row[0] != row[2]][:4], (7, 3, 21), (1, 2, 30), (30, 0, 7)]
    check(layer, graph, torch.tensor(asked), inverse)


@pytest.mark.skipif(not (DATASETS / "UMLS").is_dir(), reason=f"UMLS is not in {DATASETS}")
@pytest.mark.parametrize("layer", ["fast-rgcn", "rgcn", "gatv2", "rgat"])
def test_on_umls(layer):
    graph = load("umls", data_dir=DATASETS)
    check(layer, graph, torch.from_numpy(graph.test[:3].copy()))


def test_two_readings_of_the_same_weights_are_two_models():
    graph = knowledge_graph(random_rows(4, 20, 2, 60), 20, 2)
    own = drawn("fast-rgcn", graph, "added")
    told = {}
    for reading in ("recomputed", "fixed"):
        common = {"nodes": "node_emb", "relations": own.encoder.rel_emb, "normaliser": reading}
        subject = from_pyg(own.encoder, "distmult", graph, **common)
        (told[reading],) = explain_many(subject, torch.tensor([[0, 1, 5]]))
        assert subject.hash == from_pyg(own.encoder, "distmult", graph, **common, name="mine").hash != ""
        assert f"Encoder-distmult, {reading}" in told[reading]._repr_html_()
    names, hashes = zip(*((one.made_by.model, one.made_by.model_hash) for one in told.values()), strict=True)
    assert names == ("Encoder-distmult, recomputed", "Encoder-distmult, fixed")
    assert hashes[0] != hashes[1]
