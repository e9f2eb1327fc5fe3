"""WGCN (Shang et al., 2019): one linear map per layer and one learned weight per relation."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from powerlink.graphs.edges import EdgeSlice
from powerlink.kernels.arrangements import nodes_to_targets, relations_of
from powerlink.kernels.dense_product import dense_product
from powerlink.kernels.message_sum import read_rows
from powerlink.kernels.messages import Messages
from powerlink.models.encoders.layered import Layer, LayeredEncoder, Offer
from powerlink.models.part import WGCNSettings


class WGCNLayer(Layer):
    """h'_t = tanh(BN(Σ_e weight·(α_r + α_r⁻¹)·W h_s)), with W h_t added if there is a self-loop.

    As published a sum grows with its node's degree, and hubs leave the batch norm little room to tell other nodes
    apart; with `degree_norm` each message is multiplied by the edge's normaliser, as in RGCN and CompGCN. Relations
    whose weights begin at 1 blur a node into its neighbours, which ranking must tell apart; with a self-loop they can
    begin small (`first_relation_weight`) and grow where neighbours help.
    """

    def __init__(
        self, width_in: int, width_out: int, num_relations: int, settings: WGCNSettings, dropout: float
    ) -> None:
        super().__init__()
        self.linear = nn.Parameter(torch.empty(width_in, width_out))
        self.relation_weight = nn.Parameter(torch.full((2 * num_relations,), float(settings.first_relation_weight)))
        self.norm = nn.BatchNorm1d(width_out)
        self.self_loop = settings.self_loop
        self.degree_norm = settings.degree_norm
        self.dropout = nn.Dropout(dropout)
        nn.init.xavier_uniform_(self.linear)

    def offer(self, nodes: Tensor, relations: Tensor, edges: EdgeSlice) -> Offer:
        """Map nodes (sources, in)."""
        shared = self.relation_weight.view(2, -1).sum(0).repeat(2).unsqueeze(1)  # a relation and its inverse add theirs
        mapped = dense_product(self.dropout(nodes), self.linear)
        own = mapped[: edges.num_targets] if self.self_loop else None
        scale = read_rows(shared, relations_of(edges)).squeeze(1)
        if self.degree_norm:
            scale = scale * edges.norm
        return Offer(Messages(mapped, nodes_to_targets(edges)), scale, own)

    def receive(self, offer: Offer, weight: Tensor) -> Tensor:
        """Add them up, times the edges' weights (E,): (targets, out)."""
        received = offer.received(weight)
        out: Tensor = torch.tanh(self.norm(received if offer.own is None else received + offer.own))
        return out


class WGCN(LayeredEncoder):
    """Layers of WGCN over a learned embedding per entity; relations keep their own embedding."""

    Settings = WGCNSettings

    def __init__(self, settings: WGCNSettings, num_entities: int, num_relations: int, widths: tuple[int, ...]) -> None:
        super().__init__(settings, num_entities, num_relations, widths)
        nn.init.xavier_normal_(self.entity)
        nn.init.xavier_normal_(self.relation)
        dropouts = [0.0, *[settings.layer_dropout] * (len(widths) - 2)]  # between layers, not before the first
        self.layers = nn.ModuleList(
            WGCNLayer(a, b, num_relations, settings, dropout)
            for (a, b), dropout in zip(pairwise(widths), dropouts, strict=True)
        )
