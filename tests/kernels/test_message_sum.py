from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from powerlink.kernels.incidence import Incidence
from powerlink.kernels.message_sum import message_sum, message_sum_reference

ROWS, COLUMNS, WIDTH = 4, 5, 3
ENTRIES = st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(0, COLUMNS - 1)), max_size=15)  # repeats happen


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def incidence_of(entries):
    rows, columns = torch.tensor(entries, dtype=torch.int64).reshape(-1, 2).unbind(1)
    return Incidence.of(rows, columns, ROWS, COLUMNS)


def naive(messages, weight, entries):
    out = [messages.new_zeros(WIDTH) for _ in range(ROWS)]
    for edge, (row, column) in enumerate(entries):
        out[row] = out[row] + weight[edge] * messages[column]
    return torch.stack(out)


@pytest.mark.parametrize("summed", [message_sum, message_sum_reference])
@given(entries=ENTRIES)
def test_the_sum_equals_a_loop_over_edges_also_with_parallel_edges(summed, entries):
    messages, weight = drawn(COLUMNS, WIDTH), drawn(len(entries), seed=1)
    torch.testing.assert_close(summed(messages, weight, incidence_of(entries)), naive(messages, weight, entries))


@given(ENTRIES)
def test_its_gradients_equal_those_of_the_loop(entries):
    messages, weight = drawn(COLUMNS, WIDTH).requires_grad_(), drawn(len(entries), seed=1).requires_grad_()
    given_back = drawn(ROWS, WIDTH, seed=2)
    fast = (message_sum(messages, weight, incidence_of(entries)) * given_back).sum()
    slow = (naive(messages, weight, entries) * given_back).sum() + 0 * messages.sum() + 0 * weight.sum()
    for one, other in zip(
        torch.autograd.grad(fast, (messages, weight)), torch.autograd.grad(slow, (messages, weight)), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_every_number_is_written_also_of_rows_without_an_edge():
    entries = [(0, 1), (2, 1), (2, 4)]  # rows 1 and 3 get nothing, columns 0, 2 and 3 give nothing
    messages, weight = drawn(COLUMNS, WIDTH).requires_grad_(), drawn(len(entries), seed=1)
    torch.use_deterministic_algorithms(True)  # new memory then holds no number at all
    try:
        found = message_sum(messages, weight, incidence_of(entries))
        (slope,) = torch.autograd.grad(found.sum(), messages)
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(found, naive(messages, weight, entries))
    assert slope.isfinite().all()


def test_gradcheck_agrees_and_a_gradient_may_come_in_any_layout():
    entries = [(0, 1), (3, 1), (0, 1), (2, 4), (0, 0), (2, 0)]
    incidence = incidence_of(entries)
    messages, weight = drawn(COLUMNS, WIDTH).requires_grad_(), drawn(6, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda m, w: message_sum(m, w, incidence), (messages, weight))
    assert torch.autograd.gradcheck(lambda m, w: message_sum(m, w, incidence).t()[1:], (messages, weight))


@pytest.mark.parametrize("messages_type", [torch.float32, torch.float64])
@pytest.mark.parametrize("weight_type", [torch.float32, torch.float64])
def test_weights_of_another_precision_than_the_messages_are_welcome(messages_type, weight_type):
    entries = [(0, 1), (3, 1), (0, 1)]
    messages, weight = drawn(COLUMNS, WIDTH, dtype=messages_type), drawn(3, seed=1, dtype=weight_type)
    weight.requires_grad_()
    found = message_sum(messages, weight, incidence_of(entries))
    torch.testing.assert_close(found.double(), naive(messages.double(), weight.double(), entries), atol=1e-6, rtol=1e-5)
    (gradient,) = torch.autograd.grad(found.sum(), weight)
    assert gradient.dtype == weight_type


def test_at_the_size_of_a_benchmark_float32_errs_by_less_than_a_thousandth():
    generator = torch.Generator().manual_seed(0)
    rows, columns = (5_000 * torch.rand(2, 60_000, generator=generator) ** 3).long()  # a power law: hubs of thousands
    incidence = Incidence.of(rows, columns, 5_000, 5_000)
    messages, weight = drawn(5_000, 40, dtype=torch.float32), drawn(60_000, seed=1, dtype=torch.float32)
    inputs = [tensor.requires_grad_() for tensor in (messages, weight)]
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    given_back = drawn(5_000, 40, seed=2)
    fast, slow = message_sum(*inputs, incidence), message_sum_reference(*exact, incidence)
    mine = (fast, *torch.autograd.grad(fast, inputs, given_back.float()))
    for one, other in zip(mine, (slow, *torch.autograd.grad(slow, exact, given_back)), strict=True):
        assert (one.double() - other).norm() < 1e-3 * other.norm()
