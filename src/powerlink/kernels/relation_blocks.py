"""Messages through one block-diagonal matrix per relation, added up at their targets."""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.graphs.edges import TILE, EdgeSlice
from powerlink.kernels.fused import can_fuse
from powerlink.kernels.message_sum import message_sum, read_rows


def block_sum(nodes: Tensor, blocks: Tensor, weight: Tensor, edges: EdgeSlice) -> Tensor:
    """Return Σ weight·(source · its relation's matrix) at every target.

    nodes (n, B·i), blocks (2R, B, i, o), weight (E,); returns (n, B·o). A message depends on relation and source alone,
    so each such pair is multiplied once.
    """
    if can_fuse(nodes):
        return message_sum(tiled_messages(nodes, blocks, edges), weight, edges.tiles_to_targets)
    return message_sum(block_messages(nodes, blocks, edges), weight, edges.pairs_to_targets)


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


def tiled_messages(nodes: Tensor, blocks: Tensor, edges: EdgeSlice) -> Tensor:
    """Multiply all tiles at once: (T·TILE, B·o). Hundreds of small products, one per relation, would starve a GPU."""
    count, width_in, width_out = blocks.shape[1:]
    sources = read_rows(nodes, edges.tiles.sources).view(-1, TILE, count, width_in)
    matrices = read_rows(blocks.flatten(1), edges.tiles.relations).view(-1, width_in, width_out)  # (T·B, i, o)
    product = torch.bmm(sources.transpose(1, 2).reshape(-1, TILE, width_in), matrices)  # (T·B, TILE, o)
    return product.view(-1, count, TILE, width_out).transpose(1, 2).reshape(-1, count * width_out)
