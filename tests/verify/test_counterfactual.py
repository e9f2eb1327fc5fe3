"""Scores and ranks under removal, against a full recomputation for every scenario."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from builders import (
    edges_of_fact,
    edges_without,
    knowledge_graph,
    known_tails,
    model_of,
    naive_rank,
    random_rows,
    triple_tensor,
)
from powerlink.graphs.computation_graph import extract
from powerlink.memory import Room
from powerlink.models.ranking import score_tails, score_tails_of
from powerlink.models.session import Session
from powerlink.verify.counterfactual import standings_without
from powerlink.verify.oracle import Removal
from powerlink.verify.verdict import standing_of

N, R = 14, 3
ROWS = random_rows(1, N, R, 30)
GRAPH = knowledge_graph(ROWS[6:], N, R, valid=ROWS[:3], test=ROWS[3:6])
KNOWN = known_tails(ROWS, R)
NAMES = ["rgcn-transe", "wgcn-distmult", "compgcn-conve", "compgcn-distmult"]


def session_of(name, layers):
    return Session.of(GRAPH, model_of(*name.split("-"), layers, N, R))


def naive_standing(session, triple, removed):
    """Delete, encode everything again, score everyone, filter."""
    gone = {*removed, *edges_of_fact(session.messages, triple)}
    with torch.no_grad():
        embeddings = session.model.encode(edges_without(session.messages, sorted(gone)))
        head, relation, tail = triple
        logits = score_tails(session.model, embeddings, torch.tensor([head]), torch.tensor([relation]))[0].tolist()
    return logits[tail], naive_rank(logits, tail, KNOWN.get((head, relation), set()))


def scenarios(messages):
    """Triples (test facts, train facts and other pairs, also through the inverse) with edges to remove."""
    generator = torch.Generator().manual_seed(0)
    told = []
    for i, (head, relation, tail) in enumerate([*ROWS[3:12], (0, 0, 1), (5, 1, 6), (2, 2, 2)]):
        triple = (head, relation, tail) if i % 2 else (tail, relation + R, head)
        some = torch.randperm(messages.num_edges, generator=generator)[: i % 4]
        told.append((triple, sorted({*some.tolist(), *messages.reverse[some].tolist()})))
    return told


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_standings_without_facts_equal_a_full_recomputation(name, layers):
    session = session_of(name, layers)
    cases = scenarios(session.messages)
    pairs = [(s, e) for s, (_, removed) in enumerate(cases) for e in removed]
    scenario, edge = torch.tensor(pairs).unbind(1)
    triples = triple_tensor([triple for triple, _ in cases])
    for budget in (1, 60, 10**6):
        found = standings_without(session, triples, scenario, edge, room=Room(edges=budget))
        for s, (triple, removed) in enumerate(cases):
            score, rank = naive_standing(session, triple, removed)
            assert found.score[s].item() == pytest.approx(score, abs=1e-9)
            assert found.rank[s].item() == rank
    plain = standing_of(session, triples)
    expected = [naive_standing(session, triple, []) for triple, _ in cases]
    assert plain.score.tolist() == pytest.approx([score for score, _ in expected], abs=1e-9)
    assert plain.rank.tolist() == [rank for _, rank in expected]


def test_a_fact_in_question_is_removed_even_if_the_caller_removes_it_too():
    session = session_of("compgcn-distmult", 2)
    triple = ROWS[8]
    own = torch.tensor(edges_of_fact(session.messages, triple))
    assert own.numel() == 2
    found = standings_without(session, triple_tensor([triple]), torch.zeros_like(own), own)
    assert found.score.item() == pytest.approx(naive_standing(session, triple, [])[0], abs=1e-9)


def test_no_scenarios_have_no_standings():
    session = session_of("wgcn-distmult", 1)
    none = torch.empty(0, dtype=torch.int64)
    found = standings_without(session, none.reshape(0, 3), none, none)
    assert found.score.shape == found.rank.shape == (0,)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_standings_with_only_some_facts_encode_head_and_tail_from_them_alone(name, layers):
    session = session_of(name, layers)
    queries = [*ROWS[3:6], (ROWS[7][2], ROWS[7][1] + R, ROWS[7][0])]
    graph = extract(session.messages, triple_tensor(queries), layers)
    some = []
    for q in range(len(queries)):
        first, last = graph.edge_row[q : q + 2].tolist()
        some.append(torch.arange(first, last)[q : q + 2 * q : 2])  # none for the first query
    facts = pad_sequence(some, batch_first=True, padding_value=-1)
    found = Removal.of(session, graph).standings_with_only(facts)
    model = session.model
    for q, (head, relation, tail) in enumerate(queries):
        kept = set(graph.edge[torch.cat([some[q], graph.reverse[some[q]]])].tolist())
        rest = [e for e in range(session.messages.num_edges) if e not in kept]
        with torch.no_grad():
            alone = model.encode(edges_without(session.messages, rest))
            table = session.whole.followed_by(alone.rows(torch.tensor([head, tail])))
            ask = torch.tensor([[N, relation, t] for t in range(N)])
            ask[tail, 2] = N + 1
            logits = model.score(table, ask).tolist()
        assert found.score[q].item() == pytest.approx(logits[tail], abs=1e-9)
        assert found.rank[q].item() == naive_rank(logits, tail, KNOWN.get((head, relation), set()))


def test_tails_of_one_encoding_are_scored_for_heads_of_another():
    session = session_of("compgcn-distmult", 1)
    other = session.model.encode(edges_without(session.messages, range(10))).detach()
    head, relation = torch.tensor([3, 0]), torch.tensor([1, 4])
    found = score_tails_of(session.model, other, session.whole, head, relation)
    for i in range(2):
        table = session.whole.followed_by(other)
        ask = torch.tensor([[N + int(head[i]), int(relation[i]), t] for t in range(N)])
        torch.testing.assert_close(found[i], session.model.score(table, ask).detach())


def test_a_model_without_a_way_of_its_own_scores_tails_beside_other_heads_all_the_same():
    session = session_of("compgcn-distmult", 1)
    model = session.model

    class Slow:
        num_layers, encode, score = model.num_layers, model.encode, model.score

    other = model.encode(edges_without(session.messages, range(10))).detach()
    head, relation = torch.tensor([3, 0, 3]), torch.tensor([1, 4, 0])
    fast, slow = (score_tails_of(m, other, session.whole, head, relation) for m in (model, Slow()))
    torch.testing.assert_close(fast, slow)
