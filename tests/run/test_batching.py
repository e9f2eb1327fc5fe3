"""Batches: every query once and in order, within the budget, and the same answer whatever the batch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import fact_lists, knowledge_graph, messages_of, random_rows, settings_of, triple_tensor
from powerlink.explainers.floor import Gradient
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explanation import Status
from powerlink.graphs.computation_graph import extract
from powerlink.memory import Budget, Room
from powerlink.models.link_model import build_model
from powerlink.models.session import Session
from powerlink.pipeline import ExplainSettings
from powerlink.run import explain_many as run
from powerlink.run import job as jobs
from powerlink.run.batching import batches
from powerlink.run.executor import Serial
from powerlink.run.job import ExplainJob
from powerlink.run.queries import as_queries
from powerlink.stage_clock import timed
from powerlink.verify import counterfactual

N, R = 14, 3
ROWS = random_rows(3, N, R, 45)
QUERIES = [(i, i % R, (3 * i + 1) % N) for i in range(N)]


@pytest.fixture(scope="module")
def session():
    model = build_model(settings_of("compgcn", "distmult", 2), N, R, 0).eval()
    return Session.of(knowledge_graph(ROWS, N, R), model, "cpu", name="m", hash="h")


def in_batches(session, queries, *, executor=None, **how):
    return [r.explanations for r in run.run_batches(session, queries, ExplainJob.of(**how), executor=executor)]


@given(
    rows=fact_lists(N, R, max_size=40, min_size=1),
    queries=fact_lists(N, R, max_size=30),
    budget=st.integers(1, 200),
    most=st.integers(1, 8),
)
def test_every_query_is_in_one_batch_in_order_and_within_the_budget(rows, queries, budget, most):
    messages = messages_of(rows, N, R)
    runs = batches(messages, triple_tensor(queries), 2, Budget(budget, most))
    assert [tuple(q) for parcel in runs for q in parcel.content.tolist()] == list(queries)
    for part in (parcel.content for parcel in runs):
        assert 1 <= len(part) <= most
        assert len(part) == 1 or extract(messages, part, 2).num_edges <= budget


def test_no_queries_are_no_batches():
    assert batches(messages_of(ROWS, N, R), triple_tensor([]), 2, Budget()) == []


@pytest.mark.parametrize(("budget", "most"), [(1, 32), (60, 32), (10**6, 3)])
def test_explanations_do_not_depend_on_the_batches(session, monkeypatch, budget, most):
    settings = ExplainSettings(paths=3, core=0)
    how = {"settings": settings, "explainer": PowerLink(steps=5)}
    whole = run.explain_many(session, triple_tensor(QUERIES), **how)
    monkeypatch.setattr(jobs, "batches", lambda *args: batches(*args[:3], Budget(budget, most)))
    parts = in_batches(session, triple_tensor(QUERIES), **how)
    assert len(parts) > 1
    again = [explanation for part in parts for explanation in part]
    assert any(e.paths for e in whole)
    for one, other in zip(whole, again, strict=True):
        assert (one.query, one.status, one.considered, one.size) == (
            other.query,
            other.status,
            other.considered,
            other.size,
        )
        assert [p.facts for p in one.paths] == [p.facts for p in other.paths]
        assert one.score == pytest.approx(other.score, abs=1e-5)
        for ours, theirs in zip(one.paths, other.paths, strict=True):
            assert (ours.score, ours.score_without) == pytest.approx((theirs.score, theirs.score_without), abs=1e-5)


def test_an_executor_may_be_given_and_end_with_the_last_batch(session, monkeypatch):
    class Backwards(Serial):
        """Does the last parcel first."""

        def map(self, job, parcels, session):
            return ((i, job.run(session, parcels[i].content)) for i in reversed(range(len(parcels))))

    monkeypatch.setattr(Budget, "of", lambda *args: Budget(queries=3))  # several batches
    queries = triple_tensor(QUERIES)
    serial = in_batches(session, queries, explainer=Gradient())
    other = in_batches(session, queries, explainer=Gradient(), executor=Backwards())
    assert len(serial) > 1
    assert serial == other


def test_a_query_is_answered_the_same_alone_and_among_others(session):
    steps = PowerLink(steps=5)
    many = run.explain_many(session, triple_tensor(QUERIES), explainer=steps)
    names = session.graph
    for (head, relation, tail), among in zip(QUERIES[:4], many, strict=False):
        named = names.entities[head], names.relations[relation], names.entities[tail]
        alone = run.explain(session, *named, explainer=steps)
        assert [p.facts for p in alone.paths] == [p.facts for p in among.paths]


def test_asking_for_heads_asks_through_the_inverse(session):
    facts = torch.tensor([[1, 2, 3]])
    assert as_queries(session, facts, rank_heads=True).tolist() == [[3, 2 + R, 1]]
    assert as_queries(session, [("e1", "r2", "e3")]).tolist() == [[1, 2, 3]]
    assert as_queries(session, []).shape == (0, 3)
    assert run.explain_many(session, []) == []


def test_a_batch_that_does_not_fit_is_halved_and_nothing_is_lost(session, monkeypatch):
    how = {"explainer": Gradient()}
    whole = run.explain_many(session, triple_tensor(QUERIES), **how)
    sizes, real = [], jobs.explain_in_ways

    def small_memory(session, batch, ways, **kwargs):
        sizes.append(len(batch))
        if len(batch) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(session, batch, ways, **kwargs)

    monkeypatch.setattr(jobs, "explain_in_ways", small_memory)
    again = run.explain_many(session, triple_tensor(QUERIES), **how)
    assert sizes[0] == len(QUERIES)
    assert max(size for size in sizes if size <= 3) == 3
    assert [e.query for e in again] == [e.query for e in whole]
    assert [[p.facts for p in e.paths] for e in again] == [[p.facts for p in e.paths] for e in whole]


def test_a_query_that_does_not_fit_alone_has_a_status_and_other_faults_are_not_hidden(session, monkeypatch):
    def raising(error):
        def explain_batch(*_args, **_kwargs):
            raise error

        return explain_batch

    monkeypatch.setattr(jobs, "explain_in_ways", raising(RuntimeError("DefaultCPUAllocator: can't allocate memory")))
    found = run.explain_many(session, triple_tensor(QUERIES))
    assert [(e.status, e.score, e.evidence) for e in found] == [(Status.TOO_LARGE, None, ())] * len(QUERIES)
    assert all(e.made_by for e in found)
    monkeypatch.setattr(jobs, "explain_in_ways", raising(RuntimeError("shapes do not match")))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        run.explain_many(session, triple_tensor(QUERIES))


@pytest.mark.parametrize("select", ["carried", "largest-drop", "mask"])
def test_with_hardly_any_memory_every_stage_goes_piece_by_piece_and_says_the_same(session, monkeypatch, select):
    how = {"settings": ExplainSettings(paths=3, core=0, max_length=4, select=select), "explainer": PowerLink(steps=5)}
    queries = triple_tensor(QUERIES)
    (whole,) = in_batches(session, queries, **how)
    scenarios, real = [], counterfactual.what_if

    def counted(graph, removals, *args, **kwargs):
        scenarios.append(removals.num_scenarios)
        return real(graph, removals, *args, **kwargs)

    monkeypatch.setattr(counterfactual, "what_if", counted)
    monkeypatch.setattr(jobs, "budget_for", lambda *_, **__: Budget(1, room=Room(1, 1)))
    parts = in_batches(session, queries, **how)
    assert [len(part) for part in parts] == [1] * len(QUERIES)
    assert max(scenarios) == 1  # one scenario at a time
    for one, (other,) in zip(whole, parts, strict=True):
        assert [p.facts for p in one.paths] == [p.facts for p in other.paths]
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.without_top.keys() == other.without_top.keys()
        for m, outcome in one.without_top.items():
            assert outcome.score == pytest.approx(other.without_top[m].score, abs=1e-5)
            assert outcome.rank == other.without_top[m].rank
        if one.paper:
            assert one.paper.rank_without_top == other.paper.rank_without_top


def test_a_clock_counts_the_stages(session):
    with timed() as seconds:
        run.explain_many(session, triple_tensor(QUERIES), explainer=Gradient())
    expected = {
        "rank the prediction",
        "extract and prune",
        "score edges",
        "search paths",
        "choose paths",
        "judge",
        "tell",
    }
    assert expected <= seconds.keys()
    assert all(took.clock > 0 for took in seconds.values())
