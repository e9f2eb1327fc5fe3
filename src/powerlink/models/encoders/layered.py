"""What the encoders share: layers that first offer messages and then receive them, weighted.

What is offered does not depend on the edges' weights. The first layer's offer is therefore the same for every mask of a
graph, and so are all relations' vectors: they are prepared once, for any number of passes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from powerlink.graphs.edges import Edges, EdgeSlice
from powerlink.kernels.messages import MappedSums, Messages
from powerlink.models.part import LayeredSettings, PartSettings


@dataclass(frozen=True, eq=False)
class Summed:
    """Messages that were added up before, piece by piece."""

    sums: Tensor  # (rows, d)

    def summed(self, weight: Tensor) -> Tensor:
        """Return the sums, whose weights are in them."""
        return self.sums


@dataclass(frozen=True, eq=False)
class Offer:
    """What a layer's edges carry, by how much the model itself scales each, and what a node adds of its own."""

    messages: Messages | MappedSums | Summed
    scale: Tensor  # (E,)
    own: Tensor | None  # (targets, out)

    def received(self, weight: Tensor) -> Tensor:
        """Return the sum of the messages, times the edges' weights (E,), at every row."""
        return self.messages.summed(self.scale * weight)


class Layer(nn.Module):
    """One round of messages."""

    def offer(self, nodes: Tensor, relations: Tensor, edges: EdgeSlice) -> Offer:
        """Make messages of nodes (sources, in) and relations (2R, in)."""
        raise NotImplementedError

    def receive(self, offer: Offer, weight: Tensor) -> Tensor:
        """Add them up, times the edges' weights (E,): (targets, out)."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a pass over a graph needs, whatever its edges' weights."""

    offer: Offer | None  # of the first layer, where there is one
    relations: list[Tensor]  # (2R, ·) as each layer reads them, and at last as they are returned


class LayeredEncoder(nn.Module):
    """Layers over a learned embedding per entity, and vectors of the relations."""

    Settings: ClassVar[type[PartSettings]] = LayeredSettings

    default_layers: ClassVar[int] = 2
    layers: nn.ModuleList

    def __init__(self, settings: PartSettings, num_entities: int, num_relations: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.entity = nn.Parameter(torch.empty(num_entities, widths[0]))
        self.relation = nn.Parameter(torch.empty(2 * num_relations, widths[-1]))

    def scale_output(self, scale: float) -> None:
        """Set how large the untrained encoder's vectors are; without a norm they begin small, as suits any decoder."""
        for part in self.layers[-1].children():
            if isinstance(part, nn.BatchNorm1d):
                nn.init.constant_(part.weight, scale)

    def size_inputs(self) -> None:
        """Let the untrained inputs be large enough for distances, which want the size asked for."""

    def relations_by_layer(self) -> list[Tensor]:
        """Return the relations' vectors as each layer reads them, and at last as they are returned: (2R, ·) each."""
        return [self.relation] * (len(self.layers) + 1)

    def prepare(self, graph: Edges) -> Prepared:
        """Do what no weight of an edge changes."""
        relations = self.relations_by_layer()
        edges = graph.layer(len(self.layers) - 1)
        rows = graph.rows_of(self.entity).to(relations[0].dtype)  # the table may be float32 where all else is float64
        return Prepared(self._layer(0).offer(rows, relations[0], edges), relations)

    def forward(self, graph: Edges, edge_weight: Tensor | None, prepared: Prepared) -> Tensor:
        """Return the nodes' vectors (n, d)."""
        offer, edges = prepared.offer, graph.layer(len(self.layers) - 1)
        assert offer is not None
        for depth in range(1, len(self.layers)):
            nodes = self._layer(depth - 1).receive(offer, edges.weights(edge_weight))
            edges = graph.layer(len(self.layers) - 1 - depth)
            offer = self._layer(depth).offer(nodes, prepared.relations[depth], edges)
        return self._layer(-1).receive(offer, edges.weights(edge_weight))

    def inputs(self, entity: Tensor) -> Tensor:
        """Return what the first layer reads of entities (n,): (n, d)."""
        return self.entity.index_select(0, entity).to(self.relation.dtype)

    def sums(self, depth: int, nodes: Tensor, edges: EdgeSlice, weight: Tensor) -> Tensor:
        """Return the sums of a layer's messages, times the edges' weights (E,), of nodes (n, d): (targets, k, d)."""
        received = self._layer(depth).offer(nodes, self.relations_by_layer()[depth], edges).received(weight)
        return received.view(edges.num_targets, -1, received.size(1))

    def after(self, depth: int, nodes: Tensor, sums: Tensor) -> Tensor:
        """Return what a layer makes of nodes (n, d) and of their messages' sums (n, k, d): (n, out)."""
        relations, layer = self.relations_by_layer()[depth], self._layer(depth)
        offer = layer.offer(nodes, relations, _no_edges(nodes, relations.size(0) // 2))
        return layer.receive(replace(offer, messages=Summed(sums.flatten(0, 1))), offer.scale)

    def in_pieces(self, graph: Edges, most: int) -> Tensor:
        """Return the same vectors (n, d) of a graph all of whose nodes are wanted, `most` edges or a node at a time.

        Only for a model that does not learn: a norm must not look at what is passed together.
        """
        relations = self.relations_by_layer()
        nodes = graph.rows_of(self.entity).to(relations[0].dtype)
        cuts = _cuts(graph.row, most)
        for depth in range(len(self.layers)):
            layer, table = self._layer(depth), relations[depth]
            nodes = torch.cat([_pass_piece(layer, nodes, table, graph, first, last) for first, last in cuts])
        return nodes

    def _layer(self, depth: int) -> Layer:
        layer = self.layers[depth]
        assert isinstance(layer, Layer)
        return layer


def _no_edges(nodes: Tensor, num_relations: int) -> EdgeSlice:
    """Return a layer's edges where there are none."""
    none = torch.empty(0, dtype=torch.long, device=nodes.device)
    count = nodes.size(0)
    return EdgeSlice(
        index=slice(0),
        source=none,
        target=none,
        relation=none,
        norm=nodes.new_empty(0),
        num_sources=count,
        num_targets=count,
        num_relations=num_relations,
        reweighed=True,
    )


def _cuts(row: Tensor, most: int) -> list[tuple[int, int]]:
    """Cut the rows of a pointer into runs first … last − 1 of at most `most` entries, or of one row."""
    cuts, first, size = list[tuple[int, int]](), 0, row.numel() - 1
    while first < size:
        last = int(torch.searchsorted(row, row[first] + most, right=True)) - 1
        last = min(max(last, first + 1), size)
        cuts.append((first, last))
        first = last
    return cuts


def _pass_piece(layer: Layer, nodes: Tensor, relations: Tensor, graph: Edges, first: int, last: int) -> Tensor:
    """Pass the messages for targets first … last − 1 alone: nodes (n, in) → (last − first, out)."""
    index = slice(int(graph.row[first]), int(graph.row[last]))
    sources, place = graph.source[index].unique(return_inverse=True)
    piece = EdgeSlice(
        index=index,
        source=place + (last - first),
        target=graph.target[index] - first,
        relation=graph.relation[index],
        norm=graph.norm[index],
        num_sources=last - first + sources.numel(),
        num_targets=last - first,
        num_relations=graph.num_relations,
        reweighed=True,
    )
    read = torch.cat([nodes[first:last], nodes.index_select(0, sources)])
    return layer.receive(layer.offer(read, relations, piece), piece.weights(None))
