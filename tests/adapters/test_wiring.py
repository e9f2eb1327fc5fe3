"""PyG's graphs as knowledge graphs, and which edge type each relation has."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import ToUndirected

from builders import knowledge_graph, random_rows, triple_tensor
from powerlink.adapters import from_pyg
from powerlink.adapters.wiring import wire
from powerlink.errors import DataError, MismatchError, SettingsError
from powerlink.explainers.floor import Gradient
from powerlink.pipeline import ExplainSettings
from powerlink.run.explain_many import explain
from pyg_encoders import Reasoner, draw_encoder

N, R = 6, 2
ROWS = [(0, 0, 1), (1, 1, 2), (0, 0, 3), (3, 1, 4), (4, 0, 5)]


def data(*, inverse: bool) -> Data:
    head, relation, tail = triple_tensor(ROWS).unbind(1)
    edge_index, edge_type = torch.stack([head, tail]), relation
    if inverse:
        edge_index, edge_type = torch.cat([edge_index, edge_index.flip(0)], 1), torch.cat([relation, relation + R])
    return Data(edge_index=edge_index, edge_type=edge_type, num_nodes=N)


def library() -> HeteroData:
    """Papers, their authors and their topics."""
    made = HeteroData()
    made["author"].num_nodes, made["paper"].num_nodes, made["topic"].num_nodes = 2, 3, 2
    made["author", "writes", "paper"].edge_index = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 2]])
    made["paper", "about", "topic"].edge_index = torch.tensor([[0, 1, 2], [0, 0, 1]])
    made["author", "about", "topic"].edge_index = torch.tensor([[1], [0]])
    return made


@pytest.mark.parametrize("inverse", ["added", "none"])
def test_data_holds_the_facts_it_was_made_of(inverse):
    wiring = wire(data(inverse=inverse == "added"), inverse, names=list("abcdef"), relation_names=["likes", "knows"])
    assert [tuple(row) for row in wiring.graph.train.tolist()] == ROWS
    assert wiring.graph.triple("a", "knows", "f") == (0, 1, 5)
    assert wiring.edge_types.tolist() == ([0, 1, 2, 3] if inverse == "added" else [0, 1, -1, -1])


def test_names_may_stand_in_the_data():
    named = data(inverse=False)
    named.entity_names, named.relation_names = list("abcdef"), ["likes", "knows"]
    assert wire(named, "none").graph.entities[3] == "d"
    assert wire(data(inverse=False), "none").graph.relations[1] == "r1"


def test_edge_types_may_be_ones_own():
    graph = knowledge_graph(ROWS, N, R)
    assert wire(graph, [0, 2, 1, 3]).edge_types.tolist() == [0, 2, 1, 3]
    assert wire(graph, [5, 4]).edge_types.tolist() == [5, 4, -1, -1]
    assert wire(graph, "same").edge_types.tolist() == [0, 1, 0, 1]


def test_numbering_of_ones_own_reaches_the_layers():
    """Interleaved types, r ↦ 2r and its inverse ↦ 2r + 1, are the same model as blocks of them."""
    rows = random_rows(1, 20, R, 40)
    graph = knowledge_graph(rows, 20, R)
    blocks, interleaved = (draw_encoder("rgcn", 20, 2 * R) for _ in range(2))
    order = torch.tensor([0, 2, 1, 3])
    with torch.no_grad():
        for conv, other in zip(interleaved.convs, blocks.convs, strict=True):
            conv.weight[order] = other.weight
    found = [
        from_pyg(encoder, "distmult", graph, nodes="node_emb", relations=encoder.rel_emb, inverse=inverse)
        for encoder, inverse in ((blocks, "added"), (interleaved, order.tolist()))
    ]
    assert torch.allclose(found[0].whole.entity, found[1].whole.entity, rtol=0, atol=1e-12)


def test_a_heterogeneous_graph_gets_typed_names():
    graph = wire(library(), "none").graph
    assert graph.entities.ids == ("author 0", "author 1", "paper 0", "paper 1", "paper 2", "topic 0", "topic 1")
    assert graph.relations.ids == ("writes", "paper about topic", "author about topic")
    assert graph.train[0].tolist() == [0, 0, 2]
    named = wire(library(), "none", names={"author": ["Ada", "Ben"]}).graph
    assert named.entities.ids[:3] == ("Ada", "Ben", "paper 0")


def test_reverse_types_are_inverses_and_numbers_are_those_of_to_homogeneous():
    both = ToUndirected()(library())
    wiring = wire(both, "added")
    assert wiring.graph.num_relations == 3
    plain = both.to_homogeneous()
    kinds = wiring.edge_types
    edges = set()
    for head, relation, tail in wiring.graph.train.tolist():
        edges |= {(head, int(kinds[relation]), tail), (tail, int(kinds[relation + 3]), head)}
    assert edges == set(
        zip(plain.edge_index[0].tolist(), plain.edge_type.tolist(), plain.edge_index[1].tolist(), strict=True)
    )


def test_typed_paths_come_out_of_heterogeneous_data():
    both = ToUndirected()(library())
    encoder = Reasoner("rgcn", 7, 6, hops=(0, 1))
    session = from_pyg(
        encoder, encoder.decode, both, nodes="table", relations=torch.zeros(6, 7), names={"author": ["Ada", "Ben"]}
    )
    told = explain(
        session, "Ada", "author about topic", "topic 0", explainer=Gradient(), settings=ExplainSettings(core=0)
    )
    assert [(f.head, f.relation, f.tail) for f in told.paths[0].facts] in (
        [("Ada", "writes", "paper 0"), ("paper 0", "paper about topic", "topic 0")],
        [("Ada", "writes", "paper 1"), ("paper 1", "paper about topic", "topic 0")],
    )


def test_what_does_not_fit_is_told():
    with pytest.raises(MismatchError, match="say inverse='none' if it holds each fact once"):
        wire(data(inverse=False), "added")
    with pytest.raises(DataError, match="no edge_type"):
        wire(Data(edge_index=torch.zeros(2, 1, dtype=torch.long)), "none")
    with pytest.raises(SettingsError, match="added, none, same or the edge types, not 'both'"):
        wire(data(inverse=False), "both")
    with pytest.raises(SettingsError, match="give a KnowledgeGraph"):
        wire(data(inverse=False), "same")
    with pytest.raises(SettingsError, match="not list"):
        wire(ROWS, "none")
    with pytest.raises(MismatchError, match="6 nodes, but 2 names"):
        wire(data(inverse=False), "none", names=["a", "b"])
    with pytest.raises(MismatchError, match="2 relations, but 1 names"):
        wire(data(inverse=False), "none", relation_names=["a"])
    with pytest.raises(DataError, match="the name 'a' is given 6 times"):
        wire(data(inverse=False), "none", names=["a"] * 6)
    with pytest.raises(MismatchError, match="2 nodes of type 'author', but 1 names"):
        wire(library(), "none", names={"author": ["Ada"]})
    with pytest.raises(MismatchError, match="edge types are needed for 2 relations"):
        wire(knowledge_graph(ROWS, N, R), [0])
    twice = data(inverse=False)
    twice.edge_index, twice.edge_type = twice.edge_index.repeat(1, 2), twice.edge_type.repeat(2)
    with pytest.raises(DataError, match="twice"):
        wire(twice, "none")
