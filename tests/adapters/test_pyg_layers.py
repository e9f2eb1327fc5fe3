"""Every supported layer: the adapter says what the user's own forward says, and weights are what they should be."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from builders import edges_without, fact_lists, knowledge_graph, random_rows, triple_tensor
from powerlink.adapters import DistMult, from_pyg
from powerlink.explainers.floor import Gradient
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.graphs.computation_graph import extract
from powerlink.models.session import Session
from powerlink.pipeline import ExplainSettings
from powerlink.run.explain_many import explain
from powerlink.testing import check_link_model
from powerlink.verify.counterfactual import standings_without
from powerlink.verify.verdict import standing_of
from pyg_encoders import LAYERS, Encoder, Reasoner, draw_encoder

N, R = 40, 3
ROWS = random_rows(3, N, R, 60)
GRAPH = knowledge_graph(ROWS, N, R)
READINGS = ("fixed", "recomputed")


def own_forward(encoder: Encoder, rows: Tensor, inverse: str) -> tuple[Tensor, Tensor]:
    """Node and relation vectors as the user computes them, from the facts alone."""
    head, relation, tail = rows.unbind(1)
    edge_index, edge_type = torch.stack([head, tail]), relation
    if inverse == "added":
        edge_index, edge_type = torch.cat([edge_index, edge_index.flip(0)], 1), torch.cat([relation, relation + R])
    if inverse == "same":
        edge_index, edge_type = torch.cat([edge_index, edge_index.flip(0)], 1), torch.cat([relation, relation])
    with torch.no_grad():
        out = encoder(edge_index, edge_type)
    return out if isinstance(out, tuple) else (out, encoder.rel_emb.weight)


def own_scores(vectors: tuple[Tensor, Tensor], triples: Tensor) -> Tensor:
    nodes, relations = vectors
    return (nodes[triples[:, 0]] * relations[triples[:, 1]] * nodes[triples[:, 2]]).sum(1)


def session_of(encoder: Encoder, inverse: str = "added", normaliser: str = "fixed") -> Session:
    return from_pyg(
        encoder, "distmult", GRAPH, nodes="node_emb", relations=encoder.rel_emb, inverse=inverse, normaliser=normaliser
    )


def not_facts(count: int, types: int) -> Tensor:
    known = set(ROWS) | {(t, r + R, h) for h, r, t in ROWS}
    return triple_tensor([q for q in random_rows(9, N, types, 3 * count) if q not in known and q[0] != q[2]][:count])


@pytest.mark.parametrize("normaliser", READINGS)
@pytest.mark.parametrize("inverse", ["added", "none", "same"])
@pytest.mark.parametrize("name", LAYERS)
def test_scores_are_those_of_the_users_own_forward(name, inverse, normaliser):
    types = 2 * R if inverse == "added" else R
    encoder = draw_encoder(name, N, types)
    session = session_of(encoder, inverse, normaliser)
    triples = not_facts(20, types)
    truth = own_scores(own_forward(encoder, triple_tensor(ROWS), inverse), triples)
    assert torch.allclose(session.model.score(session.whole, triples), truth, rtol=0, atol=1e-5)
    part = extract(session.messages, triples, session.model.num_layers)
    assert part.num_edges < 20 * session.messages.num_edges
    for weight in (None, torch.ones(part.num_edges)):
        cut = session.model.score(session.model.encode(part, weight), part.triples)
        assert torch.allclose(cut, truth, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_recomputed_means_that_the_edge_was_never_there(name):
    encoder = draw_encoder(name, N, 2 * R)
    session = session_of(encoder, normaliser="recomputed")
    messages, gone = session.messages, 7
    weight = torch.ones(messages.num_edges)
    removed = (messages.fact == gone).nonzero().squeeze(1)
    weight[removed] = 0.0
    found = session.model.encode(messages, weight).entity
    rest = triple_tensor([row for i, row in enumerate(ROWS) if i != gone])
    assert torch.allclose(found, own_forward(encoder, rest, "added")[0], rtol=0, atol=1e-10)
    assert torch.allclose(
        found, session.model.encode(edges_without(messages, removed.tolist())).entity, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("name", LAYERS)
def test_fixed_means_that_what_is_left_keeps_its_share(name):
    """In one layer, removing an edge takes its message away and changes no other: effects of removals add up."""
    encoder = draw_encoder(name, N, 2 * R, layers=1)
    session = session_of(encoder)
    messages, model = session.messages, session.model
    node = int(messages.row.diff().argmax())
    edges = (messages.target == node).nonzero().squeeze(1)

    def received(removed: list[int]) -> Tensor:
        rows = model.encode(edges_without(messages, removed)).entity[node, : encoder.node_emb.size(1)]
        return torch.atanh(rows)

    whole, nothing = received([]), received(edges.tolist())
    alone = torch.stack([whole - received([edge]) for edge in edges.tolist()]).sum(0)
    assert torch.allclose(alone, whole - nothing, rtol=0, atol=1e-9)
    assert (alone.abs() > 1e-3).any()


def test_the_two_readings_differ_where_a_layer_normalises_and_only_there():
    differences = {}
    for name in LAYERS:
        encoder = draw_encoder(name, N, 2 * R)
        readings = [session_of(encoder, normaliser=reading) for reading in READINGS]
        removed = list(range(0, readings[0].messages.num_edges, 3))
        rows = [s.model.encode(edges_without(s.messages, removed)).entity for s in readings]
        differences[name] = float((rows[0] - rows[1]).abs().max())
    assert differences.pop("rgcn-sum") < 1e-12
    assert min(differences.values()) > 1e-3


@pytest.mark.parametrize("normaliser", READINGS)
@pytest.mark.parametrize("name", LAYERS)
def test_the_checks_find_nothing_wrong(name, normaliser):
    assert check_link_model(session_of(draw_encoder(name, N, 2 * R), normaliser=normaliser).model, GRAPH) == []


def test_a_relation_propagated_alone_is_weighed_by_its_own_edges():
    """Parallel edges share source and target: only the weight of the right one may matter."""
    rows = [(0, 0, 1), (0, 1, 1), (0, 2, 1), (2, 1, 1)]
    graph = knowledge_graph(rows, 3, R)
    encoder = draw_encoder("rgcn-blocks", 3, 2 * R, layers=1)
    session = from_pyg(encoder, DistMult(), graph, relations=encoder.rel_emb, nodes="node_emb", normaliser="recomputed")
    messages = session.messages
    for edge in range(messages.num_edges):
        weight = torch.ones(messages.num_edges).index_fill(0, torch.tensor([edge]), 0.0)
        masked, deleted = (
            session.model.encode(messages, weight).entity,
            session.model.encode(edges_without(messages, [edge])).entity,
        )
        assert torch.allclose(masked, deleted, rtol=0, atol=1e-12)
        assert not torch.allclose(masked, session.whole.entity, rtol=0, atol=1e-6)


@settings(max_examples=40)
@given(
    rows=fact_lists(7, 2, 14, min_size=3),
    name=st.sampled_from(sorted(LAYERS)),
    normaliser=st.sampled_from(READINGS),
    inverse=st.sampled_from(["added", "none", "same"]),
    gone=st.sets(st.integers(0, 27), max_size=6),
)
def test_any_small_graph(rows, name, normaliser, inverse, gone):
    """Self-loops, parallel edges, lonely nodes: the whole graph is the user's, and weight zero is a removal."""
    encoder = draw_encoder(name, 7, 4 if inverse == "added" else 2)
    graph = knowledge_graph(rows, 7, 2)
    session = from_pyg(
        encoder, "distmult", graph, nodes="node_emb", relations=encoder.rel_emb, inverse=inverse, normaliser=normaliser
    )
    messages, model = session.messages, session.model
    head, relation, tail = triple_tensor(rows).unbind(1)
    edge_index, edge_type = torch.stack([head, tail]), relation
    if inverse != "none":
        edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
        edge_type = torch.cat([relation, relation + (2 if inverse == "added" else 0)])
    with torch.no_grad():
        out = encoder(edge_index, edge_type)
    assert torch.allclose(session.whole.entity, out[0] if isinstance(out, tuple) else out, rtol=0, atol=1e-10)
    removed = [edge for edge in gone if edge < messages.num_edges]
    weight = torch.ones(messages.num_edges).index_fill(0, torch.tensor(removed, dtype=torch.long), 0.0)
    masked, deleted = model.encode(messages, weight), model.encode(edges_without(messages, removed))
    assert torch.allclose(masked.entity, deleted.entity, rtol=0, atol=1e-10)
    queries = triple_tensor([(h, r, t) for h, t in ((0, 1), (2, 3), (4, 6)) for r in (0, 1, 2, 3)])
    part = extract(messages, queries, model.num_layers)
    cut = model.score(model.encode(part), part.triples)
    truth = standing_of(session, queries).score
    assert torch.allclose(cut, truth, rtol=0, atol=1e-9)


# Known reasoning

TRUE = [(0, 0, 1), (1, 1, 2)]
DECOYS = [(0, 2, 3), (3, 2, 2), (0, 3, 4), (4, 1, 2), (0, 0, 5), (5, 3, 2), (1, 2, 2), (0, 1, 1), (6, 0, 1), (7, 1, 2)]


@pytest.mark.parametrize("normaliser", READINGS)
@pytest.mark.parametrize("name", LAYERS)
def test_the_path_a_model_reasons_by_is_found(name, normaliser):
    graph = knowledge_graph([*TRUE, *DECOYS], 8, 4)
    encoder = Reasoner(name, 8, 8, hops=(0, 1))
    session = from_pyg(
        encoder, encoder.decode, graph, nodes="table", relations=torch.zeros(4, 8), normaliser=normaliser
    )
    told = explain(session, "e0", "r2", "e2", explainer=PowerLink(steps=5), settings=ExplainSettings(core=0))
    assert told.score is not None
    assert told.score > 0
    steps = [(fact.head, fact.relation, fact.tail, fact.inverse) for fact in told.paths[0].facts]
    assert steps == [("e0", "r0", "e1", False), ("e1", "r1", "e2", False)]
    assert told.without_all is not None
    assert told.without_all.score == pytest.approx(-0.5, abs=1e-3)
    quick = explain(session, "e0", "r2", "e2", explainer=Gradient(), settings=ExplainSettings(core=0, select="mask"))
    assert [fact.target for fact in quick.paths[0].facts] == ["e1", "e2"]


@pytest.mark.parametrize("normaliser", READINGS)
@pytest.mark.parametrize("name", LAYERS)
def test_what_is_proven_is_what_removal_does(name, normaliser):
    """Thousands of scenarios in one forward are right for the users' layers too, whatever they normalise by."""
    session = session_of(draw_encoder(name, N, 2 * R), normaliser=normaliser)
    messages, model = session.messages, session.model
    queries = not_facts(6, 2 * R)
    generator = torch.Generator().manual_seed(0)
    removed = torch.randint(messages.num_edges, (6, 3), generator=generator)
    scenario = torch.arange(6).repeat_interleave(3)
    found = standings_without(session, queries, scenario, removed.flatten()).score
    truth = [
        model.score(model.encode(edges_without(messages, gone)), query.unsqueeze(0)).item()
        for query, gone in zip(queries, removed.tolist(), strict=True)
    ]
    assert found.tolist() == pytest.approx(truth, abs=1e-9)
