"""Rows times their group's matrix, and the slope of the matrices, run by run of rows of one group."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from powerlink.kernels.gpu.edge_mlp import product

ROWS = 64  # rows that a matrix unit multiplies at once
INNER = 32  # of what they are multiplied over
OUTER = 64  # columns (and, for slopes, rows) of a matrix that one program works on


@triton.jit
def _product_of_runs(
    rows_ptr, weight_ptr, start_ptr, end_ptr, group_ptr, out_ptr,
    stride_group, stride_in, stride_out, size_in: tl.constexpr, size_out: tl.constexpr,
    ROWS: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(0)
    start = tl.load(start_ptr + run)
    end = tl.load(end_ptr + run)
    o = tl.program_id(1) * OUTER + tl.arange(0, OUTER)
    weight_ptr += tl.load(group_ptr + run) * stride_group
    for first in range(start, end, ROWS):
        row = first + tl.arange(0, ROWS)
        total = tl.zeros((ROWS, OUTER), dtype=tl.float32)
        for begin in range(0, size_in, INNER):
            i = begin + tl.arange(0, INNER)
            a = tl.load(
                rows_ptr + row.to(tl.int64)[:, None] * size_in + i[None, :],
                mask=(row < end)[:, None] & (i < size_in)[None, :],
                other=0.0,
            )
            matrix = tl.load(
                weight_ptr + i[:, None] * stride_in + o[None, :] * stride_out,
                mask=(i < size_in)[:, None] & (o < size_out)[None, :],
                other=0.0,
            )
            total += product(a, matrix, PRECISION)
        spot = row.to(tl.int64)[:, None] * size_out + o[None, :]
        tl.store(out_ptr + spot, total, mask=(row < end)[:, None] & (o < size_out)[None, :])


@triton.jit
def _outer_of_runs(
    rows_ptr, grad_ptr, start_ptr, end_ptr, out_ptr, size_in: tl.constexpr, size_out: tl.constexpr,
    ROWS: tl.constexpr, OUTER: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A run's share of Σ row ⊗ grad."""
    run = tl.program_id(0)
    start = tl.load(start_ptr + run)
    end = tl.load(end_ptr + run)
    i = tl.program_id(1) * OUTER + tl.arange(0, OUTER)
    o = tl.program_id(2) * OUTER + tl.arange(0, OUTER)
    total = tl.zeros((OUTER, OUTER), dtype=tl.float32)
    for first in range(start, end, ROWS):
        row = first + tl.arange(0, ROWS)
        a = tl.load(
            rows_ptr + row.to(tl.int64)[None, :] * size_in + i[:, None],
            mask=(row < end)[None, :] & (i < size_in)[:, None],
            other=0.0,
        )
        grad = tl.load(
            grad_ptr + row.to(tl.int64)[:, None] * size_out + o[None, :],
            mask=(row < end)[:, None] & (o < size_out)[None, :],
            other=0.0,
        )
        total += product(a, grad, PRECISION)
    spot = (run.to(tl.int64) * size_in + i[:, None]) * size_out + o[None, :]
    tl.store(out_ptr + spot, total, mask=(i < size_in)[:, None] & (o < size_out)[None, :])


def product_of_runs(rows: Tensor, weight: Tensor, runs: tuple[Tensor, Tensor, Tensor], precision: str) -> Tensor:
    """Multiply runs of rows (n, i) by their groups' matrices (G, i, o): (n, o)."""
    size_in, size_out = weight.shape[1:]
    out = rows.new_empty(rows.size(0), size_out)
    if runs[0].numel():
        _product_of_runs[(runs[0].numel(), triton.cdiv(size_out, OUTER))](
            rows.contiguous(), weight, *runs, out, *weight.stride(), size_in=size_in, size_out=size_out,
            INNER=INNER, **_shape(precision),
        )  # fmt: skip
    return out


def outer_of_runs(rows: Tensor, grad: Tensor, runs: tuple[Tensor, Tensor, Tensor], precision: str) -> Tensor:
    """Return each run's share of its group's Σ row ⊗ grad: (runs, i, o)."""
    start, end, _ = runs
    size_in, size_out = rows.size(1), grad.size(1)
    out = rows.new_empty(start.numel(), size_in, size_out)
    if start.numel():
        _outer_of_runs[(start.numel(), triton.cdiv(size_in, OUTER), triton.cdiv(size_out, OUTER))](
            rows.contiguous(), grad, start, end, out, size_in=size_in, size_out=size_out, **_shape(precision)
        )
    return out


def _shape(precision: str) -> dict[str, Any]:
    return {"ROWS": ROWS, "OUTER": OUTER, "PRECISION": precision, "num_warps": 4, "num_stages": 2}
