"""Messages through one block-diagonal matrix per relation."""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.graphs.edges import EdgeSlice
from powerlink.kernels.segments import gather


def block_messages(nodes: Tensor, blocks: Tensor, edges: EdgeSlice) -> Tensor:
    """Multiply the source of each (relation, source) pair by its relation's blocks.

    nodes (n, B·i), blocks (2R, B, i, o); returns (P, B·o). Pairs are sorted by relation, so each relation costs one
    batched product and no matrix is ever copied per edge.
    """
    present, sizes = edges.pairs_per_relation
    count, width_in, width_out = blocks.shape[1:]
    sources = gather(nodes, edges.pair_source).view(-1, count, width_in).transpose(0, 1)  # (B, P, i)
    parts = [
        torch.bmm(part, matrix)  # (B, p, i) @ (B, i, o)
        for part, matrix in zip(sources.split(sizes, dim=1), blocks.index_select(0, present).unbind(), strict=True)
    ]
    grouped = torch.cat(parts, dim=1) if parts else sources.new_zeros(count, 0, width_out)
    return grouped.transpose(0, 1).reshape(-1, count * width_out)
