"""CompGCN (Vashishth et al., 2020): messages compose a node with the relation it arrives by."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from powerlink.graphs.edges import EdgeSlice
from powerlink.kernels.arrangements import pairs_of, pairs_to_targets_by_direction
from powerlink.kernels.dense_product import dense_product
from powerlink.kernels.message_sum import read_rows
from powerlink.kernels.messages import MappedSums, Messages, related_messages
from powerlink.models.encoders.layered import Layer, LayeredEncoder, Offer
from powerlink.models.part import CompGCNSettings, Composition


def compose(nodes: Tensor, relations: Tensor, how: Composition) -> Tensor:
    """Combine node and relation vectors (n, d): product, difference or circular correlation."""
    if how == "mult" or not nodes.numel():  # an FFT refuses to transform no vectors
        return nodes * relations
    if how == "sub":
        return nodes - relations
    spectrum = torch.fft.rfft(nodes).conj() * torch.fft.rfft(relations)
    correlation: Tensor = torch.fft.irfft(spectrum, n=nodes.size(-1))
    return correlation


class CompGCNLayer(Layer):
    """h'_t = tanh(BN((W_fact Σ_facts φ + W_inv Σ_inverses φ + W_self φ(h_t, r_self)) / 3)).

    φ = compose(h_s, r)·norm·weight; its direction is decided by its relation id, so the layer is right on any subgraph.
    """

    def __init__(self, width_in: int, width_out: int, settings: CompGCNSettings) -> None:
        super().__init__()
        self.composition = settings.composition
        self.direction = nn.Parameter(torch.empty(2, width_in, width_out))  # facts, inverses
        self.self_loop = nn.Parameter(torch.empty(width_in, width_out))
        self.self_relation = nn.Parameter(torch.empty(1, width_in))
        self.relation_map = nn.Parameter(torch.empty(width_in, width_out))
        self.bias = nn.Parameter(torch.zeros(width_out)) if settings.layer_bias else None
        self.norm = nn.BatchNorm1d(width_out)
        self.dropout = nn.Dropout(settings.layer_dropout)
        for weight in (*self.direction, self.self_loop, self.self_relation, self.relation_map):
            nn.init.xavier_normal_(weight)

    def offer(self, nodes: Tensor, relations: Tensor, edges: EdgeSlice) -> Offer:
        """Compose nodes (sources, in) with relations (2R, in)."""
        selves = nodes[: edges.num_targets]
        own = dense_product(compose(selves, self.self_relation.expand_as(selves), self.composition), self.self_loop)
        return Offer(self._messages(nodes, relations, edges), edges.norm, own)

    def receive(self, offer: Offer, weight: Tensor) -> Tensor:
        """Add them up, times the edges' weights (E,): (targets, out)."""
        # Sum first and map afterwards: the map is linear, and there are fewer nodes than messages.
        width, _ = self.self_loop.shape
        mapped = dense_product(offer.received(weight).view(-1, 2 * width), self.direction.reshape(2 * width, -1))
        out = (self.dropout(mapped) + offer.own) / 3
        if self.bias is not None:
            out = out + self.bias
        return torch.tanh(self.norm(out))

    def _messages(self, nodes: Tensor, relations: Tensor, edges: EdgeSlice) -> Messages | MappedSums:
        if self.composition == "mult":
            return related_messages(nodes, relations, edges)
        pairs = pairs_of(edges)
        messages = compose(read_rows(nodes, pairs.sources), read_rows(relations, pairs.relations), self.composition)
        return Messages(messages, pairs_to_targets_by_direction(edges))


class CompGCN(LayeredEncoder):
    """Layers of CompGCN over a learned embedding per entity and per relation."""

    Settings = CompGCNSettings

    def __init__(
        self, settings: CompGCNSettings, num_entities: int, num_relations: int, widths: tuple[int, ...]
    ) -> None:
        super().__init__(settings, num_entities, num_relations, widths)
        self.relation = nn.Parameter(torch.empty(2 * num_relations, widths[0]))  # mapped from layer to layer
        nn.init.xavier_normal_(self.entity)
        nn.init.xavier_normal_(self.relation)
        self.layers = nn.ModuleList(CompGCNLayer(a, b, settings) for a, b in pairwise(widths))

    def size_inputs(self) -> None:
        """Let the untrained entities and relations be large enough for the norm's epsilon not to hide them."""
        for table in (self.entity, self.relation):
            nn.init.normal_(table, std=table.size(1) ** -0.5)

    def relations_by_layer(self) -> list[Tensor]:
        """Return the relations' vectors as each layer reads them, and at last as they are returned: (2R, ·) each."""
        tables: list[Tensor] = [self.relation]
        for layer in self.layers:
            tables.append(tables[-1] @ cast(CompGCNLayer, layer).relation_map)
        return tables
