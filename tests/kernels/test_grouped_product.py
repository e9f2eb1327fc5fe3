from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import fact_lists, messages_of
from powerlink.graphs.edges import EdgeSlice
from powerlink.kernels.arrangements import pairs_of
from powerlink.kernels.grouped_product import grouped_product
from powerlink.kernels.incidence import Groups


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape)))


def groups_of(sizes):
    return Groups(torch.tensor([0, *sizes]).cumsum(0))


def multiplied(rows, weight, sizes):
    """One matrix (i, o) for each group."""
    return grouped_product(rows, weight.unsqueeze(1), groups_of(sizes), precision="ieee")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_each_group_is_multiplied_by_its_own_matrix(sizes):
    rows, weight = drawn(sum(sizes), 3), drawn(len(sizes), 3, 2)
    expected = torch.cat([part @ matrix for part, matrix in zip(rows.split(sizes), weight, strict=True)])
    assert torch.allclose(multiplied(rows, weight, sizes), expected)


def test_its_gradient_is_right_also_with_empty_groups():
    sizes = (2, 0, 3, 0)
    rows, weight = drawn(5, 3).requires_grad_(), drawn(4, 3, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda r, w: multiplied(r, w, sizes), (rows, weight))


def test_an_empty_groups_matrix_gets_a_gradient_of_exactly_zero():
    rows, weight = drawn(2, 3), drawn(2, 3, 2).requires_grad_()
    multiplied(rows, weight, (2, 0)).sum().backward()
    assert torch.equal(weight.grad[1], torch.zeros(3, 2).double())
    assert weight.grad[0].abs().sum() > 0


def test_a_gradient_that_is_not_contiguous_is_handled():
    rows, weight = drawn(4, 3).requires_grad_(), drawn(2, 3, 2).requires_grad_()
    multiplied(rows, weight, (1, 3)).t().reshape(-1)[::2].sum().backward()
    expected_rows, expected_weight = rows.grad.clone(), weight.grad.clone()
    rows.grad = weight.grad = None
    torch.cat([rows[:1] @ weight[0], rows[1:] @ weight[1]]).t().reshape(-1)[::2].sum().backward()
    assert torch.allclose(rows.grad, expected_rows)
    assert torch.allclose(weight.grad, expected_weight)


# Block-diagonal matrices of relations, and rows that are looked up


def naive(nodes, blocks, edges: EdgeSlice):
    rows = [
        nodes[source] @ torch.block_diag(*blocks[relation])
        for source, relation in zip(pairs_of(edges).sources.index, pairs_of(edges).relations.index, strict=True)
    ]
    return torch.stack(rows) if rows else nodes.new_zeros(0, blocks.size(1) * blocks.size(3))


def messages(nodes, blocks, edges: EdgeSlice):
    return grouped_product(nodes, blocks, pairs_of(edges).relations.groups, pairs_of(edges).sources, precision="ieee")


@given(fact_lists(5, 3, 12))
def test_messages_equal_products_with_explicit_block_diagonal_matrices(rows):
    edges = messages_of(rows, 5, 3).layer(0)
    nodes, blocks = drawn(5, 6), drawn(6, 3, 2, 4, seed=1)
    assert torch.allclose(messages(nodes, blocks, edges), naive(nodes, blocks, edges))


def test_the_gradients_of_messages_are_right():
    edges = messages_of([(0, 0, 1), (1, 1, 2), (2, 0, 2), (0, 1, 1)], 4, 3).layer(0)
    nodes, blocks = drawn(4, 4).requires_grad_(), drawn(6, 2, 2, 1, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda n, b: messages(n, b, edges), (nodes, blocks))


def test_rows_that_are_there_already_are_multiplied_alike():
    edges = messages_of([(0, 0, 1), (1, 1, 2), (2, 0, 2), (0, 1, 1)], 4, 3).layer(0)
    nodes, blocks = drawn(4, 4).requires_grad_(), drawn(6, 2, 2, 1, seed=1).requires_grad_()
    rows = nodes[pairs_of(edges).sources.index]
    given_back = drawn(len(rows), 2, seed=2)
    found = grouped_product(rows, blocks, pairs_of(edges).relations.groups, precision="ieee")
    expected = messages(nodes, blocks, edges)
    torch.testing.assert_close(found, expected)
    slopes = (torch.autograd.grad((one * given_back).sum(), (nodes, blocks)) for one in (found, expected))
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other)
