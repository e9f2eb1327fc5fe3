"""Rows times their group's block-diagonal matrix, and the slope of the matrices, run by run of rows of one group."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from powerlink.kernels.gpu.edge_mlp import product
from powerlink.kernels.gpu.product_sum import product_sum
from powerlink.kernels.incidence import Groups, Lookup

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


class FusedGroupedProduct(torch.autograd.Function):
    """One launch whatever the number of groups: many small products would starve a GPU."""

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, matrices: Tensor, groups: Groups, lookup: Lookup | None, precision: str
    ) -> Tensor:
        ctx.save_for_backward(table, matrices)
        ctx.groups, ctx.lookup, ctx.precision = groups, lookup, precision
        return _multiply(table, None if lookup is None else lookup.index, matrices, groups, precision)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (table, matrices), lookup, grad = ctx.saved_tensors, ctx.lookup, grads[0].contiguous()
        to_table = to_matrices = None
        if ctx.needs_input_grad[0]:
            to_table = _multiply(grad, None, matrices.transpose(2, 3), ctx.groups, ctx.precision)
            if lookup is not None:
                to_table = product_sum(to_table, None, None, lookup.readers)
        if ctx.needs_input_grad[1]:
            _, blocks, size_in, size_out = matrices.shape
            start, end, _ = ctx.groups.runs.bounds
            shares = table.new_empty(start.numel(), blocks * size_in * size_out)
            if start.numel():
                width_in, width_out = _side(size_in, OUTER), _side(size_out, OUTER)
                grid = (start.numel(), blocks * triton.cdiv(size_in, width_in), triton.cdiv(size_out, width_out))
                _outer_of_runs[grid](
                    table.contiguous(), start if lookup is None else lookup.index, grad, start, end, shares,
                    BLOCKS=blocks, size_in=size_in, size_out=size_out, GATHER=lookup is not None,
                    PRECISION=ctx.precision, ROWS=ROWS, IN=width_in, OUT=width_out, num_warps=4, num_stages=2,
                )  # fmt: skip
            to_matrices = product_sum(shares, None, None, ctx.groups.runs.by_group).view(matrices.shape)
        return to_table, to_matrices, None, None, None


def _multiply(rows: Tensor, index: Tensor | None, matrices: Tensor, groups: Groups, precision: str) -> Tensor:
    """Multiply rows (·, B·i), read at the index (n,) if there is one, by matrices (G, B, i, o): (n, B·o)."""
    _, blocks, size_in, size_out = matrices.shape
    runs = groups.runs.bounds
    out = rows.new_empty(rows.size(0) if index is None else index.numel(), blocks * size_out)
    if runs[0].numel():
        width_in, width_out = _side(size_in, INNER), _side(size_out, OUTER)
        _product_of_runs[(runs[0].numel(), blocks, triton.cdiv(size_out, width_out))](
            rows.contiguous(), runs[0] if index is None else index, matrices, *runs, out, *matrices.stride(),
            BLOCKS=blocks, size_in=size_in, size_out=size_out, GATHER=index is not None, PRECISION=precision,
            ROWS=ROWS, IN=width_in, OUT=width_out, num_warps=4, num_stages=2,
        )  # fmt: skip
    return out


def _side(size: int, most: int) -> int:
    return min(max(16, int(triton.next_power_of_2(size))), most)  # 16: the smallest side of a matrix unit's product
