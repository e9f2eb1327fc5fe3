"""Gathered rows times block-diagonal matrices, tile by tile; every tile has a matrix of its own."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from powerlink.kernels.arrangements import TILE, Tiles
from powerlink.kernels.fused import product_precision


@triton.jit
def _tile_product(
    rows_ptr, index_ptr, blocks_ptr, relation_ptr, out_ptr,
    BLOCKS: tl.constexpr, size_in: tl.constexpr, size_out: tl.constexpr,
    stride_in: tl.constexpr, stride_out: tl.constexpr, GATHER: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """One tile, one block: (ROWS, size_in) @ (size_in, size_out)."""
    block = tl.program_id(1)
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    row = place
    if GATHER:
        row = tl.load(index_ptr + place)
    i, o = tl.arange(0, IN), tl.arange(0, OUT)
    a = tl.load(
        rows_ptr + row[:, None] * (BLOCKS * size_in) + block * size_in + i[None, :],
        mask=(i < size_in)[None, :] & (row >= 0)[:, None],
        other=0.0,
    )
    matrix_ptr = blocks_ptr + (tl.load(relation_ptr + tl.program_id(0)) * BLOCKS + block) * (size_in * size_out)
    matrix = tl.load(
        matrix_ptr + i[:, None] * stride_in + o[None, :] * stride_out,
        mask=(i < size_in)[:, None] & (o < size_out)[None, :],
        other=0.0,
    )
    product = tl.dot(a, matrix, input_precision=PRECISION)
    spot = place[:, None] * (BLOCKS * size_out) + block * size_out + o[None, :]
    tl.store(out_ptr + spot, product, mask=(o < size_out)[None, :] & (place >= 0)[:, None])


@triton.jit
def _tile_outer(
    rows_ptr, index_ptr, grad_ptr, out_ptr, BLOCKS: tl.constexpr, size_in: tl.constexpr, size_out: tl.constexpr,
    PRECISION: tl.constexpr, ROWS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """One tile, one block: (size_in, ROWS) @ (ROWS, size_out), the slope of the tile's matrix."""
    block = tl.program_id(1)
    place = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    row = tl.load(index_ptr + place)
    i, o = tl.arange(0, IN), tl.arange(0, OUT)
    a = tl.load(
        rows_ptr + row[None, :] * (BLOCKS * size_in) + block * size_in + i[:, None],
        mask=(i < size_in)[:, None] & (row >= 0)[None, :],
        other=0.0,
    )
    grad = tl.load(
        grad_ptr + place[:, None] * (BLOCKS * size_out) + block * size_out + o[None, :],
        mask=(o < size_out)[None, :] & (place >= 0)[:, None],
        other=0.0,
    )
    spot = (tl.program_id(0).to(tl.int64) * BLOCKS + block) * (size_in * size_out) + i[:, None] * size_out + o[None, :]
    tl.store(
        out_ptr + spot,
        tl.dot(a, grad, input_precision=PRECISION),
        mask=(i < size_in)[:, None] & (o < size_out)[None, :],
    )


def tile_product(rows: Tensor, blocks: Tensor, tiles: Tiles, *, transposed: bool = False) -> Tensor:
    """Multiply the sources of all tiles by their relations' blocks.

    rows (n, B·i), blocks (2R, B, i, o); returns (T·TILE, B·o).
    Transposed, rows (T·TILE, B·o) are tiles already and are multiplied by the transposed blocks: (T·TILE, B·i).
    """
    count, size_in, size_out = blocks.shape[1:]
    strides = (size_out, 1)
    if transposed:
        size_in, size_out, strides = size_out, size_in, (1, size_out)
    num_tiles = tiles.relations.index.numel()
    out = rows.new_empty(num_tiles * TILE, count * size_out)
    if out.numel():
        _tile_product[(num_tiles, count)](
            rows.contiguous(), tiles.sources.index, blocks.contiguous(), tiles.relations.index, out,
            BLOCKS=count, size_in=size_in, size_out=size_out, stride_in=strides[0], stride_out=strides[1],
            GATHER=not transposed, PRECISION=product_precision(),
            ROWS=TILE, IN=_side(size_in), OUT=_side(size_out), num_warps=4,
        )  # fmt: skip
    return out


def tile_outer(rows: Tensor, grad: Tensor, blocks: Tensor, tiles: Tiles) -> Tensor:
    """Return the slopes of each tile's own matrix: (T, B·i·o)."""
    count, size_in, size_out = blocks.shape[1:]
    num_tiles = tiles.relations.index.numel()
    out = rows.new_empty(num_tiles, count * size_in * size_out)
    if out.numel():
        _tile_outer[(num_tiles, count)](
            rows.contiguous(), tiles.sources.index, grad.contiguous(), out,
            BLOCKS=count, size_in=size_in, size_out=size_out,
            PRECISION=product_precision(), ROWS=TILE, IN=_side(size_in), OUT=_side(size_out), num_warps=4,
        )  # fmt: skip
    return out


def _side(size: int) -> int:
    return max(16, int(triton.next_power_of_2(size)))  # the smallest side of a matrix unit's product
