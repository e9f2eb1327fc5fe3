"""The triplet scorer, fused: gather three rows, add, ReLU, product, ReLU, dot; one number per edge is written.

A program walks a run of edges of one query, tile by tile, with that query's matrix at hand. The way back computes the
tile again, writes the slopes of its gathered rows, and keeps the sum of the parameters' slopes to itself until the run
ends; sums over runs and over the readers of a row are taken in sort order afterwards, so that nothing is added up
atomically and a run can be repeated.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from powerlink.kernels.edge_mlp import EdgeRows, parameter_slopes
from powerlink.kernels.fused import scorer_precision
from powerlink.kernels.gpu.product_sum import product_sum

TILE = 64  # edges that a matrix unit multiplies at once


@triton.jit
def product(a, b, PRECISION: tl.constexpr):
    """The product of two tiles, summed in float32."""
    if PRECISION == "bf16":
        return tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    elif PRECISION == "bf16x3":  # each number as the sum of two: what is left out is the product of the small parts
        large_a, large_b = a.to(tl.bfloat16), b.to(tl.bfloat16)
        small_a = (a - large_a.to(tl.float32)).to(tl.bfloat16)
        small_b = (b - large_b.to(tl.float32)).to(tl.bfloat16)
        return tl.dot(large_a, large_b, tl.dot(small_a, large_b, tl.dot(large_a, small_b)))
    else:
        return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def _hidden(
    table_ptr, row_ptr, num_edges, edge, inside, width: tl.constexpr, EDGES: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """The first hidden layer of a tile, (edges, WIDTH): zero outside."""
    place = tl.arange(0, WIDTH)
    both = inside[:, None] & (place < width)[None, :]
    total = tl.zeros((EDGES, WIDTH), dtype=table_ptr.dtype.element_ty)
    for part in tl.static_range(3):
        row = tl.load(row_ptr + part * num_edges + edge, mask=inside, other=0).to(tl.int64)
        total += tl.load(table_ptr + row[:, None] * width + place[None, :], mask=both, other=0.0)
    return tl.maximum(total, 0.0)


@triton.jit
def _matrix(second_ptr, query, width: tl.constexpr, WIDTH: tl.constexpr):
    i = tl.arange(0, WIDTH)
    spot = query * (width * width) + i[:, None] * width + i[None, :]
    return tl.load(second_ptr + spot, mask=(i < width)[:, None] & (i < width)[None, :], other=0.0)


@triton.jit
def _score_runs(
    table_ptr, row_ptr, start_ptr, end_ptr, query_ptr, second_ptr, second_bias_ptr, last_ptr, last_bias_ptr, out_ptr,
    num_edges, width: tl.constexpr, EDGES: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(0).to(tl.int64)
    query = tl.load(query_ptr + run)
    start = tl.load(start_ptr + run)
    end = tl.load(end_ptr + run)
    place = tl.arange(0, WIDTH)
    matrix = _matrix(second_ptr, query, width, WIDTH)
    bias = tl.load(second_bias_ptr + query * width + place, mask=place < width, other=0.0)
    last = tl.load(last_ptr + query * width + place, mask=place < width, other=0.0)
    last_bias = tl.load(last_bias_ptr + query)
    for first in range(start, end, EDGES):
        edge = first + tl.arange(0, EDGES)
        inside = edge < end
        hidden = _hidden(table_ptr, row_ptr, num_edges, edge, inside, width, EDGES, WIDTH)
        deeper = tl.maximum(product(hidden, matrix, PRECISION) + bias[None, :], 0.0)
        tl.store(out_ptr + edge, tl.sum(deeper * last[None, :], axis=1) + last_bias, mask=inside)


@triton.jit
def _slopes_of_runs(
    table_ptr, row_ptr, start_ptr, end_ptr, query_ptr, second_ptr, second_bias_ptr, last_ptr, grad_ptr,
    slope_ptr, share_ptr, num_edges,
    width: tl.constexpr, EDGES: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A run's share of Σ grad·hidden⊗D, Σ grad·D and Σ grad lies in a row, D = [second layer > 0].

    The slopes of all parameters follow from these sums, without a look at any edge.
    """
    run = tl.program_id(0).to(tl.int64)
    query = tl.load(query_ptr + run)
    start = tl.load(start_ptr + run)
    end = tl.load(end_ptr + run)
    place = tl.arange(0, WIDTH)
    there = place < width
    matrix = _matrix(second_ptr, query, width, WIDTH)
    bias = tl.load(second_bias_ptr + query * width + place, mask=there, other=0.0)
    last = tl.load(last_ptr + query * width + place, mask=there, other=0.0)
    backwards = tl.trans(matrix * last[None, :])
    products = tl.zeros((WIDTH, WIDTH), dtype=tl.float32)
    sums = tl.zeros((WIDTH,), dtype=tl.float32)
    total = tl.zeros((EDGES,), dtype=tl.float32)
    for first in range(start, end, EDGES):
        edge = first + tl.arange(0, EDGES)
        inside = edge < end
        grad = tl.load(grad_ptr + edge, mask=inside, other=0.0)  # zero outside: no share in any sum
        hidden = _hidden(table_ptr, row_ptr, num_edges, edge, inside, width, EDGES, WIDTH)
        # zeros and ones are exact in any precision: the gradient stays outside of what is rounded
        active = (product(hidden, matrix, PRECISION) + bias[None, :] > 0).to(tl.float32)
        total += grad
        sums += tl.sum(active * grad[:, None], axis=0)
        products += product(tl.trans(hidden * grad[:, None]), active, PRECISION)
        front = product(active, backwards, PRECISION) * grad[:, None]
        spot = edge.to(tl.int64)[:, None] * width + place[None, :]
        tl.store(slope_ptr + spot, tl.where(hidden > 0, front, 0.0), mask=inside[:, None] & there[None, :])
    share_ptr += run * (width * width + width + 1)
    tl.store(share_ptr + place[:, None] * width + place[None, :], products, mask=there[:, None] & there[None, :])
    tl.store(share_ptr + width * width + place, sums, mask=there)
    tl.store(share_ptr + width * width + width, tl.sum(total, axis=0))


class FusedMLP(torch.autograd.Function):
    """The score of every edge, (E,), and the slopes of all that it is computed from."""

    @staticmethod
    def forward(ctx: Any, rows: EdgeRows, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.rows, ctx.precision = rows, scorer_precision()  # asked here: the way back runs in a thread of its own
        table, *parameters = tensors
        runs, count = rows.runs.bounds, rows.source.numel()
        out = table.new_empty(count)
        if count:
            _score_runs[(runs[0].numel(),)](
                table, rows.rows, *runs, *(part.contiguous() for part in parameters), out, count,
                **_shape(table, ctx.precision),
            )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows: EdgeRows = ctx.rows
        table, *parameters = ctx.saved_tensors
        second, second_bias, last, _ = parameters
        width = table.size(1)
        shares, d_table = [], None
        for piece in rows.pieces:
            runs, count = piece.bounds[0].numel(), piece.rows.size(1)
            slopes = table.new_empty(count, width)
            share = table.new_empty(runs, width * width + width + 1)
            if runs:
                _slopes_of_runs[(runs,)](
                    table, piece.rows, *piece.bounds, *(part.contiguous() for part in parameters[:3]),
                    grads[0][piece.edges].contiguous(), slopes, share, count, **_shape(table, ctx.precision),
                )  # fmt: skip
            summed = product_sum(slopes, None, None, piece.readers)
            d_table = summed if d_table is None else d_table.add_(summed)
            shares.append(share)
        by_run = shares[0] if len(shares) == 1 else torch.cat(shares)  # a single one is large: no copy of it
        totals = product_sum(by_run, None, None, rows.runs.by_group)  # (Q, H·H + H + 1)
        products, sums, d_last_bias = totals.split([width * width, width, 1], dim=1)
        slopes_of = parameter_slopes(products.reshape(second.shape), sums, second, second_bias, last)
        return None, d_table, *slopes_of, d_last_bias


def _shape(table: Tensor, precision: str) -> dict[str, Any]:
    width = table.size(1)
    padded = max(16, triton.next_power_of_2(width))  # the smallest side of a matrix unit's product
    return {"width": width, "EDGES": TILE, "WIDTH": padded, "PRECISION": precision, "num_warps": 4, "num_stages": 2}
