"""A foil: the number that is explained is a difference of two logits, wherever it is asked, against rebuilt graphs."""

from __future__ import annotations

import io
import math

import pytest
import torch
from rich.console import Console

from builders import edges_of_fact, edges_without, knowledge_graph, model_of, random_rows, removal, triple_tensor
from powerlink.explainers.learned.power_link_plus import PowerLinkPlus
from powerlink.explainers.slopes import Slopes, fact_slopes
from powerlink.graphs.computation_graph import extract
from powerlink.models.session import Session
from powerlink.pipeline import ExplainSettings, computation_graph, explain_batch
from powerlink.questions import Questions, asked_by_weight
from powerlink.report.html import render_page
from powerlink.report.text import print_explanations
from powerlink.verify.paper_protocol import measure_paper

N, R = 14, 3
ROWS = random_rows(4, N, R, 55)
QUERIES = [(0, 0, 1), ROWS[3], (2, 4, 6), (5, 1, 7)]
FOILS = torch.tensor([8, 2, -1, ROWS[5][2]])
MODELS = ["compgcn-distmult", "rgcn-transe", "wgcn-conve"]


@pytest.fixture(params=MODELS, scope="module")
def session(request):
    return Session.of(knowledge_graph(ROWS, N, R), model_of(*request.param.split("-"), 2, N, R))


@pytest.fixture(scope="module")
def questions():
    return Questions(triple_tensor(QUERIES), FOILS)


def triples_of(questions, q):
    head, relation, tail = questions.triples[q].tolist()
    foil = int(questions.foils[q])
    return [(head, relation, tail), *([(head, relation, foil)] if foil >= 0 else [])]


def number(session, questions, q, removed=()):
    """Delete facts (head, relation, tail) and those in question from the whole graph, and ask with PyTorch alone."""
    gone = {edge for fact in (*triples_of(questions, q), *removed) for edge in edges_of_fact(session.messages, fact)}
    with torch.no_grad():
        encoded = session.model.encode(edges_without(session.messages, sorted(gone)))
        logits = session.model.score(encoded, torch.tensor(triples_of(questions, q)))
    return (logits[0] - logits[1:].sum()).item()


def as_ids(session, fact):
    return tuple(session.graph.triple(fact.head, fact.relation, fact.tail))


@pytest.mark.parametrize("select", ["carried", "largest-drop", "mask"])
def test_what_is_told_of_a_foil_is_what_rebuilt_graphs_say(session, questions, select):
    told = explain_batch(session, questions, settings=ExplainSettings(select=select, core=0))
    assert any(e.evidence for e in told)
    for q, explanation in enumerate(told):
        names = session.graph.entities
        assert explanation.query.foil == (names[int(FOILS[q])] if FOILS[q] >= 0 else None)
        assert explanation.score == pytest.approx(number(session, questions, q), abs=1e-8)
        shown = [[as_ids(session, fact) for fact in piece.facts] for piece in explanation.evidence]
        for piece, facts in zip(explanation.evidence, shown, strict=True):
            assert piece.score_without == pytest.approx(number(session, questions, q, facts), abs=1e-8)
            for fact, own in zip(piece.facts, facts, strict=True):
                effect = explanation.score - number(session, questions, q, [own])
                assert fact.effect == pytest.approx(effect if fact.visible else 0.0, abs=1e-8)
        if explanation.evidence:
            every = [fact for facts in shown for fact in facts]
            assert explanation.without_all.score == pytest.approx(number(session, questions, q, every), abs=1e-8)
            kept = set(map(tuple, session.graph.train.tolist())) - set(every)
            alone = number(session, questions, q, sorted(kept))
            assert explanation.only_these.score == pytest.approx(alone, abs=1e-8)


def test_slopes_are_those_of_the_difference(session, questions):
    graph = extract(session.messages, questions.triples, 2, questions.foils)
    slopes = fact_slopes(session.settled, graph)
    ask = asked_by_weight(session.settled, graph, graph)
    for edge in range(0, graph.num_edges, 7):
        weights = torch.ones(2, graph.num_edges, dtype=torch.float64)
        both = [edge, int(graph.reverse[edge])]
        weights[0, both] += 1e-5
        weights[1, both] -= 1e-5
        with torch.no_grad():
            rise = (ask(weights[0]) - ask(weights[1])).sum().item() / 2e-5
        assert slopes[edge].item() == pytest.approx(rise, rel=1e-3, abs=1e-6)


def test_the_graph_reaches_around_the_foil_and_leaves_both_facts_out(session):
    questions = Questions(triple_tensor([ROWS[0]]), torch.tensor([ROWS[1][2]]))
    graph = extract(session.messages, questions.triples, 1, questions.foils)
    assert ROWS[1][2] in graph.entity.tolist()
    there = set(
        zip(
            graph.entity[graph.source].tolist(),
            graph.relation.tolist(),
            graph.entity[graph.target].tolist(),
            strict=True,
        )
    )
    for head, relation, tail in triples_of(questions, 0):
        assert (head, relation, tail) not in there
        assert (tail, relation + R, head) not in there
    assert graph.level[graph.foil].tolist() == [0]


def test_a_batch_of_questions_says_what_each_says_alone(session, questions):
    together = explain_batch(session, questions)
    for q in range(len(questions)):
        (alone,) = explain_batch(session, questions[torch.tensor([q])])
        assert [p.facts for p in alone.evidence] == [p.facts for p in together[q].evidence]
        assert alone.score == pytest.approx(together[q].score, abs=1e-9)


def test_a_learned_explainer_and_the_papers_figures_ask_the_same_number(session, questions):
    settings = ExplainSettings(metrics="paper", core=0)
    told = explain_batch(session, questions, explainer=PowerLinkPlus(steps=4), settings=settings)
    graph = computation_graph(session, questions, settings)
    nothing = torch.zeros(graph.num_edges, dtype=torch.float64)
    found = measure_paper(session.settled, graph, nothing, torch.full((4, 1, 1), -1), [1])
    with torch.no_grad():
        plain = torch.sigmoid(removal(session.settled, graph).now())
    for q, explanation in enumerate(told):
        assert 1 / (1 + math.exp(-explanation.score)) == pytest.approx(plain[q].item(), abs=1e-9)
        for piece in explanation.evidence:
            facts = [as_ids(session, fact) for fact in piece.facts]
            assert piece.score_without == pytest.approx(number(session, questions, q, facts), abs=1e-8)
    assert found.fidelity_plus.abs().max() < 1e-12, "an empty mask takes nothing away"


def test_what_must_not_be_passed_is_passed_by_no_evidence(session):
    queries = triple_tensor([(0, 0, 1), (2, 1, 6)])
    settings = ExplainSettings(core=0, select="mask", paths=10)
    free = explain_batch(session, queries, settings=settings)
    through = {name for e in free for p in e.paths for f in p.facts for name in (f.head, f.tail)}
    named = sorted(through - {"e0", "e1", "e2", "e6"})
    barred = [int(named[0][1:]), 2]  # 2 is an end of the second question, and may be passed there
    held = explain_batch(session, Questions(queries, not_through=tuple(barred)), settings=settings)
    for q, (before, after) in enumerate(zip(free, held, strict=True)):
        assert before.score == after.score, "the model is asked the same"
        ends = {before.query.head, before.query.tail}
        for piece in after.paths:
            inner = {name for fact in piece.facts for name in (fact.head, fact.tail)} - ends
            assert not inner & {f"e{entity}" for entity in barred}, q
    assert any(before.paths != after.paths for before, after in zip(free, held, strict=True))


def test_explainers_that_learn_nothing_know_of_the_foil_too(session, questions):
    graph = computation_graph(session, questions, ExplainSettings())
    plain = computation_graph(session, questions.triples, ExplainSettings())
    scores = Slopes().score_edges(session.settled, graph, 0).values
    assert scores.numel() == graph.num_edges >= plain.num_edges


def test_every_report_says_what_the_answer_is_held_against(session, questions):
    told = explain_batch(session, questions)[0]
    console = Console(width=100, file=io.StringIO())
    print_explanations(console, [told])
    said = f"Rather than {told.query.foil}: every score is the difference of the two."
    assert said in console.file.getvalue()
    assert said in render_page([told], "foils")
