"""KE-X's terms against loops over queries in float64, and what it learns on models that can be looked into."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import powerlink
from builders import MessageSum, computation_graph, fact_lists, messages_of, model_of, random_rows, removal, settings_of
from powerlink.evidence import fact_of
from powerlink.explainers.learned.kex import (
    KEX,
    StrongestFacts,
    candidate_tails,
    filling,
    over_budget,
    tail_entropy,
)
from powerlink.explainers.learned.terms import keep_prediction
from powerlink.explainers.protocol import Wish
from powerlink.graphs.computation_graph import extract
from powerlink.kernels.segments import segment_sum
from powerlink.models.link_model import build_model
from powerlink.models.session import Session
from powerlink.models.training import Trainer, TrainingSettings
from powerlink.pipeline import ExplainSettings, explain_batch
from powerlink.pipeline import computation_graph as computation_graph_of
from powerlink.run.explain_many import explain_many
from powerlink.run.remake import explainer_of
from powerlink.testing import small_session
from powerlink.testing.small_world import WORLD_QUERIES, graph_of
from powerlink.verify.oracle import Removal

N, R = 6, 2
QUERIES = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, 2 * R - 1), st.integers(0, N - 1)).filter(lambda q: q[0] != q[2]),
    min_size=1,
    max_size=3,
)
WISH = Wish(count=10, min_length=1, max_length=3)


def pruned_graph(rows, queries, pruned):
    graph = computation_graph(rows, N, R, queries, 2)
    return graph.pruned_to(torch.arange(graph.num_edges) % 4 != 0) if pruned else graph


def direct_tails(model, graph, q, rivals):
    """The tail and its strongest rivals, by trying all nodes of the query."""
    encoded, head, tail = model.encode(graph.everywhere), int(graph.head[q]), int(graph.tail[q])
    relation = int(graph.queries[q, 1])
    known = {
        int(graph.target[e])
        for e in range(graph.num_edges)
        if int(graph.source[e]) == head and int(graph.relation[e]) == relation
    }
    nodes = [v for v in range(graph.num_nodes) if int(graph.query_of_node[v]) == q and v != tail and v not in known]
    strength = {v: model.score(encoded, torch.tensor([[head, relation, v]])).item() for v in nodes}
    return [tail, *sorted(nodes, key=lambda v: (-strength[v], v))[:rivals]]


def direct_entropy(model, graph, q, tails, mask):
    weight = torch.zeros(graph.num_edges, dtype=torch.float64).index_copy(0, graph.kept_edges.index, mask)
    encoded = model.encode(graph.everywhere, weight)
    asked = [[int(graph.head[q]), int(graph.queries[q, 1]), tail] for tail in tails]
    chance = torch.softmax(model.score(encoded, torch.tensor(asked)), dim=0)
    return -(chance * chance.log()).sum()


@settings(max_examples=30)
@given(fact_lists(N, R, 14), QUERIES, st.integers(0, 10**6), st.integers(1, 4), st.booleans())
def test_the_doubt_about_the_tails_and_its_gradient_are_those_of_a_loop(rows, queries, seed, rivals, pruned):
    graph, model = pruned_graph(rows, queries, pruned), model_of("compgcn", "distmult", 2, N, R)
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(graph.kept_edges.num_edges, dtype=torch.float64, generator=generator)
    logits.requires_grad_()
    fast = tail_entropy(model, graph, rivals)(logits)
    owner, triples = candidate_tails(model, graph, rivals)
    slow = []
    for q in range(len(queries)):
        tails = direct_tails(model, graph, q, rivals)
        assert triples[owner == q, 2].tolist() == tails
        slow.append(direct_entropy(model, graph, q, tails, torch.sigmoid(logits)))
    slow = torch.stack(slow)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    one, other = (torch.autograd.grad(loss.sum(), logits, allow_unused=True)[0] for loss in (fast, slow))
    other = torch.zeros_like(logits) if other is None else other
    torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


class Plain:
    """A model that can do no more than a model must."""

    def __init__(self, model):
        self.num_layers, self.encode, self.score = model.num_layers, model.encode, model.score


def test_a_rival_is_encoded_in_full_also_by_models_that_prepare_nothing():
    """Of a graph with levels a model computes head and tail in full, and others only as far as those two need."""
    graph, model = pruned_graph(random_rows(1, N, R, 12), [(0, 0, 1)], False), model_of("wgcn", "distmult", 2, N, R)
    assert graph.level.max() > 0
    logits = torch.linspace(-1, 1, graph.num_edges, dtype=torch.float64)
    expected = direct_entropy(model, graph, 0, direct_tails(model, graph, 0, 9), torch.sigmoid(logits))
    torch.testing.assert_close(tail_entropy(Plain(model), graph, 9)(logits), expected.unsqueeze(0))


def test_known_tails_are_no_rivals_and_a_foil_always_is_one():
    rows = [(0, 0, 2), (0, 0, 3), (1, 0, 4), (2, 1, 1), (3, 1, 4), (4, 1, 5)]
    graph, model = computation_graph(rows, N, R, [(0, 0, 1)], 2), MessageSum([0.0, 0.0, 9.0, 8.0, 7.0, 6.0])
    entities = lambda found: graph.entity[found[1][:, 2]].tolist()  # noqa: E731
    assert entities(candidate_tails(model, graph, 1)) == [1, 4], "facts of the graph name 2 and 3"
    held = extract(messages_of(rows, N, R), torch.tensor([(0, 0, 1), (1, 0, 3)]), 2, torch.tensor([5, -1]))
    owner, triples = candidate_tails(model, held, 1)
    assert (owner.tolist(), held.entity[triples[:, 2]].tolist()[:2]) == ([0, 0, 1, 1], [1, 5])


def test_the_budget_costs_its_share_above_and_nothing_below():
    graph = graph_of(small_session(), WORLD_QUERIES)
    logits = torch.linspace(-3, 3, graph.kept_edges.num_edges, dtype=torch.float64)
    budget = torch.tensor([5.0, 3.0, 40.0, 5.0, 2.0, 1.0])
    found = over_budget(graph, budget)(logits).tolist()
    for q, own in enumerate(found):
        total = torch.sigmoid(logits[graph.kept_edges.query == q]).sum().item()
        assert own == pytest.approx(max(0.0, total / budget[q].item() - 1))
    assert 0 in found
    assert max(found) > 0.5


def test_of_small_graphs_a_share_may_be_spent_and_the_mask_begins_there():
    graph = graph_of(small_session(), WORLD_QUERIES)
    kept = torch.bincount(graph.kept_edges.query, minlength=graph.num_queries)
    assert kept.max() > 40
    assert KEX(budget=9, share=0.2).budget_of(graph).tolist() == [
        min(9, max(4, math.ceil(k / 5))) for k in kept.tolist()
    ]
    assert KEX(budget=2, share=0.2).budget_of(graph).tolist() == [2] * len(kept), "the budget is the most there is"
    budget = KEX(share=0.2).budget_of(graph)
    total = segment_sum(torch.sigmoid(filling(graph, budget)), graph.kept_edges.query, graph.num_queries)
    torch.testing.assert_close(total, torch.minimum(budget, kept / 2))


@pytest.fixture(scope="module")
def atlas():
    """A trained model of the bundled graph, and what it sees of test facts."""
    facts = powerlink.load_graph("atlas")
    model = build_model(
        settings_of("compgcn", "distmult", 2, widths=(32,) * 3), facts.num_entities, facts.num_relations
    )
    training = TrainingSettings(epochs=20, batch_size=256, lr=0.01, evaluate_every=100)
    list(Trainer(model, facts, training, "cpu").run())
    session = Session.of(facts, model.eval())
    return session, computation_graph_of(session, torch.from_numpy(facts.test.copy())[:12], ExplainSettings())


def told_of(session, graph, mask):
    """The entropy over the tails, the tail's probability, and the sum of a mask (E,): (Q,) each."""
    logits = torch.logit(mask.double().clamp(1e-9, 1 - 1e-9)).float()
    with torch.no_grad():
        doubt = tail_entropy(session.settled, graph, KEX().rivals)(logits)
        kept = torch.exp(-keep_prediction(session.settled, graph)(logits))
    return doubt, kept, segment_sum(mask.double(), graph.kept_edges.query, graph.num_queries)


def learned(session, graph, how):
    return how.score_edges(session.settled, graph, 0).values[graph.kept_edges.index]


def test_the_mask_leaves_less_doubt_keeps_the_prediction_and_stays_within_its_budget(atlas):
    session, graph = atlas
    edges = graph.kept_edges.num_edges
    empty, full = (told_of(session, graph, torch.full((edges,), float(weight))) for weight in (0, 1))
    doubt, kept, total = told_of(session, graph, learned(session, graph, KEX()))
    assert (doubt < empty[0] - 0.1).all()
    assert doubt.mean() < 0.7 * empty[0].mean()
    assert kept.mean() > 0.75 * full[1].mean() > 5 * empty[1].mean()
    assert (total <= 1.1 * KEX().budget_of(graph)).all()
    assert (KEX().budget_of(graph) == 100).all(), "of some thousand edges"


def test_more_weight_on_the_gain_leaves_less_doubt(atlas):
    session, graph = atlas
    without, much = (told_of(session, graph, learned(session, graph, KEX(gain_weight=w)))[0] for w in (0.0, 3.0))
    assert much.mean() < without.mean() - 0.05


def test_the_subgraph_alone_says_most_of_what_the_graph_says(atlas):
    """Whole facts instead of weights: the strongest of them, and nothing else."""
    session, graph = atlas
    mask, oracle = KEX().score_edges(session.settled, graph, 0).values, Removal.of(session, graph)
    strength = torch.maximum(mask, mask[graph.reverse])
    strongest = StrongestFacts.of(oracle, graph, strength, KEX().budget_of(graph))
    empty, full = (told_of(session, graph, torch.full((graph.kept_edges.num_edges,), float(w))) for w in (0, 1))
    inside = strongest.subgraph(graph).kept
    doubt, kept, total = told_of(session, graph, inside[graph.kept_edges.index].float())
    assert (total == 200).all(), "a hundred facts, both directions"
    assert doubt.mean() < 0.7 * empty[0].mean()
    assert kept.mean() > 0.75 * full[1].mean()
    for q in range(graph.num_queries):
        own = (graph.query_of_edge == q) & graph.kept & graph.kept[graph.reverse]
        own &= graph.visible(torch.arange(graph.num_edges), 2)
        assert strength[own & inside].min() >= strength[own & ~inside].max()


def test_no_fact_is_named_that_only_rivals_see():
    graph = computation_graph(random_rows(2, N, R, 12), N, R, [(0, 0, 1), (2, 1, 3)], 2)
    model = MessageSum([0.5, 1.0, -0.5, 2.0, 0.25, 1.5], num_layers=1)
    seen = graph.visible(torch.arange(graph.num_edges), 1)
    assert not seen.all()
    everything = torch.tensor([graph.num_edges] * 2)
    found = StrongestFacts.of(removal(model, graph), graph, torch.ones(graph.num_edges), everything)
    assert torch.equal(found.subgraph(graph).kept, seen)


def test_it_names_paths_of_the_subgraph_and_then_its_strongest_facts(atlas):
    session, graph = atlas
    how, oracle = KEX(steps=10, facts=3), Removal.of(session, graph)
    proposal = how.propose(oracle, graph, WISH, 0)
    evidence, mask = proposal.evidence, proposal.mask
    strength = torch.maximum(mask, mask[graph.reverse])
    inside = StrongestFacts.of(oracle, graph, strength, how.budget_of(graph)).subgraph(graph).kept
    assert inside[evidence.edges[evidence.edges >= 0]].all()
    for q in range(graph.num_queries):
        own = evidence.select((evidence.query == q).nonzero().squeeze(1))
        assert own.count <= WISH.count
        assert own.is_path.tolist() == sorted(own.is_path.tolist(), reverse=True), "paths come first"
        for piece, path in zip(own.edges, own.is_path, strict=True):
            if not path:
                facts = fact_of(graph, ((graph.query_of_edge == q) & inside).nonzero().squeeze(1)).unique()
                best = facts[strength[facts].argsort(descending=True)[:3]]
                assert sorted(piece[piece >= 0].tolist()) == sorted(best.tolist())
    assert 0 < int(evidence.is_path.sum()) < evidence.count
    few = how.propose(oracle, graph, replace(WISH, count=1), 0).evidence
    assert torch.bincount(few.query).max() == 1


def test_queries_without_a_path_still_have_their_strongest_facts():
    alone = ExplainSettings(also_consider="none", select="mask", core=0)
    told = explain_batch(small_session(), WORLD_QUERIES, explainer=KEX(steps=5), settings=alone)
    assert [piece.kind for piece in told[5].evidence] == ["set"], "nothing connects its head and tail"
    assert all(piece.proposed_by == "ke-x" for e in told for piece in e.evidence)
    assert {piece.kind for e in told for piece in e.evidence} == {"path", "set"}


@pytest.mark.parametrize("select", ["carried", "largest-drop"])
def test_what_it_names_is_judged_like_any_other_and_the_papers_figures_are_measured(select):
    settings = ExplainSettings(select=select, core=0, metrics="paper")
    told = explain_many(small_session(), WORLD_QUERIES, explainer=KEX(steps=5, facts=2), settings=settings)
    assert all(e.paper is not None for e in told if e.evidence)
    assert explainer_of(told[0].made_by) == KEX(steps=5, facts=2), "they can be measured later as well"


def test_the_model_receives_no_gradient_and_no_weight_is_asked_for_nothing():
    session = small_session()
    graph = graph_of(session, WORLD_QUERIES[:2])
    nothing = KEX(gain_weight=0, prediction_weight=0, size_weight=0, entropy_weight=0)
    assert torch.equal(learned(session, graph, nothing), learned(session, graph, replace(nothing, steps=0)))
    learned(session, graph, KEX(steps=2))
    assert all(parameter.grad is None for parameter in session.model.parameters())
