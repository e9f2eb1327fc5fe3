from __future__ import annotations

import pytest
import torch

from powerlink.kernels import edge_mlp as module
from powerlink.kernels.edge_mlp import EdgeRows, edge_mlp


def inputs(sizes, nodes=5, slots=4, width=3):
    generator = torch.Generator().manual_seed(len(sizes))

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)

    count, queries = sum(sizes), len(sizes)
    index = [torch.randint(0, size, (count,), generator=generator) for size in (nodes, nodes, slots)]
    tensors = [draw(nodes, 2, width), draw(slots, width)]
    own = [draw(queries, width, width), draw(queries, width), draw(queries, width, 1), draw(queries, 1)]
    return EdgeRows(*index, nodes, slots, sizes), tensors, own


def plain(rows, tensors, own):
    """The same MLP in plain torch, edge by edge."""
    second, second_bias, last, last_bias = own
    query = torch.repeat_interleave(torch.arange(len(rows.sizes)), torch.tensor(rows.sizes))
    by_node, by_relation = tensors
    hidden = torch.relu(by_node[rows.source, 0] + by_node[rows.target, 1] + by_relation[rows.slot])
    hidden = torch.relu(torch.einsum("eh,ehk->ek", hidden, second[query]) + second_bias[query])
    return torch.einsum("eh,eh->e", hidden, last[query].squeeze(2)) + last_bias[query].squeeze(1)


def fast(rows, tensors, own):
    names = ("second", "second_bias", "last", "last_bias")
    return edge_mlp(rows, *tensors, **dict(zip(names, own, strict=True)))


@pytest.mark.parametrize("sizes", [(7,), (3, 0, 9), (0,), (1, 1, 1, 1)])
@pytest.mark.parametrize("piece", [4, 1000])  # 4: nothing is kept for the way back
@pytest.mark.parametrize("chunk", [2, 100])
def test_value_and_gradients_equal_plain_torch_whatever_the_chunks(monkeypatch, sizes, chunk, piece):
    monkeypatch.setattr(module, "PIECE", piece)
    monkeypatch.setattr(module, "CHUNK", chunk)
    monkeypatch.setattr(module, "BLOCK", 2 * chunk)
    rows, tensors, own = inputs(sizes)
    expected, found = plain(rows, tensors, own), fast(rows, tensors, own)
    torch.testing.assert_close(found, expected)
    weights = torch.linspace(-1, 2, expected.numel(), dtype=torch.float64)
    wanted = torch.autograd.grad((expected * weights).sum(), [*tensors, *own])
    given = torch.autograd.grad((found * weights).sum(), [*tensors, *own])
    for one, other in zip(given, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_the_gradient_passes_gradcheck():
    rows, tensors, own = inputs((4, 3))
    assert torch.autograd.gradcheck(lambda *given: fast(rows, given[:2], given[2:]), (*tensors, *own))
