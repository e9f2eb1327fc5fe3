"""A frozen reference: Power-Link's mask learned as it is first written, to measure the product's against.

Every edge of a query concatenates six vectors and runs them through an MLP, the model passes messages over all edges
and nodes of the computation graph in every layer, walks are counted by multiplying a vector with a sparse matrix, and
autograd goes back through every index. One query at a time. The numbers are those of the product, whose first weights
it uses.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from powerlink.explainers.learned.masks import initial_weights
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.graphs.computation_graph import ComputationGraph, KeptEdges
from powerlink.kernels.keyed_random import keys_of
from powerlink.models.encoders.wgcn import WGCN
from powerlink.models.link_model import EncoderDecoder
from powerlink.models.protocol import Embeddings


class PlainMask:
    """Power-Link on a graph of one query and a WGCN, a step at a time."""

    def __init__(self, model: EncoderDecoder, graph: ComputationGraph, explainer: PowerLink, seed: int) -> None:
        assert graph.num_queries == 1
        assert graph.features is not None
        assert explainer.combination == "concat"
        self._model, self._graph, self._explainer = model, graph, explainer
        nodes, relations = graph.features
        self._nodes, self._relations = nodes.detach(), relations.detach()
        self._edges = graph.kept_edges
        drawn = initial_weights(keys_of(seed, *graph.queries.unbind(1)), 6 * nodes.size(1), explainer.hidden)
        self._parameters = [part[0].to(nodes.dtype).requires_grad_() for part in drawn]
        self._adam = torch.optim.Adam(self._parameters, lr=explainer.lr)
        self._counts = self._walks(nodes.new_ones(self._edges.num_edges))

    def step(self) -> None:
        """Take one step of Adam."""
        with torch.enable_grad():
            mask = torch.sigmoid(self._logits())
            loss = self._explainer.prediction_weight * self._prediction(mask)
            loss = loss + self._explainer.path_weight * self._path(mask) + self._explainer.size_weight * mask.norm()
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()

    @torch.no_grad()
    def values(self) -> Tensor:
        """Return the mask of the kept edges, float64 as the product's: (E,)."""
        return torch.sigmoid(self._logits().double())

    def _logits(self) -> Tensor:
        edges, graph = self._edges, self._graph
        own = [self._nodes[edges.source], self._relations[edges.relation], self._nodes[edges.target]]
        asked = [self._nodes[graph.head], self._relations[graph.queries[:, 1]], self._nodes[graph.tail]]
        rows = torch.cat([*own, *(row.expand(edges.num_edges, -1) for row in asked)], dim=1)  # (E, 6d)
        first, first_bias, second, second_bias, last, last_bias = self._parameters
        hidden = torch.relu(rows @ first + first_bias)
        hidden = torch.relu(hidden @ second + second_bias)
        return (hidden @ last + last_bias).squeeze(1)

    def _prediction(self, mask: Tensor) -> Tensor:
        embeddings = encode(self._model, self._edges, mask)
        return nn.functional.softplus(-self._model.score(embeddings, self._graph.triples)).sum()

    def _path(self, mask: Tensor) -> Tensor:
        """−log of the mean over lengths of the mean edge probability on the walks of a length."""
        means = [
            (sum_of / count) ** (1 / length)
            for length, (sum_of, count) in enumerate(zip(self._walks(mask), self._counts, strict=True), start=1)
            if length >= self._explainer.min_order and count > 0
        ]
        return -torch.stack(means).mean().log() if means else mask.new_zeros(())

    def _walks(self, weight: Tensor) -> list[Tensor]:
        """Return the weights' products, summed over all walks from head to tail of each length."""
        edges, size = self._edges, self._graph.num_nodes
        places = torch.stack([edges.target, edges.source])
        matrix = torch.sparse_coo_tensor(places, weight, (size, size), check_invariants=False).coalesce()
        reached = weight.new_zeros(size, 1)
        reached[self._graph.head] = 1.0
        sums = []
        for _ in range(self._explainer.order):
            reached = torch.sparse.mm(matrix, reached)
            sums.append(reached[self._graph.tail].sum())
        return sums


def encode(model: EncoderDecoder, edges: KeptEdges, mask: Tensor) -> Embeddings:
    """Pass messages over all edges and to all nodes in every layer."""
    assert isinstance(model.encoder, WGCN)
    nodes = model.encoder.entity[edges.entity]
    count = edges.num_relations
    twin = torch.where(edges.relation < count, edges.relation + count, edges.relation - count)
    for layer in model.encoder.layers:
        scale = (layer.relation_weight[edges.relation] + layer.relation_weight[twin]) * mask
        if layer.degree_norm:
            scale = scale * edges.norm
        mapped = nodes @ layer.linear
        received = torch.zeros_like(mapped).index_add(0, edges.target, mapped[edges.source] * scale.unsqueeze(1))
        nodes = torch.tanh(layer.norm(received + mapped if layer.self_loop else received))
    bias = None if model.bias is None else model.bias[edges.entity]
    return Embeddings(nodes, model.encoder.relation, bias)


def plain_mask(model: EncoderDecoder, graph: ComputationGraph, explainer: PowerLink, seed: int) -> Tensor:
    """Learn the mask of a graph of one query: (E,) over its kept edges."""
    mask = PlainMask(model, graph, explainer, seed)
    for _ in range(explainer.steps):
        mask.step()
    return mask.values()
