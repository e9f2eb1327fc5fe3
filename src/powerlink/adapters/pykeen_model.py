"""PyKEENModel: PyKEEN's R-GCN and CompGCN as a LinkModel.

PyKEEN keeps the graph in buffers and computes its normalisers from them, so its own forward cannot be asked about
another graph. Its layers can: they are called here with the edges of the graph in question and the normalisers of the
whole graph. Nothing of the model is written to.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from powerlink.adapters.normaliser import find_edges
from powerlink.graphs.edges import Edges
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.segments import gather, segment_sum
from powerlink.models.protocol import Abilities, Embeddings

ROW_BUDGET = 20_000_000  # numbers of the vectors that are scored at a time


class Encoder(Protocol):
    """A PyKEEN encoder's layers over any graph; norms are by training fact."""

    num_layers: int

    def start(self) -> tuple[Tensor, Tensor]:
        """Return the input rows of all entities (N, d) and of all relations."""
        ...

    def norms(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Return what a fact's message is multiplied by towards its tail, and towards its head: (n,) each."""
        ...

    def layer(self, depth: int, x: Tensor, relations: Tensor, graph: Edges, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Pass messages once, each multiplied by its weight."""
        ...


class CompGCNEncoder(nn.Module):
    """pykeen.nn.representation.CombinedCompGCNRepresentations, layer by layer."""

    def __init__(self, combined: Any) -> None:
        super().__init__()
        self.combined = combined
        self.num_layers = len(combined.layers)

    def start(self) -> tuple[Tensor, Tensor]:
        """Return the input rows of all entities (N, d) and of all relations (2R, d), relation r at 2r and 2r + 1."""
        return self.combined.entity_representations(), self.combined.relation_representations()

    def norms(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Return what a fact's message is multiplied by in each direction; all layers weigh edges alike."""
        head, _, tail = facts.unbind(1)
        weighting = self.combined.layers[0].edge_weighting
        return weighting(source=head, target=tail), weighting(source=tail, target=head)

    def layer(self, depth: int, x: Tensor, relations: Tensor, graph: Edges, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Pass messages once: facts by one matrix, inverses by another, a node to itself by a third."""
        layer = self.combined.layers[depth]
        inverse = graph.relation >= graph.num_relations
        received = torch.zeros(x.size(0), layer.w_fwd.size(1), dtype=x.dtype, device=x.device)
        for matrix, side in ((layer.w_fwd, ~inverse), (layer.w_bwd, inverse)):
            edge = side.nonzero().squeeze(1)
            rows = 2 * (graph.relation[edge] % graph.num_relations) + (matrix is layer.w_bwd)
            messages = layer.composition(gather(x, graph.source[edge]), gather(relations, rows)) @ matrix
            received = received + segment_sum(messages * weight[edge].unsqueeze(1), graph.target[edge], x.size(0))
        out = (layer.composition(x, layer.self_loop) @ layer.w_loop + received) / 3
        if layer.bias:
            out = layer.bias(out)
        return layer.activation(layer.bn(out)), layer.w_rel(relations)


class RGCNEncoder(nn.Module):
    """pykeen.nn.message_passing.RGCNRepresentation, layer by layer."""

    def __init__(self, representation: Any, relations: Any) -> None:
        super().__init__()
        self.representation, self.relations = representation, relations
        self.num_layers = len(representation.layers)

    def start(self) -> tuple[Tensor, Tensor]:
        """Return the input rows of all entities (N, d) and of all relations (R, d)."""
        return self.representation.entity_embeddings(indices=None), self.relations(indices=None)

    def norms(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Return what a fact's message is multiplied by, the same in both directions; degrees are by relation."""
        norm = torch.ones(facts.size(0), device=facts.device)
        if self.representation.edge_weighting is not None:
            for relation in facts[:, 1].unique():
                same = facts[:, 1] == relation
                norm[same] = self.representation.edge_weighting(facts[same, 0], facts[same, 2])
        return norm, norm

    def layer(self, depth: int, x: Tensor, relations: Tensor, graph: Edges, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Pass messages once. In PyKEEN's R-GCN the `source` of an edge is who receives: a fact's head by `fwd`."""
        layer = self.representation.layers[depth]
        inverse = graph.relation >= graph.num_relations
        out = layer.self_loop(x)
        for decomposition, side in ((layer.bwd, ~inverse), (layer.fwd, inverse)):
            edge = side.nonzero().squeeze(1)
            out = decomposition(
                x=x,
                source=graph.target[edge],
                target=graph.source[edge],
                edge_type=graph.relation[edge] % graph.num_relations,
                edge_weights=weight[edge].to(x.dtype),
                accumulator=out,
            )
        return out if layer.activation is None else layer.activation(out), relations


class PyKEENModel(nn.Module):
    """A LinkModel around an encoder of PyKEEN's and its interaction function."""

    def __init__(self, encoder: Encoder, interaction: Any, whole: MessageGraph, facts: Tensor) -> None:
        super().__init__()
        self.encoder, self.interaction = encoder, interaction
        with torch.no_grad():
            to_tail, to_head = encoder.norms(facts.to(whole.device))
        inverse = whole.relation >= whole.num_relations
        self._norm = torch.where(inverse, to_head[whole.fact], to_tail[whole.fact])  # (edges of the whole graph,)
        self._whole = whole
        self.swap_inverses = isinstance(encoder, RGCNEncoder)  # it has no vectors for inverses: asks (h, r, t) instead
        relation = torch.arange(whole.num_relations, device=whole.device)
        own = torch.cat([2 * relation, 2 * relation + 1])
        self._rows = torch.cat([relation, relation]) if self.swap_inverses else own

    @property
    def num_layers(self) -> int:
        return self.encoder.num_layers

    @property
    def abilities(self) -> Abilities:
        return Abilities(PyKEENModel, score_tails=self.score_tails)

    def encode(self, graph: Edges, edge_weight: Tensor | None = None) -> Embeddings:
        """Pass messages over the graph, each multiplied by its edge's weight (num_edges,) and whole-graph norm."""
        table, relations = self.encoder.start()
        weight = self._norm[find_edges(self._whole, graph)].to(table.dtype)
        if edge_weight is not None:
            weight = weight * edge_weight
        x = gather(table, graph.entity)
        for depth in range(self.num_layers):
            x, relations = self.encoder.layer(depth, x, relations, graph, weight)
        return Embeddings(x, gather(relations, self._rows))

    def score(self, embeddings: Embeddings, triples: Tensor) -> Tensor:
        """Return the interaction's scores (n,) of triples (n, 3) of node, relation, node."""
        head, relation, tail = triples.unbind(1)
        if self.swap_inverses:
            inverse = relation >= self._whole.num_relations
            head, tail = torch.where(inverse, tail, head), torch.where(inverse, head, tail)
        nodes = embeddings.entity
        scores: Tensor = self.interaction(
            h=gather(nodes, head), r=gather(embeddings.relation, relation), t=gather(nodes, tail)
        )
        return scores.view(-1)

    def score_tails(self, embeddings: Embeddings, head: Tensor, relation: Tensor) -> Tensor:
        """Score every node as the tail of (head, relation, ?), both (n,): logits (n, num_nodes)."""
        nodes, size = embeddings.entity, embeddings.entity.size(0)
        parts = []
        for some in torch.arange(head.numel(), device=head.device).split(max(1, ROW_BUDGET // max(nodes.numel(), 1))):
            given = nodes[head[some]].unsqueeze(1)  # (b, 1, d)
            asked = embeddings.relation[relation[some]].unsqueeze(1)
            forward: Tensor = self.interaction(h=given, r=asked, t=nodes.unsqueeze(0))
            if self.swap_inverses:
                backward = self.interaction(h=nodes.unsqueeze(0), r=asked, t=given)
                inverse = (relation[some] >= self._whole.num_relations).unsqueeze(1)
                forward = torch.where(inverse, backward, forward)
            parts.append(forward)
        return torch.cat(parts) if parts else nodes.new_zeros(0, size)
