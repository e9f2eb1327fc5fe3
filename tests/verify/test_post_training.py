"""Post-training as an oracle: it says what a stand-in says, one fact at a time, and is consistent with the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from builders import knowledge_graph, random_rows, triple_tensor
from powerlink.errors import ExplainerError, SettingsError
from powerlink.explainers.floor import Random
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explainers.slopes import fact_slopes
from powerlink.explainers.subsets.kelpie import Kelpie
from powerlink.explainers.subsets.subgraphx import SubgraphX
from powerlink.graphs.computation_graph import extract
from powerlink.kg.knowledge_graph import KnowledgeGraph, Names
from powerlink.models.link_model import ModelSettings, build_model
from powerlink.models.protocol import abilities_of
from powerlink.models.ranking import filtered_ranks, score_tails, score_tails_of
from powerlink.models.session import Session
from powerlink.models.stand_ins import Fit, StandIns
from powerlink.models.training import Trainer, TrainingSettings
from powerlink.pipeline import ExplainSettings, explain_batch
from powerlink.questions import Questions
from powerlink.run.explain_many import explain_many
from powerlink.verify.post_training import PostTraining
from powerlink.verify.verdict import standing_of

N, R = 20, 3
ROWS = random_rows(5, N, R, 60)
QUERIES = [(0, 0, 1), (2, 4, 3), ROWS[0], (7, 2, 8)]
OWN_ORDER = ExplainSettings(select="mask", also_consider="none")


@pytest.fixture(scope="module", params=["complex", "transe", "conve"])
def session(request):
    own = {"filters": 3, "kernel": 2} if request.param == "conve" else {}
    shape = ModelSettings(encoder="none", decoder=request.param, widths=(8,), **own)
    found = Session.of(knowledge_graph(ROWS, N, R), build_model(shape, N, R, 1).eval(), name="none")
    return replace(found, fit=Fit(steps=15, rate=0.2, drawn=0))


@pytest.fixture
def oracle(session):
    return PostTraining.of(session, extract(session.messages, triple_tensor(QUERIES), session.reach))


def number(session, question, gone, foil=None):
    """The number of a question whose ends were fitted without some rows of facts, from the definition."""
    model, own = session.precise, abilities_of(session.precise).retrainable
    stand_ins = StandIns(own, session.messages, session.fit)
    head, relation, tail = question
    table = own.rows().double().clone()
    for end in {head, tail, *([] if foil is None else [foil])}:
        table[end] = stand_ins.rows(torch.tensor([end]), torch.tensor([gone or [-1]]))[0]
    embeddings = own.stood_in(table)
    score = lambda t: float(model.score(embeddings, torch.tensor([[head, relation, t]]))[0])  # noqa: E731
    return score(tail) - (score(foil) if foil is not None else 0.0), embeddings


def own_row(question):
    head, relation, tail = question
    fact = (tail, relation - R, head) if relation >= R else question
    return [ROWS.index(fact)] if fact in ROWS else []


def test_it_says_what_stand_ins_say_and_a_fact_never_explains_itself(session, oracle):
    now = oracle.now()
    for q, question in enumerate(QUERIES):
        assert float(now[q]) == pytest.approx(number(session, question, own_row(question))[0], abs=1e-9)
    assert own_row(QUERIES[2])
    plain = score_tails(session.settled, session.whole, torch.tensor([0]), torch.tensor([0]))[0, 1]
    assert float(now[0]) == pytest.approx(float(plain), abs=1e-5)  # no fact: nothing changes
    for edge in range(0, oracle.graph.num_edges, 3):
        q, fact = int(oracle.graph.query_of_edge[edge]), int(session.messages.fact[oracle.graph.edge[edge]])
        told = oracle.without(torch.tensor([q]), torch.tensor([[edge, -1]]))
        expected, _ = number(session, QUERIES[q], [fact, *own_row(QUERIES[q])])
        assert float(told[0]) == pytest.approx(expected, abs=1e-9)
        if not oracle.sees(torch.tensor([edge]))[0]:
            assert float(told[0]) == float(now[q])


def test_ranks_are_those_of_the_changed_rows(session, oracle):
    edges = oracle.graph.edge_row[:-1]
    told = oracle.standings_without(torch.arange(len(QUERIES)), edges.unsqueeze(1))
    for q, question in enumerate(QUERIES):
        gone = [int(session.messages.fact[oracle.graph.edge[edges[q]]]), *own_row(question)]
        expected, changed = number(session, question, gone)
        own, (head, relation, tail) = abilities_of(session.precise).retrainable, question
        table = own.rows().double().clone()
        table[tail] = torch.cat(
            [changed.entity[tail], *([] if changed.bias is None else [changed.bias[tail : tail + 1]])]
        )
        candidates = own.stood_in(table)  # all but the tail are as they were, the head among them
        logits = score_tails_of(session.precise, changed, candidates, torch.tensor([head]), torch.tensor([relation]))
        rank = filtered_ranks(logits.float(), triple_tensor([question]), session.known)
        assert float(told.score[q]) == pytest.approx(expected, abs=1e-5)
        level = int(((logits - logits[0, question[2]]).abs() < 1e-5).sum()) - 1  # what float32 cannot tell apart
        assert abs(float(told.rank[q]) - float(rank[0])) <= level
    base = standing_of(session, triple_tensor(QUERIES))
    assert base.score.tolist() == pytest.approx(oracle.now().tolist(), abs=1e-5)


def test_a_foil_is_fitted_again_too(session):
    foils = torch.tensor([5, -1, 6, 2])
    graph = extract(session.messages, triple_tensor(QUERIES), 1, foils)
    oracle = PostTraining.of(session, graph)
    at_foil = (graph.target == graph.foil[graph.query_of_edge]).nonzero().squeeze(1)[:1]
    q, fact = int(graph.query_of_edge[at_foil]), int(session.messages.fact[graph.edge[at_foil]])
    foil = int(foils[q])
    held = [row for row in own_row((QUERIES[q][0], QUERIES[q][1], foil))]
    told = oracle.without(torch.tensor([q]), at_foil.unsqueeze(1))
    expected, _ = number(session, QUERIES[q], [fact, *own_row(QUERIES[q]), *held], foil)
    assert float(told[0]) == pytest.approx(expected, abs=1e-9)


def test_an_explanation_does_not_depend_on_its_batch(session):
    queries = triple_tensor(QUERIES)
    together = explain_batch(session, queries, settings=ExplainSettings(candidates=6))
    for q, one in enumerate(together):
        (alone,) = explain_batch(session, queries[q : q + 1], settings=ExplainSettings(candidates=6))
        assert [piece.facts for piece in alone.evidence] == [piece.facts for piece in one.evidence]
        for mine, theirs in zip(alone.evidence, one.evidence, strict=True):
            assert mine.together == pytest.approx(theirs.together, abs=1e-6)


@pytest.mark.parametrize(
    "explainer",
    [Kelpie(facts=4, most=2), Kelpie(facts=4, most=2, around="both"), SubgraphX(budget=6, rollouts=2), Random(), None],
)
def test_these_explain_models_without_messages(session, explainer):
    told = explain_many(session, triple_tensor(QUERIES), explainer=explainer, settings=ExplainSettings(candidates=6))
    assert {one.status.value for one in told} <= {"explained", "faint", "no_effect", "no_path"}
    assert any(one.evidence for one in told)
    assert all(one.made_by.reading == "post-training: 15 steps of Adam at 0.2, all wrong answers" for one in told)


@pytest.mark.parametrize("explainer", [PowerLink(steps=1)])
def test_who_weighs_messages_is_refused(session, explainer):
    with pytest.raises(ExplainerError, match="weighs messages, and the model passes none: take slopes"):
        explain_batch(session, triple_tensor(QUERIES), explainer=explainer)
    with pytest.raises(SettingsError, match="the paper's figures weigh messages"):
        explain_batch(session, triple_tensor(QUERIES), settings=ExplainSettings(metrics="paper"))


PEOPLE, TOWNS, TONGUES, HOBBIES = 70, 8, 4, 9


@pytest.fixture(scope="module", params=["complex", "distmult", "transe"])
def learned(request):
    """A model that has learned: who is born in a town speaks its tongue, and nothing else decides it."""
    drawn = np.random.default_rng(1)
    names = [f"p{i}" for i in range(PEOPLE)] + [f"town{i}" for i in range(TOWNS)]
    names += [f"tongue{i}" for i in range(TONGUES)] + [f"hobby{i}" for i in range(HOBBIES)]
    town, tongue, hobby = PEOPLE, PEOPLE + TOWNS, PEOPLE + TOWNS + TONGUES
    rows, held = [], []
    for person in range(PEOPLE):
        born = int(drawn.integers(TOWNS))
        rows.append((person, 0, town + born))
        rows += [(person, 1, hobby + int(h)) for h in drawn.choice(HOBBIES, 3, replace=False)]
        rows += [(person, 3, int(friend)) for friend in drawn.choice(PEOPLE, 2, replace=False) if friend != person]
        (held if person % 5 == 0 else rows).append((person, 2, tongue + born % TONGUES))
    facts = [np.array(list(dict.fromkeys(part)), dtype=np.int64).reshape(-1, 3) for part in (rows, [], held)]
    graph = KnowledgeGraph(
        "people", Names("entity", tuple(names)), Names("relation", ("born", "likes", "speaks", "knows")), *facts
    )
    model = build_model(ModelSettings(encoder="none", decoder=request.param, widths=(24,)), len(names), 4, 0)
    trainer = Trainer(model, graph, TrainingSettings(lr=0.02, batch_size=64, label_smoothing=0.0), "cpu")
    for _ in range(60):
        trainer.epoch += 1
        trainer.train_epoch()
    return Session.of(graph, model.eval(), name=request.param)


def right(learned):
    """Held-out questions that the model answers rightly."""
    queries = torch.from_numpy(learned.graph.test.copy())
    return queries[standing_of(learned, Questions(queries)).rank == 1]


def decided_by_birth(piece):
    return any(fact.relation == "born" for fact in piece.facts)


def test_kelpie_names_the_fact_that_decides_first(learned):
    queries = right(learned)
    assert len(queries) >= 8
    told = explain_many(learned, queries, explainer=Kelpie(), settings=OWN_ORDER)
    assert sum(decided_by_birth(one.evidence[0]) for one in told) / len(told) >= 0.9


@pytest.mark.parametrize("explainer", [None, Kelpie(mode="sufficient")], ids=["default", "kelpie, sufficient"])
def test_the_fact_that_decides_is_shown(learned, explainer):
    settings = ExplainSettings() if explainer is None else OWN_ORDER
    told = explain_many(learned, right(learned), explainer=explainer, settings=settings)
    assert sum(any(map(decided_by_birth, one.evidence)) for one in told) / len(told) >= 0.7


def test_first_order_influence_goes_with_what_fits_tell(learned):
    graph = extract(learned.messages, right(learned)[:6], 1)
    oracle, slopes = PostTraining.of(learned, graph), fact_slopes(learned.settled, graph)
    alike = []
    for query in range(graph.num_queries):
        own = ((graph.target == graph.head[query]) | (graph.target == graph.tail[query])).nonzero().squeeze(1)
        falls = oracle.now()[query] - oracle.without(torch.full_like(own, query), own.unsqueeze(1))
        alike.append(float(torch.corrcoef(torch.stack([falls, slopes[own].double()]))[0, 1]))
    assert sum(alike) / len(alike) > (0.2 if learned.name == "transe" else 0.6)  # distances have corners, not curves


def test_the_sufficient_mode_needs_a_model_without_messages():
    from powerlink.testing import small_session  # noqa: PLC0415 - only here

    with pytest.raises(SettingsError, match="take the necessary mode"):
        explain_many(small_session(), torch.tensor([(0, 0, 1)]), explainer=Kelpie(mode="sufficient"))
