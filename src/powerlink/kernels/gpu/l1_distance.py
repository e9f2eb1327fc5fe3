"""All L1 distances between two sets of points, and their slopes, without a tensor of one × other × width."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

UNROLL = 8  # turns of the inner loops whose loads are in flight together; lengths are padded to its multiples
ENOUGH_PROGRAMS = 2048  # to keep every multiprocessor busy


@triton.jit
def _distances(
    one_ptr, other_ptr, out_ptr, num_one, num_other, width, ONE: tl.constexpr, OTHER: tl.constexpr, TURNS: tl.constexpr
):  # fmt: skip
    """Points lie column by column, (width, points), so that a tile reads neighbours."""
    i = tl.program_id(1) * ONE + tl.arange(0, ONE)
    j = tl.program_id(0) * OTHER + tl.arange(0, OTHER)
    total = tl.zeros((ONE, OTHER), dtype=out_ptr.dtype.element_ty)
    for _ in range(0, width, TURNS):
        for turn in tl.static_range(TURNS):
            x = tl.load(one_ptr + turn * num_one + i, mask=i < num_one, other=0.0)
            y = tl.load(other_ptr + turn * num_other + j, mask=j < num_other, other=0.0)
            total += tl.abs(x[:, None] - y[None, :])
        one_ptr += TURNS * num_one
        other_ptr += TURNS * num_other
    place = i.to(tl.int64)[:, None] * num_other + j[None, :]
    tl.store(out_ptr + place, total, mask=(i < num_one)[:, None] & (j < num_other)[None, :])


@triton.jit
def _slopes(
    one_ptr, other_ptr, grad_ptr, out_ptr, num_one, width, share,
    ONE: tl.constexpr, WIDTH: tl.constexpr, TURNS: tl.constexpr,
):  # fmt: skip
    """Σ over others of grad·sign(one − other); grad lies (others, ones). At a tie either slope is a right one."""
    i = tl.program_id(0) * ONE + tl.arange(0, ONE)
    axis = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = (i < num_one)[:, None] & (axis < width)[None, :]
    place = i.to(tl.int64)[:, None] * width + axis[None, :]
    x = tl.load(one_ptr + place, mask=inside, other=0.0)
    total = tl.zeros((ONE, WIDTH), dtype=out_ptr.dtype.element_ty)
    other_ptr += tl.program_id(2).to(tl.int64) * share * width
    grad_ptr += tl.program_id(2).to(tl.int64) * share * num_one
    for _ in range(0, share, TURNS):
        for turn in tl.static_range(TURNS):
            y = tl.load(other_ptr + turn * width + axis, mask=axis < width, other=0.0)
            grad = tl.load(grad_ptr + turn * num_one + i, mask=i < num_one, other=0.0)
            total += tl.where(x > y[None, :], grad[:, None], -grad[:, None])
        other_ptr += TURNS * width
        grad_ptr += TURNS * num_one
    part = tl.program_id(2).to(tl.int64) * num_one * width
    tl.store(out_ptr + part + place, total, mask=inside)


def distances(one: Tensor, other: Tensor) -> Tensor:
    """Return ‖one − other‖₁ of all pairs: (n, d), (m, d) → (n, m)."""
    out = one.new_empty(one.size(0), other.size(0))
    if out.numel():
        block_one, block_other = 64, 128
        grid = (triton.cdiv(other.size(0), block_other), triton.cdiv(one.size(0), block_one))
        columns = _rows_padded(one.t(), UNROLL), _rows_padded(other.t(), UNROLL)
        _distances[grid](
            *columns, out, one.size(0), other.size(0), columns[0].size(0),
            ONE=block_one, OTHER=block_other, TURNS=UNROLL, num_warps=8,
        )  # fmt: skip
    return out


def slopes(one: Tensor, other: Tensor, grad: Tensor) -> Tensor:
    """Return Σ_m grad·sign(one − other): one (n, d), other (m, d), grad (m, n) → (n, d)."""
    block_one, block_width = 64, 64
    tiles = triton.cdiv(one.size(0), block_one), triton.cdiv(one.size(1), block_width)
    shares = max(1, min(ENOUGH_PROGRAMS // max(1, tiles[0] * tiles[1]), other.size(0) // 128))
    share = triton.cdiv(other.size(0), shares * UNROLL) * UNROLL
    out = one.new_empty(shares, *one.shape)
    if out.numel():
        # padding is harmless: it has no gradient
        others, grads = _rows_padded(other, shares * share), _rows_padded(grad, shares * share)
        _slopes[(*tiles, shares)](
            one.contiguous(), others, grads, out, one.size(0), one.size(1), share,
            ONE=block_one, WIDTH=block_width, TURNS=UNROLL, num_warps=4,
        )  # fmt: skip
    return out.sum(0)


def _rows_padded(rows: Tensor, multiple: int) -> Tensor:
    """Return contiguous rows, with zeros added up to a multiple."""
    missing = -rows.size(0) % multiple
    return pad(rows, (0, 0, 0, missing)) if missing else rows.contiguous()
