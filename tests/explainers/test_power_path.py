"""The path term against an enumeration of every walk."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import computation_graph, fact_lists
from powerlink.explainers.learned.path_terms import PowerPath

N, R = 5, 2
QUERIES = st.lists(
    st.tuples(st.integers(0, N - 1), st.just(0), st.integers(0, N - 1)).filter(lambda q: q[0] != q[2]),
    min_size=1,
    max_size=3,
)


def walks(graph, query, length):
    """Every walk of kept edges from head to tail, as positions among the kept edges. Nodes may come again."""
    edges = graph.kept_edges
    leaving = {}
    for position, (source, target) in enumerate(zip(edges.source.tolist(), edges.target.tolist(), strict=True)):
        leaving.setdefault(source, []).append((position, target))
    frontier = [(int(graph.head[query]), ())]
    for _ in range(length):
        frontier = [(t, (*walk, e)) for node, walk in frontier for e, t in leaving.get(node, ())]
    return [walk for node, walk in frontier if node == int(graph.tail[query])]


def naive(graph, query, mask, shortest, longest):
    """P_on by Eqs. 5–9: the mean over lengths that have a walk; None if none has."""
    means = []
    for length in range(shortest, longest + 1):
        found = walks(graph, query, length)
        if found:
            mean = sum(math.prod(mask[e] for e in walk) for walk in found) / len(found)
            means.append(mean ** (1 / length))
    return sum(means) / len(means) if means else None


def drawn_logits(graph, seed):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(graph.kept_edges.num_edges, dtype=torch.float64, generator=generator)


@settings(max_examples=60)
@given(fact_lists(N, R, 8), QUERIES, st.integers(2, 4), st.integers(1, 2), st.integers(0, 10**6), st.booleans())
def test_the_on_path_probability_equals_an_enumeration_of_walks(rows, queries, longest, shortest, seed, pruned):
    graph = computation_graph(rows, N, R, queries, 2)
    if pruned:
        graph = graph.pruned_to(torch.arange(graph.num_edges) % 3 != 0)
    logits = drawn_logits(graph, seed)
    term = PowerPath(graph, longest, shortest)
    loss = term(logits)
    found = (-loss).exp()
    assert (found[term.active] <= 1 + 1e-12).all()
    for q in range(len(queries)):
        expected = naive(graph, q, torch.sigmoid(logits).tolist(), shortest, longest)
        assert bool(term.active[q]) == (expected is not None)
        if expected is None:
            assert loss[q] == 0
        else:
            assert found[q].item() == pytest.approx(expected, rel=1e-9)
            assert loss[q].item() == pytest.approx(-math.log(expected), rel=1e-9, abs=1e-9)


def test_a_walk_through_the_tail_and_back_counts_as_a_walk():
    rows = [(0, 0, 1), (1, 1, 1), (1, 0, 2)]  # head 0, tail 1 with a self-loop, and a spur to 2
    graph = computation_graph(rows, 3, 2, [(0, 1, 1)], 2)
    lengths = [len(walks(graph, 0, length)) for length in (1, 2, 3)]
    assert lengths[0] == 1
    assert lengths[1] == 2  # the self-loop and its inverse
    assert lengths[2] >= 4 + 1
    logits = drawn_logits(graph, 0)
    expected = naive(graph, 0, torch.sigmoid(logits).tolist(), 1, 3)
    assert (-PowerPath(graph, 3, 1)(logits)).exp().item() == pytest.approx(expected, rel=1e-9)


def test_masks_of_one_give_a_probability_of_one():
    rows = [(0, 0, 1), (1, 0, 2), (0, 1, 1), (0, 1, 3), (3, 0, 1), (1, 1, 2)]
    graph = computation_graph(rows, 4, 2, [(0, 0, 2)], 2)
    term = PowerPath(graph, 4, 2)
    certain = torch.full((graph.kept_edges.num_edges,), 60.0, dtype=torch.float64)
    assert term(certain).item() == pytest.approx(0.0, abs=1e-9)


MIXED = [(0, 0, 1), (1, 0, 2), (0, 1, 2), (3, 0, 4)]  # 0 reaches 2; 3 never reaches 0
BATCH = [(3, 0, 0), (0, 0, 2), (0, 0, 4), (1, 0, 0)]


def test_the_gradient_of_the_path_term_is_right():
    graph = computation_graph(MIXED, N, R, BATCH, 2)
    term = PowerPath(graph, 3, 1)
    assert term.active.tolist() == [False, True, False, True]
    logits = drawn_logits(graph, 0).requires_grad_()
    assert torch.autograd.gradcheck(term, (logits,))


def test_queries_without_a_walk_have_no_loss_and_no_gradient_and_do_not_disturb_the_others():
    graph = computation_graph(MIXED, N, R, BATCH, 2)
    logits = drawn_logits(graph, 0).requires_grad_()
    term = PowerPath(graph, 3, 1)
    loss = term(logits)
    assert (loss[~term.active] == 0).all()
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert gradient.isfinite().all()
    query = graph.kept_edges.query
    assert (gradient[~term.active[query]] == 0).all()
    for q in (1, 3):
        alone = computation_graph(MIXED, N, R, BATCH[q : q + 1], 2)
        own = logits.detach()[query == q].requires_grad_()
        single = PowerPath(alone, 3, 1)(own)
        assert single.item() == pytest.approx(loss[q].item(), rel=1e-12)
        torch.testing.assert_close(torch.autograd.grad(single.sum(), own)[0], gradient[query == q])


@pytest.mark.parametrize("rows", [[(3, 0, 4)], []], ids=["no walk", "no edge"])
def test_a_batch_without_any_walk_still_has_a_gradient_of_zero(rows):
    graph = computation_graph(rows, N, R, [(3, 0, 0), (0, 0, 2)], 2)
    logits = drawn_logits(graph, 0).requires_grad_()
    term = PowerPath(graph, 3, 2)
    assert not term.active.any()
    loss = term(logits)
    assert loss.tolist() == [0.0, 0.0]
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert (gradient == 0).all()


@pytest.mark.parametrize("order", [2, 3, 4])
def test_masks_of_a_ten_billionth_do_not_underflow_float32(order):
    rows = [(v, 0, v + 1) for v in range(order)]
    graph = computation_graph(rows, order + 1, 1, [(0, 0, order)], order)
    tiny = math.log(1e-10)
    logits = torch.full((graph.kept_edges.num_edges,), tiny, dtype=torch.float32, requires_grad=True)
    term = PowerPath(graph, order, 2)
    loss = term(logits)
    assert loss.item() == pytest.approx(-tiny, rel=1e-5)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert gradient.isfinite().all()
    assert gradient.min().item() == pytest.approx(-1 / order, rel=1e-4)
