"""Masks: what is learned. A number per edge, or a scorer that reads the edge's triple beside the one in question."""

from __future__ import annotations

import math
from typing import Literal, Protocol

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kernels.edge_mlp import EdgeRows, edge_mlp
from powerlink.kernels.fused import scorer_precision
from powerlink.kernels.grouped_product import grouped_product
from powerlink.kernels.incidence import Groups
from powerlink.kernels.keyed_random import keyed_uniform, keys_of
from powerlink.kernels.segments import gather

Combination = Literal["concat", "euclidean"]
SPREAD = 0.1  # how far from where they start free logits are drawn


class Mask(Protocol):
    """Something with parameters that gives every kept edge a logit."""

    parameters: list[Tensor]

    def logits(self) -> Tensor:
        """Return the logits of the kept edges: (E,)."""


class FreeLogits:
    """A free logit per kept edge, begun near zero, or near `start` (E,); its chance is that of (seed, query, edge)."""

    def __init__(self, graph: ComputationGraph, *, seed: int, start: Tensor | None = None) -> None:
        edges = graph.kept_edges
        head, relation, tail = graph.queries[edges.query].unbind(1)
        draws = keyed_uniform(keys_of(seed, head, relation, tail, graph.edge[edges.index]), 1).squeeze(1)
        drawn = SPREAD * (2 * draws - 1)
        self._logits = (drawn if start is None else start.to(drawn) + drawn).requires_grad_()
        self.parameters = [self._logits]

    def logits(self) -> Tensor:
        """Return the logits of the kept edges: (E,)."""
        return self._logits


class TripletScorer:
    """The paper's TES: an MLP on [h, r, t, ĥ, r̂, t̂] (or on three distances), a fresh one for every query.

    Its first layer is a sum of projections, W·[h, r, t, …] = W_h h + W_r r + W_t t + const: nodes and relations are
    projected once per step and gathered per edge, instead of a product per edge. The three distances add up alike.
    """

    def __init__(self, graph: ComputationGraph, *, combination: Combination, hidden: int, seed: int) -> None:
        self._graph = graph
        self._nodes, self._relations = features_of(graph)
        self._node_groups = Groups(graph.node_row)
        rows = [self._nodes[graph.head], self._relations[graph.queries[:, 1]], self._nodes[graph.tail]]
        self._target = torch.cat(rows, dim=1).unsqueeze(1)  # (Q, 1, 3d)
        self._combination = combination
        self._rows = rows_of_edges(graph, self._relations.size(0))
        inputs = 6 * self._nodes.size(1) if combination == "concat" else 3
        keys = keys_of(seed, *graph.queries.unbind(1))
        self.first, self.first_bias, self.second, self.second_bias, self.last, self.last_bias = self.parameters = [
            part.to(self._nodes.dtype).requires_grad_() for part in initial_weights(keys, inputs, hidden)
        ]
        if combination == "euclidean":
            self._to_head, self._to_relation, self._to_tail = self._distances_to_target()

    def logits(self) -> Tensor:
        """Return the logits of the kept edges: (E,)."""
        parts = self._project_distances() if self._combination == "euclidean" else self._project_triples()
        return edge_mlp(
            self._rows,
            *parts,
            second=self.second,
            second_bias=self.second_bias,
            last=self.last,
            last_bias=self.last_bias,
        )

    def _project_triples(self) -> tuple[Tensor, Tensor]:
        """Return the first layer's share of nodes, as head and as tail (n, 2, H), and of all else (Q·2R, H)."""
        width = self._nodes.size(1)
        head, relation, tail, about = self.first.split([width, width, width, 3 * width], dim=1)  # (Q, ·, H) each
        ends = torch.cat([head, tail], dim=2).unsqueeze(1)  # (Q, 1, width, 2H)
        by_node = grouped_product(self._nodes, ends, self._node_groups, precision=scorer_precision())
        # the same for all edges of a query, so it rides on the relations' rows
        target = torch.bmm(self._target, about) + self.first_bias.unsqueeze(1)  # (Q, 1, H)
        by_relation = torch.matmul(self._relations, relation) + target
        return by_node.unflatten(1, (2, -1)), by_relation.flatten(0, 1)

    def _project_distances(self) -> tuple[Tensor, Tensor]:
        """Return the same two shares for the distances' first layer."""
        head, relation, tail = self.first.unbind(1)  # (Q, H) each
        query = self._graph.query_of_node
        by_relation = self._to_relation.unsqueeze(2) * relation.unsqueeze(1) + self.first_bias.unsqueeze(1)
        as_head = self._to_head.unsqueeze(1) * gather(head, query)
        as_tail = self._to_tail.unsqueeze(1) * gather(tail, query)
        return torch.stack([as_head, as_tail], dim=1), by_relation.flatten(0, 1)

    def _distances_to_target(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return ‖h − ĥ‖ of every node (n,), ‖r − r̂‖ of every relation (Q, 2R), ‖t − t̂‖ of every node (n,)."""
        graph = self._graph
        to_head = (self._nodes - self._nodes[graph.head][graph.query_of_node]).norm(dim=1)
        to_tail = (self._nodes - self._nodes[graph.tail][graph.query_of_node]).norm(dim=1)
        return to_head, torch.cdist(self._relations[graph.queries[:, 1]], self._relations), to_tail


def mask_of(logits: Tensor) -> Tensor:
    """Return the values in (0, 1) of a learned mask, float64: (E,).

    Masks end close to 1, where float32 has a number every 6e-8: paths that the logits tell apart would cost the same.
    """
    return torch.sigmoid(logits.detach().double())


def initial_weights(keys: Tensor, inputs: int, hidden: int) -> list[Tensor]:
    """Draw weights (Q, in, out) and biases (Q, out) of a three-layer MLP per key, as torch.nn.Linear would."""
    parts = []
    for layer, (fan_in, fan_out) in enumerate([(inputs, hidden), (hidden, hidden), (hidden, 1)]):
        bound = 1 / math.sqrt(fan_in)
        layer_keys = keys_of(layer, keys)
        draws = (2 * keyed_uniform(layer_keys, (fan_in + 1) * fan_out) - 1) * bound
        weight, bias = draws.split([fan_in * fan_out, fan_out], dim=1)
        parts += [weight.reshape(-1, fan_in, fan_out).contiguous(), bias.contiguous()]
    return parts


def rows_of_edges(graph: ComputationGraph, relations: int = 0) -> EdgeRows:
    """Say which rows a kept edge gathers: its nodes', and its query's, which has one for each of some `relations`."""
    edges = graph.kept_edges
    sizes = tuple(torch.bincount(edges.query, minlength=graph.num_queries).tolist())
    slot = edges.query * relations + edges.relation if relations else edges.query
    slots = graph.num_queries * max(relations, 1)
    return EdgeRows(edges.source, edges.target, slot, graph.num_nodes, slots, sizes)


def features_of(graph: ComputationGraph) -> tuple[Tensor, Tensor]:
    """Return the whole graph's encoding that scorers read: rows of the nodes (n, d) and of the relations (2R, d)."""
    if graph.features is None:
        raise SettingsError("a scorer reads the whole graph's encoding: attach it with with_features")
    nodes, relations = graph.features
    return nodes.detach(), relations.detach()
