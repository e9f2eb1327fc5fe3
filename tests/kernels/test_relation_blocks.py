from __future__ import annotations

import torch
from hypothesis import given

from builders import fact_lists, messages_of
from powerlink.graphs.edges import EdgeSlice
from powerlink.kernels.arrangements import pairs_of
from powerlink.kernels.relation_blocks import block_products


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def naive(nodes, blocks, edges: EdgeSlice):
    rows = [
        nodes[source] @ torch.block_diag(*blocks[relation])
        for source, relation in zip(pairs_of(edges).sources.index, pairs_of(edges).relations.index, strict=True)
    ]
    return torch.stack(rows) if rows else nodes.new_zeros(0, blocks.size(1) * blocks.size(3))


def messages(nodes, blocks, edges: EdgeSlice):
    return block_products(nodes, blocks, pairs_of(edges).by_relation, pairs_of(edges).sources)


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
    found, expected = block_products(rows, blocks, pairs_of(edges).by_relation), messages(nodes, blocks, edges)
    torch.testing.assert_close(found, expected)
    slopes = (torch.autograd.grad((one * given_back).sum(), (nodes, blocks)) for one in (found, expected))
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other)
