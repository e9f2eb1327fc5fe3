"""RGCN (Schlichtkrull et al., 2018): one block-diagonal matrix per relation.

Layers call the shared kernels instead of subclassing PyG's MessagePassing: there a mask on messages is hidden state,
here it is an argument, and the same call serves training, masking and removal.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from powerlink.graphs.edges import EdgeSlice
from powerlink.kernels.dense_product import dense_product
from powerlink.kernels.messages import related_blocks
from powerlink.models.encoders.layered import Layer, LayeredEncoder, Offer
from powerlink.models.part import RGCNSettings


class RGCNLayer(Layer):
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

    def offer(self, nodes: Tensor, relations: Tensor, edges: EdgeSlice) -> Offer:
        """Multiply nodes (sources, in) by their messages' matrices."""
        own = dense_product(nodes[: edges.num_targets], self.self_loop) + self.bias
        return Offer(related_blocks(nodes, self.blocks, edges), edges.norm, own)

    def receive(self, offer: Offer, weight: Tensor) -> Tensor:
        """Add them up, times the edges' weights (E,): (targets, out)."""
        out: Tensor = torch.tanh(self.dropout(offer.received(weight)) + offer.own)
        return out


class RGCN(LayeredEncoder):
    """Layers of RGCN over a learned embedding per entity; relations keep their own embedding."""

    Settings = RGCNSettings

    default_layers = 1  # as in the paper

    def __init__(self, settings: RGCNSettings, num_entities: int, num_relations: int, widths: tuple[int, ...]) -> None:
        super().__init__(settings, num_entities, num_relations, widths)
        blocks = settings.fitted(widths).blocks
        assert blocks is not None
        # no norm behind the layers brings vectors to a size: they must begin with one
        nn.init.normal_(self.entity, std=widths[0] ** -0.5)
        nn.init.xavier_normal_(self.relation)
        self.layers = nn.ModuleList(
            RGCNLayer(a, b, num_relations, blocks, settings.layer_dropout) for a, b in pairwise(widths)
        )
