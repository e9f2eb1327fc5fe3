from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from powerlink.kernels.grouped_linear import Groups, grouped_linear


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def groups_of(sizes):
    return Groups(torch.tensor([0, *sizes]).cumsum(0))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_each_group_is_multiplied_by_its_own_matrix(sizes):
    rows, weight = drawn(sum(sizes), 3), drawn(len(sizes), 3, 2)
    expected = torch.cat([part @ matrix for part, matrix in zip(rows.split(sizes), weight, strict=True)])
    assert torch.allclose(grouped_linear(rows, weight, groups_of(sizes)), expected)


def test_its_gradient_is_right_also_with_empty_groups():
    sizes = (2, 0, 3, 0)
    rows, weight = drawn(5, 3).requires_grad_(), drawn(4, 3, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda r, w: grouped_linear(r, w, groups_of(sizes)), (rows, weight))


def test_an_empty_groups_matrix_gets_a_gradient_of_exactly_zero():
    rows, weight = drawn(2, 3), drawn(2, 3, 2).requires_grad_()
    grouped_linear(rows, weight, groups_of((2, 0))).sum().backward()
    assert torch.equal(weight.grad[1], torch.zeros(3, 2).double())
    assert weight.grad[0].abs().sum() > 0


def test_a_gradient_that_is_not_contiguous_is_handled():
    rows, weight = drawn(4, 3).requires_grad_(), drawn(2, 3, 2).requires_grad_()
    grouped_linear(rows, weight, groups_of((1, 3))).t().reshape(-1)[::2].sum().backward()
    expected_rows, expected_weight = rows.grad.clone(), weight.grad.clone()
    rows.grad = weight.grad = None
    torch.cat([rows[:1] @ weight[0], rows[1:] @ weight[1]]).t().reshape(-1)[::2].sum().backward()
    assert torch.allclose(rows.grad, expected_rows)
    assert torch.allclose(weight.grad, expected_weight)
