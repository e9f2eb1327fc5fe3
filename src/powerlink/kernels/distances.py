"""All distances between two sets of points, TransE's and RotatE's answer for every tail at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from powerlink.kernels.fused import can_fuse

CACHEFUL, MEMORYFUL = 2**16, 2**24  # differences that are held at a time, on a CPU and on a GPU


def l1_distance(one: Tensor, other: Tensor) -> Tensor:
    """Return ‖one − other‖₁ of all pairs: (n, d), (m, d) → (n, m). A tensor of n × m × d never exists."""
    if can_fuse(one):
        from powerlink.kernels.gpu.l1_distance import FusedDistance  # noqa: PLC0415 - only where there is Triton

        result: Tensor = FusedDistance.apply(one, other)  # type: ignore[no-untyped-call]
        return result
    return torch.cdist(one, other, p=1.0)


def complex_distance(one: Tensor, other: Tensor) -> Tensor:
    """Return Σ |one − other| of all pairs: (n, d), (m, d) → (n, m); first halves are real, second imaginary.

    A tensor of n × m × d never exists: pairs and coordinates are taken a tile at a time, and again for the slopes.
    """
    result: Tensor = _ComplexDistance.apply(one, other)  # type: ignore[no-untyped-call]
    return result


class _ComplexDistance(torch.autograd.Function):
    """The distances; the backward compares the points again instead of keeping their differences."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor) -> Tensor:
        ctx.save_for_backward(one, other)
        out = one.new_zeros(one.size(0), other.size(0))
        for rows, _, difference in _differences(one, other):
            out[:, rows] += torch.hypot(*difference).sum(0)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        one, other = ctx.saved_tensors
        to_one, to_other = (torch.zeros_like(_halves(points)) for points in (one, other))  # (2, d/2, ·)
        for rows, coordinates, difference in _differences(one, other):
            length = torch.hypot(*difference).clamp_(min=torch.finfo(one.dtype).tiny)  # of a tie both differences are 0
            slopes = difference.mul_(grads[0][:, rows] / length)
            to_one[:, coordinates] += slopes.sum(3)
            to_other[:, coordinates, rows] -= slopes.sum(2)
        return to_one.flatten(0, 1).t(), to_other.flatten(0, 1).t()


def _differences(one: Tensor, other: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield tiles of all pairs' differences: which others, which coordinates, and both parts' (2, c, n, m)."""
    ones, others = _halves(one), _halves(other)
    most = MEMORYFUL if one.is_cuda else CACHEFUL
    wide = max(1, most // max(1, one.size(0)))
    deep = max(1, most // max(1, one.size(0) * min(wide, other.size(0))))
    for row in range(0, other.size(0), wide):
        for coordinate in range(0, ones.size(1), deep):
            rows, coordinates = slice(row, row + wide), slice(coordinate, coordinate + deep)
            yield rows, coordinates, ones[:, coordinates].unsqueeze(3) - others[:, coordinates, rows].unsqueeze(2)


def _halves(points: Tensor) -> Tensor:
    """Lay points (n, d) out coordinate by coordinate, so that a tile reads neighbours: real, imaginary (2, d/2, n)."""
    halves: Tensor = points.t().contiguous().unflatten(0, (2, -1))
    return halves
