"""RGCN (Schlichtkrull et al., 2018): one block-diagonal matrix per relation.

Layers call the shared kernels instead of subclassing PyG's MessagePassing: there a mask on messages is hidden state,
here it is an argument, and the same call serves training, masking and removal.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from powerlink.graphs.edges import Edges, EdgeSlice
from powerlink.kernels.relation_blocks import block_sum


class RGCNLayer(nn.Module):
    """h'_t = tanh(W₀ h_t + Σ_e norm·weight·W_r h_s), W_r block-diagonal."""

    def __init__(self, width_in: int, width_out: int, num_relations: int, blocks: int, dropout: float) -> None:
        super().__init__()
        self.blocks = nn.Parameter(torch.empty(2 * num_relations, blocks, width_in // blocks, width_out // blocks))
        self.self_loop = nn.Parameter(torch.empty(width_in, width_out))
        self.bias = nn.Parameter(torch.zeros(width_out))
        self.dropout = nn.Dropout(dropout)
        bound = (6 / (width_in // blocks + width_out // blocks)) ** 0.5
        nn.init.uniform_(self.blocks, -bound, bound)
        nn.init.xavier_uniform_(self.self_loop)

    def forward(self, nodes: Tensor, edges: EdgeSlice, edge_weight: Tensor | None) -> Tensor:
        """Pass messages once: nodes (n, in) → (n, out)."""
        received = block_sum(nodes, self.blocks, edges.norm * edges.weights(edge_weight), edges)
        out: Tensor = torch.tanh(self.dropout(received) + nodes @ self.self_loop + self.bias)
        return out


class RGCN(nn.Module):
    """Layers of RGCN over a learned embedding per entity; relations keep their own embedding."""

    def __init__(
        self, num_entities: int, num_relations: int, widths: tuple[int, ...], *, blocks: int, dropout: float
    ) -> None:
        super().__init__()
        self.entity = nn.Parameter(torch.empty(num_entities, widths[0]))
        self.relation = nn.Parameter(torch.empty(2 * num_relations, widths[-1]))
        # no norm behind the layers brings vectors to a size: they must begin with one
        nn.init.normal_(self.entity, std=widths[0] ** -0.5)
        nn.init.xavier_normal_(self.relation)
        self.layers = nn.ModuleList(RGCNLayer(a, b, num_relations, blocks, dropout) for a, b in pairwise(widths))

    def scale_output(self, scale: float) -> None:
        """Leave the vectors as they are: without a norm they begin small, and that suits every decoder."""

    def forward(self, graph: Edges, edge_weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the nodes' vectors (n, d) and the relations' (2R, d)."""
        nodes = graph.rows_of(self.entity)
        for depth, layer in enumerate(self.layers, start=1):
            edges = graph.layer(len(self.layers) - depth)
            nodes = layer(nodes, edges, edge_weight)
        return nodes, self.relation
