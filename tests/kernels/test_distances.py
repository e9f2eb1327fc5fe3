"""Distances of complex points, tile by tile, against what they are."""

from __future__ import annotations

import pytest
import torch

from powerlink.kernels import distances as module
from powerlink.kernels.distances import complex_distance


def points(count, width, seed):
    return torch.randn(count, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def plain(one, other):
    one, other = (torch.complex(*rows.chunk(2, dim=1)) for rows in (one, other))
    return (one.unsqueeze(1) - other).abs().sum(2)


@pytest.mark.parametrize("held", [1, 7, 40, 10**6])
@pytest.mark.parametrize("shape", [(5, 7, 6), (1, 3, 2), (4, 1, 10), (0, 3, 4), (3, 0, 4)])
def test_tiles_of_any_size_give_the_distances_and_their_slopes(shape, held, monkeypatch):
    monkeypatch.setattr(module, "CACHEFUL", held)
    n, m, width = shape
    one, other = points(n, width, 0).requires_grad_(), points(m, width, 1).requires_grad_()
    found, expected = complex_distance(one, other), plain(one, other)
    torch.testing.assert_close(found, expected)
    grad = points(n, m, 2)
    for ours, theirs in zip(
        torch.autograd.grad(found, (one, other), grad), torch.autograd.grad(expected, (one, other), grad), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_no_tensor_of_all_differences_exists(monkeypatch):
    sizes = []
    real = torch.hypot
    monkeypatch.setattr(torch, "hypot", lambda a, b: sizes.append(a.numel()) or real(a, b))
    complex_distance(points(50, 20, 0), points(2_000, 20, 1))
    assert sum(sizes) == 50 * 2_000 * 10
    assert max(sizes) <= module.CACHEFUL


def test_points_that_are_the_same_have_no_slope_and_no_nan():
    one = points(3, 4, 0).requires_grad_()
    (slope,) = torch.autograd.grad(complex_distance(one, one.detach()).diagonal().sum(), one)
    assert torch.equal(slope, torch.zeros_like(slope))
