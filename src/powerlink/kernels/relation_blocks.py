"""Messages through one block-diagonal matrix per relation, added up at their targets."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from powerlink.graphs.edges import EdgeSlice
from powerlink.kernels import arrangements, crossings
from powerlink.kernels.arrangements import Tiles
from powerlink.kernels.fused import can_fuse
from powerlink.kernels.incidence import Lookup, Stretches
from powerlink.kernels.message_sum import MappedSums, Messages, sum_readers, weights_come_first


def related_blocks(nodes: Tensor, blocks: Tensor, edges: EdgeSlice) -> Messages | MappedSums:
    """Return source · its relation's matrix of every edge, to be summed at the targets.

    nodes (n, B·i), blocks (2R, B, i, o); messages of width B·o. A message depends on relation and source alone, so each
    such pair is multiplied once.
    """
    if can_fuse(nodes) and nodes.dtype == torch.float32:
        tiled: Tensor = TiledMessages.apply(nodes, blocks, arrangements.tiles_of(edges))  # type: ignore[no-untyped-call]
        return Messages(tiled, arrangements.tiles_to_targets(edges))
    if weights_come_first(nodes, edges):
        by_relation = crossings.crossings_of(edges).by_relation
        multiply = partial(block_products, blocks=blocks, by_relation=by_relation)
        return MappedSums(nodes, crossings.nodes_to_crossings(edges), multiply, crossings.crossings_to_targets(edges))
    pairs = arrangements.pairs_of(edges)
    messages = block_products(nodes, blocks, pairs.by_relation, pairs.sources)
    return Messages(messages, arrangements.pairs_to_targets(edges))


def block_products(table: Tensor, blocks: Tensor, by_relation: Stretches, lookup: Lookup | None = None) -> Tensor:
    """Multiply rows (n, B·i), sorted by relation, by their relations' matrices: (n, B·o).

    With a lookup, the rows are those it reads of the table, a relation's at a time: no table of all of them exists. No
    matrix is ever copied per row.
    """
    products: Tensor = _BlockProducts.apply(table, blocks, by_relation, lookup)  # type: ignore[no-untyped-call]
    return products


class _BlockProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, blocks: Tensor, by_relation: Stretches, lookup: Lookup | None) -> Tensor:
        ctx.save_for_backward(table, blocks)
        ctx.by_relation, ctx.lookup = by_relation, lookup
        count = table.size(0) if lookup is None else lookup.index.numel()
        products = table.new_empty(count, blocks.size(1) * blocks.size(3))
        for relation, some in by_relation:
            product = torch.bmm(
                _by_block(_read(table, some, lookup), blocks), blocks[relation]
            )  # (B, p, i) @ (B, i, o)
            _by_block(products[some], blocks).copy_(product)
        return products

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (table, blocks), lookup, grad = ctx.saved_tensors, ctx.lookup, grads[0].contiguous()
        for_table, for_blocks, *_ = ctx.needs_input_grad
        to_rows = table.new_empty(grad.size(0), table.size(1)) if for_table else None
        to_blocks = torch.zeros_like(blocks) if for_blocks else None
        for relation, some in ctx.by_relation:
            slopes = _by_block(grad[some], blocks)
            if to_rows is not None:
                _by_block(to_rows[some], blocks).copy_(torch.bmm(slopes, blocks[relation].transpose(1, 2)))
            if to_blocks is not None:
                rows = _by_block(_read(table, some, lookup), blocks)
                torch.bmm(rows.transpose(1, 2), slopes, out=to_blocks[relation])
        to_table = to_rows if to_rows is None or lookup is None else sum_readers(to_rows, lookup)
        return to_table, to_blocks, None, None


def _read(table: Tensor, some: slice, lookup: Lookup | None) -> Tensor:
    return table[some] if lookup is None else table.index_select(0, lookup.index[some])


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
