"""Messages through one block-diagonal matrix per relation."""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.graphs.edges import EdgeSlice
from powerlink.kernels.segments import gather


def block_messages(nodes: Tensor, blocks: Tensor, edges: EdgeSlice) -> Tensor:
    """Multiply each edge's source vector by its relation's blocks.

    nodes (n, B·i), blocks (2R, B, i, o); returns (E, B·o) in the order of the edges. Edges are grouped by relation,
    so each relation costs one batched product and no matrix is ever copied per edge.
    """
    order, sizes, present = edges.by_relation
    count, width_in, width_out = blocks.shape[1:]
    sources = gather(nodes, edges.source.index_select(0, order)).view(-1, count, width_in).transpose(0, 1)
    parts = [
        torch.bmm(part, matrix)  # (B, e, i) @ (B, i, o)
        for part, matrix in zip(sources.split(sizes, dim=1), blocks.index_select(0, present).unbind(), strict=True)
    ]
    grouped = torch.cat(parts, dim=1) if parts else sources.new_zeros(count, 0, width_out)
    flat = grouped.transpose(0, 1).reshape(-1, count * width_out)
    return torch.empty_like(flat).index_copy(0, order, flat)
