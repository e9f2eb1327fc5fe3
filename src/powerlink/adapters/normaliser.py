"""What a layer divides by: fixed on the whole graph, or computed anew from the edges that are there.

Degrees, means and attention divide a message by something that all of a node's incoming edges decide. Take an edge away
and there are two readings of what becomes of the others:

* **fixed** (the paper's): they keep what they had. An edge that is absent still takes its place in the normaliser and
  carries nothing, so it is put back with weight zero; its source has the vector it has in the whole graph.
* **recomputed**: the normaliser is that of the edges that are left, as if the absent one had never been.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from powerlink.errors import MismatchError
from powerlink.graphs.edges import Edges, expand_rows, find_sorted
from powerlink.graphs.message_graph import MessageGraph

Normaliser = Literal["fixed", "recomputed"]


@dataclass(frozen=True, eq=False)
class Given:
    """The edges one pass of the encoder runs over: the graph's own, then absent ones that only normalise."""

    entity: Tensor  # (nodes,) the graph's, then sources of absent edges
    edge_index: Tensor  # (2, edges)
    edge: Tensor  # (edges,) of the whole graph
    own: Tensor  # (edges of the graph that carry messages,) their place in the graph
    absent: int  # nodes behind the graph's

    def only(self, kept: Tensor) -> Given:
        """Return the same nodes with some of the edges, (edges,) bool."""
        own = self.own[kept[: self.own.numel()]]
        return replace(self, edge_index=self.edge_index[:, kept], edge=self.edge[kept], own=own)


def edges_given(
    whole: MessageGraph,
    graph: Edges,
    edge_weight: Tensor | None,
    carries: Tensor,
    levels: int,
    normaliser: Normaliser,
) -> Given:
    """Choose the edges to pass: all that carry something, and, for a fixed normaliser, those that are absent.

    `carries` (edges of the whole graph,) bool: a message runs along this edge. Normalisers of nodes at level `levels`
    or more do not matter: those are only read from.
    """
    edge = find_edges(whole, graph)
    there = carries[edge]
    if edge_weight is not None:
        there = there & (edge_weight != 0)
    own = there.nonzero().squeeze(1)
    source, target, edge, entity = graph.source[own], graph.target[own], edge[own], graph.entity
    # A copy may read itself through its original, whose row is then the same; layers know self-loops by their ends.
    source = torch.where(entity[source] == entity[target], target, source)
    if normaliser == "recomputed":
        return Given(entity, torch.stack([source, target]), edge, own, 0)
    # What is lacking into every node whose normalisers matter, and nodes for where that comes from.
    nodes = torch.arange(graph.num_nodes, device=graph.device)
    if graph.level is not None:
        nodes = nodes[graph.level < levels]
    owner, behind = expand_rows(whole.row, graph.entity[nodes])
    present = (target * whole.num_edges + edge).unique()
    lacking = carries[behind] & ~find_sorted(present, nodes[owner] * whole.num_edges + behind)[1]
    to, behind = nodes[owner[lacking]], behind[lacking]
    sources, place = whole.source[behind].unique(return_inverse=True)
    return Given(
        torch.cat([entity, sources]),
        torch.stack([torch.cat([source, graph.num_nodes + place]), torch.cat([target, to])]),
        torch.cat([edge, behind]),
        own,
        sources.numel(),
    )


def find_edges(whole: MessageGraph, graph: Edges) -> Tensor:
    """Find the edge of the whole graph behind each edge of a part of it: (num_edges,)."""
    relations = 2 * whole.num_relations
    keys = whole.pair_key * relations + whole.relation  # ascending: the graph is sorted so
    ends = graph.entity[graph.target] * whole.num_nodes + graph.entity[graph.source]
    edge, found = find_sorted(keys, ends * relations + graph.relation)
    if not bool(found.all()):
        raise MismatchError("the graph has edges that are not in the graph the model was adapted to")
    return edge
