"""The peers' losses, gradients and inner paths against direct float64 computations."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from builders import computation_graph, fact_lists, model_of
from powerlink.errors import DataError, MismatchError, SettingsError
from powerlink.explainers.learned.gnn_explainer import GNNExplainer
from powerlink.explainers.learned.learner import total_loss
from powerlink.explainers.learned.masks import FreeLogits, initial_weights
from powerlink.explainers.learned.page_link import BestPaths, PaGELink
from powerlink.explainers.learned.pg_explainer import PairScorer, PGExplainer, PGFitting, Relaxed
from powerlink.explainers.learned.terms import keep_prediction, mask_entropy, mask_sum
from powerlink.kernels.keyed_random import keys_of
from powerlink.models.session import Session
from powerlink.paths.propose import propose
from powerlink.run.fitting import GraphBatches, fit_explainer, spread_over
from powerlink.testing import small_session
from powerlink.testing.small_world import PRUNING, WORLD_QUERIES, graph_of

N, R, WIDTH = 6, 2, 4
QUERIES = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, 2 * R - 1), st.integers(0, N - 1)).filter(lambda q: q[0] != q[2]),
    min_size=1,
    max_size=3,
)
GRAPHS = given(fact_lists(N, R, 14), QUERIES, st.integers(0, 10**6), st.booleans())


def graph_of_facts(rows, queries, pruned):
    graph = computation_graph(rows, N, R, queries, 2)
    if pruned:
        graph = graph.pruned_to(torch.arange(graph.num_edges) % 4 != 0)
    generator = torch.Generator().manual_seed(1)
    entity = torch.randn(N, WIDTH, dtype=torch.float64, generator=generator)
    return graph.with_features(entity, torch.randn(2 * R, WIDTH, dtype=torch.float64, generator=generator))


def drawn_logits(graph, seed):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(graph.kept_edges.num_edges, dtype=torch.float64, generator=generator)


class Given:
    """A mask whose logits are given."""

    def __init__(self, logits):
        self._logits = logits
        self.parameters = [logits]

    def logits(self):
        return self._logits


def direct_prediction(model, graph, query, mask):
    weight = torch.zeros(graph.num_edges, dtype=torch.float64).index_copy(0, graph.kept_edges.index, mask)
    score = model.score(model.encode(graph.everywhere, weight), graph.triples[query : query + 1])
    return -torch.sigmoid(score).log().sum()


def same_loss_and_gradient(fast, slow, logits):
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    one, other = (torch.autograd.grad(loss.sum(), logits, allow_unused=True)[0] for loss in (fast, slow))
    other = torch.zeros_like(logits) if other is None else other
    torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


@settings(max_examples=25)
@GRAPHS
def test_the_loss_of_gnn_explainer_and_its_gradient(rows, queries, seed, pruned):
    graph, model = graph_of_facts(rows, queries, pruned), model_of("compgcn", "distmult", 2, N, R)
    logits = drawn_logits(graph, seed).requires_grad_()
    terms = [(1.3, keep_prediction(model, graph)), (0.2, mask_sum(graph)), (0.7, mask_entropy(graph))]
    fast = total_loss(Given(logits), terms)
    slow = []
    for q in range(len(queries)):
        mask = torch.sigmoid(logits)
        own = mask[graph.kept_edges.query == q]
        entropy = -own * own.log() - (1 - own) * (1 - own).log()
        mean = entropy.mean() if own.numel() else entropy.sum()
        slow.append(1.3 * direct_prediction(model, graph, q, mask) + 0.2 * own.sum() + 0.7 * mean)
    same_loss_and_gradient(fast, torch.stack(slow), logits)


def brute_force_paths(graph, query, cost, longest):
    """Every simple route with its cheapest edges, as (cost, edges), cheapest first, by trying all node sequences."""
    kept = graph.kept_edges.index.tolist()
    cheapest = {}
    for place, e in enumerate(kept):
        if int(graph.query_of_edge[e]) == query:
            pair = (int(graph.source[e]), int(graph.target[e]))
            cheapest[pair] = min(cheapest.get(pair, (math.inf, -1)), (cost[place], e))
    head, tail = int(graph.head[query]), int(graph.tail[query])
    others = [v for v in range(graph.num_nodes) if int(graph.query_of_node[v]) == query and v not in (head, tail)]
    found = []
    for length in range(longest):
        for middle in itertools.permutations(others, length):
            pairs = list(itertools.pairwise([head, *middle, tail]))
            if all(pair in cheapest for pair in pairs):
                total = sum(cheapest[pair][0] for pair in pairs)
                found.append((total, tuple(cheapest[pair][1] for pair in pairs)))
    return sorted(found)


def direct_costs(graph, logits):
    """log in-degree(v) − log w(u, v), its degree part zero at head and tail."""
    costs = []
    for place, e in enumerate(graph.kept_edges.index.tolist()):
        target, query = int(graph.target[e]), int(graph.query_of_edge[e])
        degree = sum(int(graph.target[other]) == target for other in graph.kept_edges.index.tolist())
        ends = (int(graph.head[query]), int(graph.tail[query]))
        costs.append((0.0 if target in ends else math.log(degree)) - math.log(torch.sigmoid(logits[place]).item()))
    return costs


@settings(max_examples=25)
@GRAPHS
def test_the_inner_paths_of_page_link_are_those_of_brute_force(rows, queries, seed, pruned):
    graph = graph_of_facts(rows, queries, pruned)
    logits = drawn_logits(graph, seed)
    term = BestPaths(graph, count=5, longest=3, on=1.0, off=1.0)
    found, costs = term.paths(logits), direct_costs(graph, logits)
    for q in range(len(queries)):
        expected = brute_force_paths(graph, q, costs, 3)[:5]
        mine = [tuple(e for e in found.edges[i].tolist() if e >= 0) for i in (found.query == q).nonzero().flatten()]
        assert mine == [edges for _, edges in expected]
        assert bool(term.active[q]) == bool(expected)


@settings(max_examples=15)
@GRAPHS
def test_page_link_orders_its_paths_by_the_cost_it_learned_by(rows, queries, seed, pruned):
    graph = graph_of_facts(rows, queries, pruned)
    logits = drawn_logits(graph, seed)
    scores = graph.kept_edges.scatter(torch.sigmoid(logits), graph.num_edges)
    found = propose(graph, scores, cost=PaGELink.cost, count=5, min_length=1, max_length=3)
    inner = BestPaths(graph, count=5, longest=3, on=1.0, off=1.0).paths(logits)
    assert found.query.tolist() == inner.query.tolist()
    assert found.edges.tolist() == inner.edges.tolist()


@settings(max_examples=25)
@GRAPHS
def test_the_loss_of_page_link_and_its_gradient(rows, queries, seed, pruned):
    graph, model = graph_of_facts(rows, queries, pruned), model_of("wgcn", "distmult", 2, N, R)
    logits = drawn_logits(graph, seed).requires_grad_()
    term = BestPaths(graph, count=5, longest=3, on=0.8, off=1.7)
    fast = total_loss(Given(logits), [(1.3, keep_prediction(model, graph)), (1.0, term)])
    costs, kept = direct_costs(graph, logits.detach()), graph.kept_edges.index.tolist()
    slow = []
    for q in range(len(queries)):
        mask = torch.sigmoid(logits)
        loss = 1.3 * direct_prediction(model, graph, q, mask)
        on = {e for _, edges in brute_force_paths(graph, q, costs, 3)[:5] for e in edges}
        own = [place for place, e in enumerate(kept) if int(graph.query_of_edge[e]) == q]
        rest = [place for place in own if kept[place] not in on]
        if on:
            loss = loss - 0.8 * mask[[place for place in own if kept[place] in on]].mean()
            loss = loss + (1.7 * mask[rest].mean() if rest else 0.0)
        slow.append(loss)
    same_loss_and_gradient(fast, torch.stack(slow), logits)


@pytest.mark.parametrize("reads", [False, True])
@settings(max_examples=12)
@GRAPHS
def test_the_loss_of_pg_explainers_fit_and_its_gradient(reads, rows, queries, seed, pruned):
    graph, model = graph_of_facts(rows, queries, pruned), model_of("compgcn", "distmult", 2, N, R)
    drawn = initial_weights(keys_of(seed, torch.zeros(1, dtype=torch.long)), (5 + reads) * WIDTH, 3)
    parts = [part.double().requires_grad_() for part in drawn]
    fitting = PGFitting(prediction_weight=1.3, size_weight=0.2, entropy_weight=0.7)
    relaxed = Relaxed(PairScorer(graph, parts), graph, 2.5, keys=(seed, 4))
    fast = total_loss(relaxed, fitting.terms(model, graph)).sum()

    nodes, relations = graph.features
    first, first_bias, second, second_bias, last, last_bias = (part[0] for part in parts)
    mask = torch.zeros(graph.kept_edges.num_edges, dtype=torch.float64)
    for place, e in enumerate(graph.kept_edges.index.tolist()):
        q = int(graph.query_of_edge[e])
        asked = [nodes[graph.head[q]], relations[graph.queries[q, 1]], nodes[graph.tail[q]]]
        own = [relations[graph.relation[e]]] if reads else []
        row = torch.cat([nodes[graph.source[e]], nodes[graph.target[e]], *asked, *own])
        hidden = torch.relu(torch.relu(row @ first + first_bias) @ second + second_bias)
        drawn_logit = (hidden @ last + last_bias).squeeze() + relaxed._noise[place]
        mask = mask.index_put((torch.tensor([place]),), torch.sigmoid(drawn_logit / 2.5))
    slow = torch.zeros((), dtype=torch.float64)
    for q in range(len(queries)):
        own = mask[graph.kept_edges.query == q]
        slow = slow + 1.3 * direct_prediction(model, graph, q, mask) + 0.2 * own.sum()
        if own.numel():
            slow = slow + 0.7 * (-own * own.log() - (1 - own) * (1 - own).log()).mean()
    torch.testing.assert_close(fast, slow, rtol=1e-8, atol=1e-8)
    if graph.kept_edges.num_edges:
        for one, other in zip(torch.autograd.grad(fast, parts), torch.autograd.grad(slow, parts), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)


def test_the_relaxation_draws_from_the_query_and_the_epoch_and_sharpens_with_the_temperature():
    session = small_session()
    graph = graph_of(session, WORLD_QUERIES)
    parts = list(PGFitting(hidden=4, epochs=0).fit(session.settled, [graph], 0).values())
    scorer = PairScorer(graph, parts)

    def drawn(temperature, epoch, own=graph):
        return torch.sigmoid(Relaxed(PairScorer(own, parts), own, temperature, keys=(0, epoch)).logits())

    assert torch.equal(drawn(2.0, 0), drawn(2.0, 0))
    assert not torch.equal(drawn(2.0, 0), drawn(2.0, 1))
    distance = [(drawn(t, 0) - 0.5).abs().mean() for t in (5.0, 1.0, 0.1)]
    assert distance == sorted(distance)
    alone = graph_of(session, WORLD_QUERIES[1:2])
    torch.testing.assert_close(drawn(2.0, 0, alone), drawn(2.0, 0)[graph.kept_edges.query == 1])
    many = torch.stack([drawn(1.0, epoch) for epoch in range(200)])  # the chance of being kept is σ(logit)
    torch.testing.assert_close((many > 0.5).float().mean(0), torch.sigmoid(scorer.logits()), rtol=0, atol=0.17)


def test_the_temperature_falls_by_equal_factors():
    fitting = PGFitting(epochs=3, first_temperature=4.0, last_temperature=1.0)
    assert [fitting._temperature(epoch) for epoch in range(3)] == pytest.approx([4.0, 2.0, 1.0])


def test_free_logits_start_small_and_follow_from_seed_query_and_edge():
    graph = graph_of(small_session(), WORLD_QUERIES)
    start = FreeLogits(graph, seed=3).logits()
    assert start.abs().max() <= 0.1
    twice = [start[graph.kept_edges.query == q] for q in (0, 3)]  # the same query
    assert torch.equal(*twice)
    assert start.unique().numel() > start.numel() / 2


@pytest.mark.parametrize("explainer", [GNNExplainer(steps=3), PaGELink(steps=3)], ids=lambda e: e.name)
def test_the_model_receives_no_gradient(explainer):
    session = small_session()
    explainer.score_edges(session.model, graph_of(session, WORLD_QUERIES[:1]), 0)
    assert all(parameter.grad is None for parameter in session.model.parameters())


# The file of a fit


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    file = tmp_path_factory.mktemp("fit") / "pg.safetensors"
    return fit_explainer(small_session(), WORLD_QUERIES, file, fitting=PGFitting(epochs=3, hidden=4))


def test_a_fit_is_saved_and_loaded_and_follows_from_its_seed(fitted, tmp_path):
    again = fit_explainer(small_session(), WORLD_QUERIES, tmp_path / "again", fitting=PGFitting(epochs=3, hidden=4))
    assert again == fitted
    assert again.fit == fitted.fit != ""
    other = fit_explainer(small_session(), WORLD_QUERIES, tmp_path / "o", fitting=PGFitting(epochs=3, hidden=4), seed=1)
    assert other != fitted


def test_a_fit_does_not_touch_the_model_or_the_generator(tmp_path):
    session = small_session()
    before, state = {k: v.clone() for k, v in session.model.state_dict().items()}, torch.get_rng_state()
    fit_explainer(session, WORLD_QUERIES, tmp_path / "x", fitting=PGFitting(epochs=1, hidden=4))
    assert all(torch.equal(v, before[k]) for k, v in session.model.state_dict().items())
    assert all(parameter.grad is None for parameter in session.model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_without_a_fit_there_is_one_clear_sentence():
    session = small_session()
    with pytest.raises(SettingsError, match=r"must be fitted before it can explain: `powerlink fit MODEL"):
        PGExplainer().score_edges(session.model, graph_of(session, WORLD_QUERIES), 0)
    with pytest.raises(SettingsError, match="must be fitted"):
        PGExplainer().check_fit(session)


def test_weights_of_another_model_are_refused(fitted):
    session = small_session()
    other = Session.of(session.graph, session.model, hash="abc")
    fitted.check_fit(session)
    with pytest.raises(MismatchError, match="was fitted on another model"):
        fitted.check_fit(other)
    graph = graph_of(session, WORLD_QUERIES)
    narrow = graph.with_features(torch.zeros(14, 3), torch.zeros(6, 3))
    with pytest.raises(MismatchError, match="vectors of another width than this model's, which is 3"):
        fitted.score_edges(session.model, narrow, 0)


def damaged(file, how):
    tensors = load_file(file)
    if how == "truncated":
        file.write_bytes(file.read_bytes()[:100])
    elif how == "another's":
        save_file(tensors, file)
    elif how == "missing":
        file.unlink()
    elif how == "not finite":
        save_file(tensors | {"last": tensors["last"] * torch.nan}, file, HEADER)
    elif how == "a part less":
        del tensors["last"]
        save_file(tensors, file, HEADER)


HEADER = {"powerlink": "1", "explainer": "pg-explainer"}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("truncated", "is damaged, or no file of weights"),
        ("another's", "holds weights of nothing powerlink knows"),
        ("missing", "there is no file"),
        ("not finite", "NaN or infinite"),
        ("a part less", "lacks a part"),
    ],
)
def test_a_file_that_is_no_fit_is_refused_in_a_sentence(fitted, tmp_path, how, expected):
    file = tmp_path / "copy.safetensors"
    file.write_bytes(Path(fitted.weights).read_bytes())
    damaged(file, how)
    with pytest.raises(DataError, match=expected) as refused:
        PGExplainer(weights=str(file))
    assert str(file) in str(refused.value)


def test_queries_for_a_fit_are_spread_over_the_facts_and_walked_in_batches():
    facts = torch.arange(30).reshape(10, 3)
    assert spread_over(facts, 4)[:, 0].tolist() == [0, 9, 18, 27]
    assert len(spread_over(facts, 99)) == 10
    with pytest.raises(SettingsError, match="no fact"):
        spread_over(facts[:0], 5)
    batches = GraphBatches(small_session(), torch.tensor([(0, 0, 1), (2, 0, 2), (3, 1, 4)]), PRUNING)
    assert [graph.queries.tolist() for graph in batches] == [[[0, 0, 1], [3, 1, 4]]] * 1
    assert len(list(batches)) == 1, "they can be walked again"
    one_by_one = GraphBatches(small_session(), torch.tensor([(0, 0, 1), (2, 0, 2), (3, 1, 4)]), PRUNING, at_once=1)
    assert [graph.queries.tolist() for graph in one_by_one] == [[[0, 0, 1]], [[3, 1, 4]]]
    assert one_by_one.together
    with pytest.raises(SettingsError, match="no query"):
        PGFitting().fit(small_session().model, [], 0)


def test_a_fit_is_the_same_whether_its_graphs_are_kept_or_made_anew():
    session, fitting = small_session(), PGFitting(epochs=3, hidden=4)
    walked = GraphBatches(session, WORLD_QUERIES, PRUNING, at_once=2)
    assert len(list(walked)) > 1
    anew, kept = (fitting.fit(session.model, graphs, 0) for graphs in (walked, list(walked)))
    for name, part in anew.items():
        assert torch.equal(part, kept[name])
    whole = fitting.fit(session.model, GraphBatches(session, WORLD_QUERIES, PRUNING), 0)
    assert not torch.equal(whole["first"], anew["first"]), "smaller batches are more steps"


def test_only_a_fit_that_reads_relations_tells_parallel_edges_apart(tmp_path):
    session = small_session()
    queries = WORLD_QUERIES
    graph = graph_of(session, queries)
    pairs = torch.stack([graph.source, graph.target], dim=1).unique(dim=0, return_inverse=True)[1]
    parallel = (torch.bincount(pairs)[pairs] > 1) & graph.kept
    assert parallel.any()
    for reads in (False, True):
        fitting = PGFitting(epochs=1, hidden=4, reads_relations=reads)
        explainer = fit_explainer(session, queries, tmp_path / f"{reads}", fitting=fitting, settings=PRUNING)
        values = explainer.score_edges(session.model, graph, 0).values
        alike = all(values[parallel & (pairs == pair)].unique().numel() == 1 for pair in pairs[parallel].unique())
        assert alike != reads
