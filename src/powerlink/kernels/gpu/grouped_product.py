"""Rows times their group's block-diagonal matrix, and the slope of the matrices, run by run of rows of one group."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from powerlink.kernels.gpu.edge_mlp import product

ROWS = 64  # rows that a matrix unit multiplies at once
INNER = 32  # at most, of what they are multiplied over
OUTER = 64  # at most, columns (and, for slopes, rows) of a matrix that one program works on


@triton.jit
def _product_of_runs(
    rows_ptr, index_ptr, matrix_ptr, start_ptr, end_ptr, group_ptr, out_ptr,
    stride_group, stride_block, stride_in, stride_out,
    BLOCKS: tl.constexpr, size_in: tl.constexpr, size_out: tl.constexpr, GATHER: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """One run, one block, some columns of its matrix."""
    block = tl.program_id(1)
    start = tl.load(start_ptr + tl.program_id(0))
    end = tl.load(end_ptr + tl.program_id(0))
    o = tl.program_id(2) * OUT + tl.arange(0, OUT)
    matrix_ptr += tl.load(group_ptr + tl.program_id(0)) * stride_group + block * stride_block
    for first in range(start, end, ROWS):
        place = (first + tl.arange(0, ROWS)).to(tl.int64)
        inside = place < end
        row = place
        if GATHER:
            row = tl.load(index_ptr + place, mask=inside, other=0)
        total = tl.zeros((ROWS, OUT), dtype=tl.float32)
        for begin in range(0, size_in, IN):
            i = begin + tl.arange(0, IN)
            a = tl.load(
                rows_ptr + row[:, None] * (BLOCKS * size_in) + block * size_in + i[None, :],
                mask=inside[:, None] & (i < size_in)[None, :],
                other=0.0,
            )
            matrix = tl.load(
                matrix_ptr + i[:, None] * stride_in + o[None, :] * stride_out,
                mask=(i < size_in)[:, None] & (o < size_out)[None, :],
                other=0.0,
            )
            total += product(a, matrix, PRECISION)
        spot = place[:, None] * (BLOCKS * size_out) + block * size_out + o[None, :]
        tl.store(out_ptr + spot, total, mask=inside[:, None] & (o < size_out)[None, :])


@triton.jit
def _outer_of_runs(
    rows_ptr, index_ptr, grad_ptr, start_ptr, end_ptr, out_ptr,
    BLOCKS: tl.constexpr, size_in: tl.constexpr, size_out: tl.constexpr, GATHER: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """A run's share of Σ row ⊗ grad, one block, some rows and columns of it."""
    run = tl.program_id(0).to(tl.int64)
    start = tl.load(start_ptr + run)
    end = tl.load(end_ptr + run)
    block = tl.program_id(1) % BLOCKS
    i = tl.program_id(1) // BLOCKS * IN + tl.arange(0, IN)
    o = tl.program_id(2) * OUT + tl.arange(0, OUT)
    total = tl.zeros((IN, OUT), dtype=tl.float32)
    for first in range(start, end, ROWS):
        place = (first + tl.arange(0, ROWS)).to(tl.int64)
        inside = place < end
        row = place
        if GATHER:
            row = tl.load(index_ptr + place, mask=inside, other=0)
        a = tl.load(
            rows_ptr + row[None, :] * (BLOCKS * size_in) + block * size_in + i[:, None],
            mask=inside[None, :] & (i < size_in)[:, None],
            other=0.0,
        )
        grad = tl.load(
            grad_ptr + place[:, None] * (BLOCKS * size_out) + block * size_out + o[None, :],
            mask=inside[:, None] & (o < size_out)[None, :],
            other=0.0,
        )
        total += product(a, grad, PRECISION)
    spot = ((run * BLOCKS + block) * size_in + i[:, None]) * size_out + o[None, :]
    tl.store(out_ptr + spot, total, mask=(i < size_in)[:, None] & (o < size_out)[None, :])


def product_of_runs(
    rows: Tensor, index: Tensor | None, matrices: Tensor, runs: tuple[Tensor, Tensor, Tensor], precision: str
) -> Tensor:
    """Multiply runs of rows (·, B·i), read at the index (n,) if there is one, by matrices (G, B, i, o): (n, B·o)."""
    _, blocks, size_in, size_out = matrices.shape
    out = rows.new_empty(rows.size(0) if index is None else index.numel(), blocks * size_out)
    if runs[0].numel():
        width_in, width_out = _side(size_in, INNER), _side(size_out, OUTER)
        _product_of_runs[(runs[0].numel(), blocks, triton.cdiv(size_out, width_out))](
            rows.contiguous(), runs[0] if index is None else index, matrices, *runs, out, *matrices.stride(),
            BLOCKS=blocks, size_in=size_in, size_out=size_out, GATHER=index is not None, PRECISION=precision,
            ROWS=ROWS, IN=width_in, OUT=width_out, num_warps=4, num_stages=2,
        )  # fmt: skip
    return out


def outer_of_runs(
    rows: Tensor,
    index: Tensor | None,
    grad: Tensor,
    shape: tuple[int, ...],
    runs: tuple[Tensor, Tensor, Tensor],
    precision: str,
) -> Tensor:
    """Return each run's share of its group's Σ row ⊗ grad, for matrices of a shape (G, B, i, o): (runs, B·i·o)."""
    _, blocks, size_in, size_out = shape
    start, end, _ = runs
    out = rows.new_empty(start.numel(), blocks * size_in * size_out)
    if start.numel():
        width_in, width_out = _side(size_in, OUTER), _side(size_out, OUTER)
        grid = (start.numel(), blocks * triton.cdiv(size_in, width_in), triton.cdiv(size_out, width_out))
        _outer_of_runs[grid](
            rows.contiguous(), start if index is None else index, grad.contiguous(), start, end, out,
            BLOCKS=blocks, size_in=size_in, size_out=size_out, GATHER=index is not None, PRECISION=precision,
            ROWS=ROWS, IN=width_in, OUT=width_out, num_warps=4, num_stages=2,
        )  # fmt: skip
    return out


def _side(size: int, most: int) -> int:
    return min(max(16, int(triton.next_power_of_2(size))), most)  # 16: the smallest side of a matrix unit's product
