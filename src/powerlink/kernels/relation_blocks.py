"""Messages through one block-diagonal matrix per relation, added up at their targets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from powerlink.graphs.edges import EdgeSlice, Tiles
from powerlink.kernels.fused import can_fuse
from powerlink.kernels.message_sum import MappedSums, Messages, Summable, read_rows, weights_come_first


def related_blocks(nodes: Tensor, blocks: Tensor, edges: EdgeSlice) -> Summable:
    """Return source · its relation's matrix of every edge, to be summed at the targets.

    nodes (n, B·i), blocks (2R, B, i, o); messages of width B·o. A message depends on relation and source alone, so each
    such pair is multiplied once.
    """
    if can_fuse(nodes) and nodes.dtype == torch.float32:
        messages: Tensor = TiledMessages.apply(nodes, blocks, edges.tiles)  # type: ignore[no-untyped-call]
        return Messages(messages, None, edges.tiles_to_targets)
    if weights_come_first(nodes, edges):
        crossings = edges.crossings
        multiply = partial(block_products, blocks=blocks, rows_of=crossings.per_relation)
        return MappedSums(nodes, crossings, multiply, crossings.to_targets)
    sources = read_rows(nodes, edges.pair_sources)
    return Messages(block_products(sources, blocks, edges.pairs_per_relation), None, edges.pairs_to_targets)


def block_products(rows: Tensor, blocks: Tensor, rows_of: tuple[Tensor, tuple[int, ...]]) -> Tensor:
    """Multiply rows (n, B·i), sorted by relation, by their relations' matrices: (n, B·o).

    rows_of has the relations that occur and how many rows each has. No matrix is ever copied per row.
    """
    products: Tensor = _BlockProducts.apply(rows, blocks, rows_of)  # type: ignore[no-untyped-call]
    return products


class _BlockProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, blocks: Tensor, rows_of: tuple[Tensor, tuple[int, ...]]) -> Tensor:
        ctx.save_for_backward(rows, blocks)
        ctx.rows_of = rows_of
        products = rows.new_empty(rows.size(0), blocks.size(1) * blocks.size(3))
        for relation, some in _by_relation(rows_of):
            product = torch.bmm(_by_block(rows[some], blocks), blocks[relation])  # (B, p, i) @ (B, i, o)
            _by_block(products[some], blocks).copy_(product)
        return products

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (rows, blocks), grad = ctx.saved_tensors, grads[0].contiguous()
        for_rows, for_blocks, _ = ctx.needs_input_grad
        to_rows = torch.empty_like(rows) if for_rows else None
        to_blocks = torch.zeros_like(blocks) if for_blocks else None
        for relation, some in _by_relation(ctx.rows_of):
            slopes = _by_block(grad[some], blocks)
            if to_rows is not None:
                _by_block(to_rows[some], blocks).copy_(torch.bmm(slopes, blocks[relation].transpose(1, 2)))
            if to_blocks is not None:
                torch.bmm(_by_block(rows[some], blocks).transpose(1, 2), slopes, out=to_blocks[relation])
        return to_rows, to_blocks, None


def _by_relation(rows_of: tuple[Tensor, tuple[int, ...]]) -> Iterator[tuple[int, slice]]:
    """Walk the relations, each with the rows that it has."""
    present, sizes = rows_of
    begin = 0
    for relation, size in zip(present.tolist(), sizes, strict=True):
        yield relation, slice(begin, begin + size)
        begin += size


def _by_block(rows: Tensor, blocks: Tensor) -> Tensor:
    """Look at rows (p, B·d) as (B, p, d)."""
    return rows.view(rows.size(0), blocks.size(1), -1).transpose(0, 1)


class TiledMessages(torch.autograd.Function):
    """The same messages on a GPU, (T·TILE, B·o): hundreds of small products, one per relation, would starve it."""

    @staticmethod
    def forward(ctx: Any, nodes: Tensor, blocks: Tensor, tiles: Tiles) -> Tensor:
        from powerlink.kernels.gpu.tile_product import tile_product  # noqa: PLC0415 - only where there is Triton

        ctx.save_for_backward(nodes, blocks)
        ctx.tiles = tiles
        return tile_product(nodes, blocks, tiles)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        from powerlink.kernels.gpu.product_sum import product_sum  # noqa: PLC0415
        from powerlink.kernels.gpu.tile_product import tile_outer, tile_product  # noqa: PLC0415

        (nodes, blocks), tiles, grad = ctx.saved_tensors, ctx.tiles, grads[0]
        to_nodes = to_blocks = None
        if ctx.needs_input_grad[0]:
            to_sources = tile_product(grad, blocks, tiles, transposed=True)
            to_nodes = product_sum(to_sources, None, None, tiles.sources.readers)
        if ctx.needs_input_grad[1]:
            to_tiles = tile_outer(nodes, grad, blocks, tiles)
            to_blocks = product_sum(to_tiles, None, None, tiles.relations.readers).view_as(blocks)
        return to_nodes, to_blocks, None
