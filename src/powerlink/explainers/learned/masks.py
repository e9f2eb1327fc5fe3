"""Masks: what is learned. The Triplet Edge Scorer reads the edge's triple beside the triple in question."""

from __future__ import annotations

import math
from typing import Literal, Protocol

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kernels.grouped_linear import grouped_linear
from powerlink.kernels.keyed_random import keyed_uniform, keys_of
from powerlink.kernels.segments import gather

Combination = Literal["concat", "euclidean"]


class Mask(Protocol):
    """Something with parameters that gives every kept edge a logit."""

    parameters: list[Tensor]

    def logits(self) -> Tensor:
        """Return the logits of the kept edges: (E,)."""
        ...


class TripletScorer:
    """The paper's TES: an MLP on [h, r, t, ĥ, r̂, t̂] (or on three distances), a fresh one for every query.

    Its first layer over the concatenation is a sum of projections, W·[h, r, t, …] = W_h h + W_r r + W_t t + const:
    nodes and relations are projected once per step and gathered per edge, instead of a product per edge.
    """

    def __init__(self, graph: ComputationGraph, *, combination: Combination, hidden: int, seed: int) -> None:
        if graph.features is None:
            raise SettingsError("the triplet scorer reads the whole graph's encoding: attach it with with_features")
        self._graph = graph
        self._edges = graph.kept_edges
        self._nodes, self._relations = (part.detach() for part in graph.features)
        self._node_sizes = tuple(graph.node_row.diff().tolist())
        self._edge_sizes = tuple(torch.bincount(self._edges.query, minlength=graph.num_queries).tolist())
        self._combination = combination
        width = self._nodes.size(1)
        inputs = 6 * width if combination == "concat" else 3
        keys = keys_of(seed, *graph.queries.unbind(1))
        self.first, self.first_bias, self.second, self.second_bias, self.last, self.last_bias = self.parameters = [
            part.to(self._nodes.dtype).requires_grad_() for part in _initial_weights(keys, inputs, hidden)
        ]
        if combination == "euclidean":
            self._distances = self._distances_to_target()

    def logits(self) -> Tensor:
        """Return the logits of the kept edges: (E,)."""
        first = self._project_distances() if self._combination == "euclidean" else self._project_triples()
        hidden = torch.relu(first)  # (E, hidden)
        hidden = grouped_linear(hidden, self.second, self._edge_sizes) + gather(self.second_bias, self._edges.query)
        hidden = torch.relu(hidden)
        out = grouped_linear(hidden, self.last, self._edge_sizes).squeeze(1)
        return out + gather(self.last_bias.squeeze(1), self._edges.query)

    def _project_triples(self) -> Tensor:
        head, relation, tail, about_head, about_relation, about_tail = self.first.chunk(6, dim=1)  # (Q, d, H) each
        graph, edges = self._graph, self._edges
        as_head = grouped_linear(self._nodes, head, self._node_sizes)  # (n, H)
        as_tail = grouped_linear(self._nodes, tail, self._node_sizes)
        by_relation = torch.matmul(self._relations, relation).flatten(0, 1)  # (Q·2R, H)
        target = (
            torch.bmm(self._nodes[graph.head].unsqueeze(1), about_head)
            + torch.bmm(self._relations[graph.queries[:, 1]].unsqueeze(1), about_relation)
            + torch.bmm(self._nodes[graph.tail].unsqueeze(1), about_tail)
        ).squeeze(1) + self.first_bias  # (Q, H), the same for all edges of a query
        # The constant rides on the relations' rows: one gather less per edge.
        by_relation = by_relation + target.repeat_interleave(self._relations.size(0), dim=0)
        slot = edges.query * self._relations.size(0) + edges.relation
        return gather(as_head, edges.source) + gather(as_tail, edges.target) + gather(by_relation, slot)

    def _project_distances(self) -> Tensor:
        return grouped_linear(self._distances, self.first, self._edge_sizes) + gather(
            self.first_bias, self._edges.query
        )

    def _distances_to_target(self) -> Tensor:
        """Return ‖h − ĥ‖, ‖r − r̂‖, ‖t − t̂‖ of every kept edge: (E, 3)."""
        graph, edges = self._graph, self._edges
        to_head = (self._nodes - self._nodes[graph.head][graph.query_of_node]).norm(dim=1)
        to_tail = (self._nodes - self._nodes[graph.tail][graph.query_of_node]).norm(dim=1)
        asked = self._relations[graph.queries[:, 1]]
        between = torch.cdist(asked, self._relations)  # (Q, 2R)
        return torch.stack([to_head[edges.source], between[edges.query, edges.relation], to_tail[edges.target]], dim=1)


def _initial_weights(keys: Tensor, inputs: int, hidden: int) -> list[Tensor]:
    """Draw weights (Q, in, out) and biases (Q, out) of a three-layer MLP per key, as torch.nn.Linear would."""
    parts = []
    for layer, (fan_in, fan_out) in enumerate([(inputs, hidden), (hidden, hidden), (hidden, 1)]):
        bound = 1 / math.sqrt(fan_in)
        layer_keys = keys_of(layer, keys)
        draws = (2 * keyed_uniform(layer_keys, (fan_in + 1) * fan_out) - 1) * bound
        weight, bias = draws.split([fan_in * fan_out, fan_out], dim=1)
        parts += [weight.reshape(-1, fan_in, fan_out).contiguous(), bias.contiguous()]
    return parts
