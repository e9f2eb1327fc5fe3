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


class WGCNLayer(Layer):
    """h'_t = tanh(BN(Σ_e weight·(α_r + α_r⁻¹)·W h_s)), with W h_t added if there is a self-loop.

    As published a sum grows with its node's degree, and hubs leave the batch norm little room to tell other nodes
    apart; with `degree_norm` each message is multiplied by the edge's normaliser, as in RGCN and CompGCN. Relations
    whose weights begin at 1 blur a node into its neighbours, which ranking must tell apart; with a self-loop they can
    begin small (`first_relation_weight`) and grow where neighbours help.
    """

    def __init__(
        self,
        width_in: int,
        width_out: int,
        num_relations: int,
        *,
        self_loop: bool,
        degree_norm: bool,
        first_relation_weight: float,
        dropout: float,
    ) -> None:
        super().__init__()
        self.linear = nn.Parameter(torch.empty(width_in, width_out))
        self.relation_weight = nn.Parameter(torch.full((2 * num_relations,), float(first_relation_weight)))
        self.norm = nn.BatchNorm1d(width_out)
        self.self_loop = self_loop
        self.degree_norm = degree_norm
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

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        widths: tuple[int, ...],
        *,
        self_loop: bool,
        degree_norm: bool,
        first_relation_weight: float,
        dropout: float,
    ) -> None:
        super().__init__()
        self.entity = nn.Parameter(torch.empty(num_entities, widths[0]))
        self.relation = nn.Parameter(torch.empty(2 * num_relations, widths[-1]))
        nn.init.xavier_normal_(self.entity)
        nn.init.xavier_normal_(self.relation)
        self.layers = nn.ModuleList(
            WGCNLayer(
                a,
                b,
                num_relations,
                self_loop=self_loop,
                degree_norm=degree_norm,
                first_relation_weight=first_relation_weight,
                dropout=dropout if depth else 0.0,  # between layers, not before the first
            )
            for depth, (a, b) in enumerate(pairwise(widths))
        )

    def scale_output(self, scale: float) -> None:
        """Set how large the vectors of the untrained encoder are."""
        last = self.layers[-1]
        assert isinstance(last, WGCNLayer)
        nn.init.constant_(last.norm.weight, scale)
