from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from powerlink.kernels.segments import gather, run_count, segment_logsumexp, segment_sum

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.floats(-200, 200)), max_size=20)


@given(PAIRS)
def test_segment_logsumexp_equals_a_loop_over_segments(pairs):
    segment = torch.tensor([s for s, _ in pairs], dtype=torch.int64)
    values = torch.tensor([v for _, v in pairs], dtype=torch.float64)
    found = segment_logsumexp(values, segment, 6)
    for s in range(6):
        own = values[segment == s]
        assert torch.allclose(found[s], torch.logsumexp(own, 0) if own.numel() else torch.tensor(-math.inf).double())


@given(PAIRS)
def test_segment_sum_equals_a_loop_over_segments(pairs):
    segment = torch.tensor([s for s, _ in pairs], dtype=torch.int64)
    values = torch.tensor([[v, 2 * v] for _, v in pairs], dtype=torch.float64).reshape(-1, 2)
    found = segment_sum(values, segment, 6)
    assert torch.allclose(found, torch.stack([values[segment == s].sum(0) for s in range(6)]))


def test_sums_of_numbers_far_below_float32_stay_finite_with_finite_gradients():
    values = torch.full((3,), -70.0 * 3, requires_grad=True)
    found = segment_logsumexp(values, torch.tensor([0, 0, 2]), 4)
    assert found.tolist() == pytest.approx([-210 + math.log(2), -math.inf, -210, -math.inf])
    found[found.isfinite()].sum().backward()
    assert values.grad.tolist() == pytest.approx([0.5, 0.5, 1.0])


def test_an_empty_segment_sends_no_nan_through_the_gradient_even_if_it_is_used():
    values = torch.tensor([1.0, 2.0], requires_grad=True)
    found = segment_logsumexp(values, torch.tensor([1, 1]), 3)
    found.exp().sum().backward()  # exp(−inf) = 0
    assert values.grad.isfinite().all()


def test_no_values_at_all_give_empty_segments():
    none = torch.empty(0, dtype=torch.int64)
    assert segment_logsumexp(torch.empty(0), none, 2).tolist() == [-math.inf, -math.inf]
    assert segment_logsumexp(torch.empty(0), none, 0).tolist() == []


def test_the_gradient_of_segment_logsumexp_is_right():
    segment = torch.tensor([0, 3, 0, 3, 3, 1])
    values = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: segment_logsumexp(v, segment, 5)[[0, 1, 3]], (values,))


def test_gather_is_indexing():
    rows = torch.arange(12.0).view(4, 3)
    index = torch.tensor([3, 0, 3])
    assert torch.equal(gather(rows, index), rows[index])


@given(st.lists(st.lists(st.floats(-1, 1, width=32), max_size=6), max_size=6))
def test_flags_are_counted_run_by_run(runs):
    row = torch.tensor([0, *(len(run) for run in runs)]).cumsum(0)
    values = torch.tensor([value for run in runs for value in run], dtype=torch.float32)
    assert run_count(values > 0, row).tolist() == [sum(value > 0 for value in run) for run in runs]
