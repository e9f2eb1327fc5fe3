"""A proof in pieces, against the proof at once."""

from __future__ import annotations

import pytest
import torch

from builders import knowledge_graph, model_of, random_rows, triple_tensor
from powerlink.errors import PowerlinkError
from powerlink.graphs.computation_graph import extract
from powerlink.memory import Room
from powerlink.models import layer_by_layer
from powerlink.models.session import Session
from powerlink.verify.counterfactual import standings_without
from powerlink.verify.oracle import Removal

N, R = 20, 3
ROWS = list(dict.fromkeys([(i, i % R, 0) for i in range(1, 15)] + random_rows(1, N, R, 50)))
QUERIES = [ROWS[2], (4, 1, 9), (0, 2, 7), ROWS[20]]
CRAMPED = Room(whole=0, logits=1)


def session_of(name, layers=2):
    encoder, decoder = name.split("-")
    return Session.of(knowledge_graph(ROWS, N, R), model_of(encoder, decoder, layers, N, R))


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(layer_by_layer, "NUMBERS_AT_ONCE", 40)
    monkeypatch.setattr(layer_by_layer, "LONG", 5)


@pytest.mark.parametrize("foils", [None, torch.tensor([3, -1, 8, 1])])
@pytest.mark.parametrize("name", ["compgcn-conve", "rgcn-transe", "wgcn-distmult"])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_ranks_and_scores_without_facts_are_those_of_the_whole(name, layers, foils):
    session = session_of(name, layers)
    scenario, edge = torch.tensor([0, 0, 1, 3, 3]), torch.tensor([1, 4, 9, 0, 30])
    edge = torch.cat([edge, session.messages.reverse[edge]])
    asked = session, triple_tensor(QUERIES), scenario.repeat(2), edge
    at_once, pieces = standings_without(*asked, foils=foils), standings_without(*asked, foils=foils, room=CRAMPED)
    torch.testing.assert_close(pieces.score, at_once.score, atol=1e-5, rtol=1e-4)
    assert pieces.rank.tolist() == at_once.rank.tolist()


@pytest.mark.parametrize("name", ["compgcn-conve", "rgcn-transe", "wgcn-distmult"])
def test_an_oracle_beside_a_sample_says_what_the_one_of_the_whole_graph_says(name):
    session = session_of(name)
    graph = extract(session.messages, triple_tensor(QUERIES), 2)
    question = graph.query_of_edge[torch.tensor([0, 5, 40, graph.num_edges - 1])]
    facts = torch.tensor([[0, -1], [5, 6], [40, -1], [graph.num_edges - 1, -1]])
    one, other = Removal.of(session, graph), Removal.beside(session, graph, CRAMPED)
    torch.testing.assert_close(other.now(), one.now(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(other.without(question, facts), one.without(question, facts), atol=1e-5, rtol=1e-4)
    one, other = one.precisely(), other.precisely()
    assert other.now().dtype == torch.float64
    torch.testing.assert_close(other.without(question, facts), one.without(question, facts), atol=1e-9, rtol=1e-9)


def test_a_model_without_layers_of_its_own_is_no_error_but_too_much(monkeypatch):
    session = session_of("wgcn-distmult")
    monkeypatch.setitem(vars(session), "layers", None)
    with pytest.raises(MemoryError) as told:
        standings_without(session, triple_tensor(QUERIES), torch.tensor([0]), torch.tensor([1]), room=CRAMPED)
    assert not isinstance(told.value, PowerlinkError)


def test_far_from_hubs_nothing_is_encoded_in_pieces():
    session = session_of("compgcn-distmult")
    messages = session.messages
    degree = messages.row.diff()
    edge = (degree[messages.source] + degree[messages.target]).argmin().reshape(1)
    asked = (
        session,
        triple_tensor(QUERIES[1:2]),
        torch.zeros(2, dtype=torch.long),
        torch.cat([edge, messages.reverse[edge]]),
    )
    room = Room(whole=messages.num_edges - 1)
    assert room.is_cramped_by(messages.num_edges)
    assert standings_without(*asked, room=room).score == standings_without(*asked).score
    assert "layers" not in vars(session), "the layers over the whole graph were not needed"
    standings_without(*asked, room=CRAMPED)
    assert "layers" in vars(session)
