"""All L1 distances between two sets of points, and their slopes, without a tensor of one × other × width."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

UNROLL = 8  # turns of the inner loops whose loads are in flight together
TILE = 128  # points that one program holds,
OTHERS = 64  # and those it measures their distances to; or,
AXES = 32  # for slopes, the axes it adds them up on (all sizes: the fastest of some dozens tried on an H200)
ENOUGH_PROGRAMS = 2048  # to keep every multiprocessor busy


@triton.jit
def _distances(
    one_ptr, other_ptr, out_ptr, num_one, num_other, padded_one, padded_other, width: tl.constexpr,
    ONE: tl.constexpr, OTHER: tl.constexpr, TURNS: tl.constexpr,
):  # fmt: skip
    """Points lie column by column, (width, points), so that a tile reads neighbours."""
    i = tl.program_id(1) * ONE + tl.arange(0, ONE)
    j = tl.program_id(0) * OTHER + tl.arange(0, OTHER)
    total = tl.zeros((ONE, OTHER), dtype=out_ptr.dtype.element_ty)
    for _ in range(0, width, TURNS):
        for turn in tl.static_range(TURNS):
            x = tl.load(one_ptr + turn * padded_one + i)
            y = tl.load(other_ptr + turn * padded_other + j)
            total += tl.abs(x[:, None] - y[None, :])
        one_ptr += TURNS * padded_one
        other_ptr += TURNS * padded_other
    place = i.to(tl.int64)[:, None] * num_other + j[None, :]
    tl.store(out_ptr + place, total, mask=(i < num_one)[:, None] & (j < num_other)[None, :])


@triton.jit
def _slopes(
    one_ptr, other_ptr, grad_ptr, out_ptr, padded_one, share, width: tl.constexpr,
    ONE: tl.constexpr, WIDTH: tl.constexpr, TURNS: tl.constexpr,
):  # fmt: skip
    """Σ over others of grad·sign(one − other); grad lies (others, ones). At a tie either slope is a right one."""
    i = tl.program_id(0) * ONE + tl.arange(0, ONE)
    axis = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    place = i.to(tl.int64)[:, None] * width + axis[None, :]
    x = tl.load(one_ptr + place)
    total = tl.zeros((ONE, WIDTH), dtype=out_ptr.dtype.element_ty)
    other_ptr += tl.program_id(2).to(tl.int64) * share * width
    grad_ptr += tl.program_id(2).to(tl.int64) * share * padded_one
    for _ in range(0, share, TURNS):
        for turn in tl.static_range(TURNS):
            y = tl.load(other_ptr + turn * width + axis)
            grad = tl.load(grad_ptr + turn * padded_one + i)
            total += tl.where(x > y[None, :], grad[:, None], -grad[:, None])
        other_ptr += TURNS * width
        grad_ptr += TURNS * padded_one
    part = tl.program_id(2).to(tl.int64) * padded_one * width
    tl.store(out_ptr + part + place, total)


class FusedDistance(torch.autograd.Function):
    """The distances; the backward compares the points again instead of keeping their signs."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor) -> Tensor:
        ctx.save_for_backward(one, other)
        out = one.new_empty(one.size(0), other.size(0))
        if out.numel():
            ones, others = _padded(one.t(), UNROLL, TILE), _padded(other.t(), UNROLL, OTHERS)
            grid = (others.size(1) // OTHERS, ones.size(1) // TILE)
            _distances[grid](
                ones, others, out, one.size(0), other.size(0), ones.size(1), others.size(1), ones.size(0),
                ONE=TILE, OTHER=OTHERS, TURNS=UNROLL, num_warps=4,
            )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        one, other = ctx.saved_tensors
        to_one = slopes(one, other, grads[0].t()) if ctx.needs_input_grad[0] else None
        to_other = slopes(other, one, grads[0]) if ctx.needs_input_grad[1] else None
        return to_one, to_other


def slopes(one: Tensor, other: Tensor, grad: Tensor) -> Tensor:
    """Return Σ_m grad·sign(one − other): one (n, d), other (m, d), grad (m, n) → (n, d)."""
    tiles = triton.cdiv(one.size(0), TILE), triton.cdiv(one.size(1), AXES)
    if not one.numel() or not other.numel():
        return torch.zeros_like(one)
    shares = max(1, min(ENOUGH_PROGRAMS // max(1, tiles[0] * tiles[1]), other.size(0) // 128))
    share = triton.cdiv(other.size(0), shares * UNROLL) * UNROLL
    ones, others = _padded(one, TILE, AXES), _padded(other, shares * share, AXES)
    out = ones.new_empty(shares, *ones.shape)
    _slopes[(*tiles, shares)](
        ones, others, _padded(grad, shares * share, TILE), out, ones.size(0), share, ones.size(1),
        ONE=TILE, WIDTH=AXES, TURNS=UNROLL, num_warps=2,
    )  # fmt: skip
    return out.sum(0)[: one.size(0), : one.size(1)]


def _padded(table: Tensor, rows: int, columns: int) -> Tensor:
    """Return a contiguous table with zeros added up to multiples of rows and columns: loops then need no masks, loads
    are aligned, and a padded point has no gradient."""
    missing = (0, -table.size(1) % columns, 0, -table.size(0) % rows)
    return pad(table, missing) if any(missing) else table.contiguous()
