"""Messages through one block-diagonal matrix per relation, added up at their targets."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from powerlink.graphs.edges import EdgeSlice, Tiles
from powerlink.kernels.fused import can_fuse
from powerlink.kernels.message_sum import Messages, read_rows


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
    present, sizes = edges.pairs_per_relation
    count, width_in, width_out = blocks.shape[1:]
    sources = read_rows(nodes, edges.pair_sources).view(-1, count, width_in).transpose(0, 1)  # (B, P, i)
    parts = [
        torch.bmm(part, matrix)  # (B, p, i) @ (B, i, o)
        for part, matrix in zip(sources.split(sizes, dim=1), blocks.index_select(0, present).unbind(), strict=True)
    ]
    grouped = torch.cat(parts, dim=1) if parts else sources.new_zeros(count, 0, width_out)
    return grouped.transpose(0, 1).reshape(-1, count * width_out)


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
