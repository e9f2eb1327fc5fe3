"""Whatever the graph and whatever is asked: an explanation is true, to be checked by deleting its facts for real."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import fact_lists, knowledge_graph, known_tails, messages_of, model_of, naive_rank, triple_tensor
from powerlink.explainers.floor import Gradient, Random
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explanation import Status
from powerlink.models.session import Session
from powerlink.pipeline import ExplainSettings
from powerlink.pipeline import explain_batch as explain

N, R = 8, 2
MODELS = {
    (name, layers): model_of(*name.split("-"), layers, N, R)
    for name in ("rgcn-distmult", "wgcn-transe", "compgcn-conve")
    for layers in (1, 2)
}
QUERIES = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, 2 * R - 1), st.integers(0, N - 1)), min_size=1, max_size=4
)
SETTINGS = st.builds(
    ExplainSettings,
    paths=st.integers(1, 3),
    max_length=st.integers(1, 4),
    hub_limit=st.sampled_from([0, 4, 200]),
    core=st.integers(0, 2),
    select=st.sampled_from(["carried", "largest-drop", "mask"]),
    also_consider=st.sampled_from(["cheap", "slopes", "none"]),
    cost=st.sampled_from(["inverse", "log"]),
)
EXPLAINERS = st.sampled_from([Random(), Gradient(), PowerLink(steps=2, hidden=4)])


def number(name):
    return int(name[1:])


def standing(model, rows, removed, query):
    """Score and filtered rank on the graph without some facts. Norms stay those of the whole graph."""
    head, relation, tail = query
    asked = (head, relation, tail) if relation < R else (tail, relation - R, head)
    gone = {*removed, asked}
    messages = messages_of(rows, N, R)
    weight = torch.tensor([float(rows[fact] not in gone) for fact in messages.fact.tolist()])
    with torch.no_grad():
        embeddings = model.encode(messages, weight)
        logits = model.score_tails(embeddings, torch.tensor([head]), torch.tensor([relation]))[0].tolist()
    return logits[tail], naive_rank(logits, tail, known_tails(rows, R).get((head, relation), set()))


def shortest(rows, query):
    """The fewest hops between head and tail without the fact in question; None if there is no way."""
    head, relation, tail = query
    asked = (head, relation, tail) if relation < R else (tail, relation - R, head)
    reached, hops = {head}, 0
    while tail not in reached:
        ends = [(h, t) for h, r, t in rows if (h, r, t) != asked]
        grown = reached | {t for h, t in ends if h in reached} | {h for h, t in ends if t in reached}
        if grown == reached:
            return None
        reached, hops = grown, hops + 1
    return hops


@settings(max_examples=60)
@given(fact_lists(N, R, 18), QUERIES, st.sampled_from(sorted(MODELS)), SETTINGS, EXPLAINERS)
def test_an_explanation_says_what_deleting_its_facts_does(rows, queries, name, how, explainer):
    model = MODELS[name]
    session = Session.of(knowledge_graph(rows, N, R), model)
    for query, told in zip(
        queries, explain(session, triple_tensor(queries), explainer=explainer, settings=how), strict=True
    ):
        score, rank = standing(model, rows, [], query)
        assert told.score == pytest.approx(score, abs=1e-8)
        assert told.rank == rank
        removed = []
        for path in told.paths:
            own = [(number(f.head), number(f.relation), number(f.tail)) for f in path.facts]
            assert all(fact in rows for fact in own)
            assert path.facts[0].source == told.query.head
            assert path.facts[-1].target == told.query.tail
            score, rank = standing(model, rows, own, query)
            assert path.score_without == pytest.approx(score, abs=1e-8)
            assert path.rank_without == rank
            removed += own
        if told.paths:
            score, rank = standing(model, rows, removed, query)
            assert told.without_all.score == pytest.approx(score, abs=1e-8)
            assert told.without_all.rank == rank
        hops = shortest(rows, query)
        degree = sum(query[0] in (h, t) for h, _, t in rows), sum(query[2] in (h, t) for h, _, t in rows)
        if query[0] == query[2]:
            assert told.status == Status.HEAD_IS_TAIL
        elif not all(degree):
            assert told.status == Status.ENTITY_WITHOUT_FACTS
        elif hops is None or hops > how.max_length:
            assert told.status == Status.NO_PATH
        elif hops <= 2 * name[1] + 1:  # within the computation graph: as many hops from either side, and one between
            assert told.status != Status.NO_PATH
        if told.status == Status.NO_EFFECT:
            assert how.select != "mask"
