"""Messages through one block-diagonal matrix per relation, added up at their targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from powerlink.graphs.edges import EdgeSlice, Tiles
from powerlink.kernels.fused import can_fuse
from powerlink.kernels.message_sum import Messages, sum_readers


def related_blocks(nodes: Tensor, blocks: Tensor, edges: EdgeSlice) -> Messages:
    """Return source · its relation's matrix of every edge, to be summed at the targets.

    nodes (n, B·i), blocks (2R, B, i, o); messages of width B·o. A message depends on relation and source alone, so each
    such pair is multiplied once.
    """
    if can_fuse(nodes) and nodes.dtype == torch.float32:
        messages: Tensor = TiledMessages.apply(nodes, blocks, edges.tiles)  # type: ignore[no-untyped-call]
        return Messages(messages, None, edges.tiles_to_targets)
    return Messages(block_messages(nodes, blocks, edges), None, edges.pairs_to_targets)


def block_messages(nodes: Tensor, blocks: Tensor, edges: EdgeSlice) -> Tensor:
    """Multiply relation by relation: (P, B·o). No matrix is ever copied per edge."""
    messages: Tensor = _BlockMessages.apply(nodes, blocks, edges)  # type: ignore[no-untyped-call]
    return messages


class _BlockMessages(torch.autograd.Function):
    """A relation's sources are gathered when they are multiplied, there and back: no table of all of them exists."""

    @staticmethod
    def forward(ctx: Any, nodes: Tensor, blocks: Tensor, edges: EdgeSlice) -> Tensor:
        ctx.save_for_backward(nodes, blocks)
        ctx.edges = edges
        messages = nodes.new_empty(edges.pair_sources.index.numel(), blocks.size(1) * blocks.size(3))
        for relation, pairs, sources in _by_relation(nodes, blocks, edges):
            _by_block(messages[pairs], blocks).copy_(torch.bmm(sources, blocks[relation]))  # (B, p, i) @ (B, i, o)
        return messages

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (nodes, blocks), edges, grad = ctx.saved_tensors, ctx.edges, grads[0].contiguous()
        for_nodes, for_blocks, _ = ctx.needs_input_grad
        to_sources = nodes.new_empty(grad.size(0), nodes.size(1)) if for_nodes else None
        to_blocks = torch.zeros_like(blocks) if for_blocks else None
        for relation, pairs, sources in _by_relation(nodes, blocks, edges):
            slopes = _by_block(grad[pairs], blocks)
            if to_sources is not None:
                _by_block(to_sources[pairs], blocks).copy_(torch.bmm(slopes, blocks[relation].transpose(1, 2)))
            if to_blocks is not None:
                torch.bmm(sources.transpose(1, 2), slopes, out=to_blocks[relation])
        return None if to_sources is None else sum_readers(to_sources, edges.pair_sources), to_blocks, None


def _by_relation(nodes: Tensor, blocks: Tensor, edges: EdgeSlice) -> Iterator[tuple[int, slice, Tensor]]:
    """Walk the relations: each with the pairs that it has and their sources, block by block (B, p, i)."""
    present, sizes = edges.pairs_per_relation
    begin = 0
    for relation, size in zip(present.tolist(), sizes, strict=True):
        pairs = slice(begin, begin + size)
        yield relation, pairs, _by_block(nodes.index_select(0, edges.pair_sources.index[pairs]), blocks)
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
