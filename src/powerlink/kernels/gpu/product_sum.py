"""Sums over edges of weight · a-row · b-row, in any sort order, and the weights' own derivative.

One kernel is the forward and two of the three backward passes of a message sum: added up by target with the sources'
and relations' rows it is the sum itself; by source with the targets' and relations' rows, the slope of the sources; by
relation with the sources' and targets' rows, the slope of the relations.

The width is part of a kernel's type: only then does the compiler know how rows are aligned, and loads four numbers at
once.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from powerlink.kernels.incidence import Incidence

WIDTH_BLOCK = 64
ENTRY_BLOCK = 8


@triton.jit
def _sum_chunks(
    a_ptr, b_ptr, factor_ptr, weight_ptr, column_ptr, edge_ptr, start_ptr, end_ptr, out_ptr,
    width: tl.constexpr, HAS_FACTOR: tl.constexpr, HAS_WEIGHT: tl.constexpr, ENTRIES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    chunk = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = place < width
    start = tl.load(start_ptr + chunk)
    end = tl.load(end_ptr + chunk)
    total = tl.zeros((ENTRIES, WIDTH), dtype=out_ptr.dtype.element_ty)
    for first in range(start, end, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        there = entry < end
        both = there[:, None] & inside[None, :]
        column = tl.load(column_ptr + entry, mask=there, other=0)
        value = tl.load(a_ptr + column[:, None] * width + place[None, :], mask=both, other=0.0)
        if HAS_FACTOR:
            factor = tl.load(factor_ptr + entry, mask=there, other=0)
            value *= tl.load(b_ptr + factor[:, None] * width + place[None, :], mask=both, other=0.0)
        if HAS_WEIGHT:
            edge = tl.load(edge_ptr + entry, mask=there, other=0)
            value *= tl.load(weight_ptr + edge, mask=there, other=0.0)[:, None]
        total += value
    tl.store(out_ptr + chunk * width + place, tl.sum(total, axis=0), mask=inside)


@triton.jit
def _fold_long_rows(
    out_ptr, long_row_ptr, rest_ptr, num_rows, width: tl.constexpr, PIECES: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    which = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = place < width
    row = tl.load(long_row_ptr + which)
    start = num_rows + tl.load(rest_ptr + which)
    end = num_rows + tl.load(rest_ptr + which + 1)
    total = tl.zeros((PIECES, WIDTH), dtype=out_ptr.dtype.element_ty)
    for first in range(start, end, PIECES):
        piece = first + tl.arange(0, PIECES)
        both = (piece < end)[:, None] & inside[None, :]
        total += tl.load(out_ptr + piece[:, None] * width + place[None, :], mask=both, other=0.0)
    begun = tl.load(out_ptr + row * width + place, mask=inside, other=0.0)
    tl.store(out_ptr + row * width + place, begun + tl.sum(total, axis=0), mask=inside)


@triton.jit
def _dot_entries(
    a_ptr, b_ptr, factor_ptr, rows_ptr, column_ptr, row_ptr, edge_ptr, out_ptr, num_entries,
    width: tl.constexpr, HAS_FACTOR: tl.constexpr, ENTRIES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    entry = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    there = entry < num_entries
    column = tl.load(column_ptr + entry, mask=there, other=0)
    row = tl.load(row_ptr + entry, mask=there, other=0)
    edge = tl.load(edge_ptr + entry, mask=there, other=0)
    total = tl.zeros((ENTRIES, WIDTH), dtype=out_ptr.dtype.element_ty)
    for first in range(0, width, WIDTH):
        place = first + tl.arange(0, WIDTH)
        both = there[:, None] & (place < width)[None, :]
        value = tl.load(a_ptr + column[:, None] * width + place[None, :], mask=both, other=0.0)
        value *= tl.load(rows_ptr + row[:, None] * width + place[None, :], mask=both, other=0.0)
        if HAS_FACTOR:
            factor = tl.load(factor_ptr + entry, mask=there, other=0)
            value *= tl.load(b_ptr + factor[:, None] * width + place[None, :], mask=both, other=0.0)
        total += value
    tl.store(out_ptr + edge, tl.sum(total, axis=1), mask=there)


class FusedSum(torch.autograd.Function):
    """Σ weight·message·factor."""

    @staticmethod
    def forward(ctx: Any, messages: Tensor, factors: Tensor | None, weight: Tensor, incidence: Incidence) -> Tensor:
        ctx.save_for_backward(messages, factors, weight)
        ctx.incidence = incidence
        return product_sum(messages, factors, weight, incidence)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        messages, factors, weight = ctx.saved_tensors
        incidence, grad = ctx.incidence, grads[0]
        to_messages = to_factors = to_weight = None
        if ctx.needs_input_grad[0]:
            to_messages = product_sum(grad, factors, weight, incidence.transposed)
        if ctx.needs_input_grad[1]:
            to_factors = product_sum(messages, grad, weight, incidence.by_factor)
        if ctx.needs_input_grad[2]:
            to_weight = product_dot(messages, factors, grad, incidence)
        return to_messages, to_factors, to_weight, None


def product_sum(a: Tensor, b: Tensor | None, weight: Tensor | None, incidence: Incidence) -> Tensor:
    """Return Σ weight·a[column]·b[factor] at every row: a (columns, d), b (factors, d), weight (E,) → (rows, d)."""
    a, chunks, width = a.contiguous(), incidence.chunks, a.size(1)
    out = a.new_empty(chunks.start.numel(), width)
    block = min(WIDTH_BLOCK, triton.next_power_of_2(width))
    columns = triton.cdiv(width, block)
    if out.numel():
        _sum_chunks[(chunks.start.numel(), columns)](
            a, *_factors(b, incidence, a), a if weight is None else weight.contiguous(),
            incidence.column, incidence.edge, chunks.start, chunks.end, out,
            width, HAS_FACTOR=b is not None, HAS_WEIGHT=weight is not None,
            ENTRIES=ENTRY_BLOCK, WIDTH=block, num_warps=1,
        )  # fmt: skip
    if chunks.long_row.numel():
        _fold_long_rows[(chunks.long_row.numel(), columns)](
            out, chunks.long_row, chunks.rest, incidence.num_rows, width, PIECES=16, WIDTH=block, num_warps=1
        )
    return out[: incidence.num_rows]


def product_dot(a: Tensor, b: Tensor | None, rows: Tensor, incidence: Incidence) -> Tensor:
    """Return Σ_d a[column]·b[factor]·rows[row] of every edge: (E,)."""
    a, count, width = a.contiguous(), incidence.edge.numel(), a.size(1)
    out = a.new_empty(count)
    if count:
        _dot_entries[(triton.cdiv(count, ENTRY_BLOCK),)](
            a, *_factors(b, incidence, a), rows.contiguous(),
            incidence.column, incidence.row_of_entry, incidence.edge, out,
            count, width, HAS_FACTOR=b is not None,
            ENTRIES=ENTRY_BLOCK, WIDTH=min(WIDTH_BLOCK, triton.next_power_of_2(width)), num_warps=2,
        )  # fmt: skip
    return out


def _factors(b: Tensor | None, incidence: Incidence, unread: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors' table and which of its rows each entry reads; without factors, something never read."""
    if b is None or incidence.factor is None:
        return unread, incidence.column
    return b.contiguous(), incidence.factor
