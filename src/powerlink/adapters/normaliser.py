"""What a layer divides by: fixed on the whole graph, or computed anew from the edges that are there.

Degrees, means and attention divide a message by something that all of a node's incoming edges decide. Take an edge away
and there are two readings of what becomes of the others:

* **fixed** (the paper's): they keep what they had. An edge that is absent still takes its place in the normaliser and
  carries nothing, so it is put back with weight zero; its source has the vector it has in the whole graph.
* **recomputed**: the normaliser is that of the edges that are left, as if the absent one had never been.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from powerlink.graphs.edges import Edges, expand_rows, find_sorted
from powerlink.graphs.message_graph import MessageGraph

Normaliser = Literal["fixed", "recomputed"]


@dataclass(frozen=True, eq=False)
class Given:
    """The edges one pass of the encoder runs over: the graph's own, then absent ones that only normalise."""

    entity: Tensor  # (nodes,) the graph's, then sources of absent edges
    edge_index: Tensor  # (2, edges)
    edge_type: Tensor  # (edges,)
    own: Tensor  # (edges of the graph that are passed,) their place in the graph
    absent: int  # nodes behind the graph's


@dataclass(frozen=True, eq=False)
class Absent:
    """The edges of the whole graph that a graph lacks, with their sources as nodes behind the graph's own."""

    entity: Tensor  # (G,) distinct sources
    source: Tensor  # (A,) node: num_nodes + place in `entity`
    target: Tensor  # (A,) node
    relation: Tensor  # (A,)


def edges_given(
    whole: MessageGraph,
    graph: Edges,
    edge_weight: Tensor | None,
    edge_types: Tensor,
    levels: int,
    normaliser: Normaliser,
) -> Given:
    """Choose the edges to pass: all that carry something, and, for a fixed normaliser, those that are absent.

    `edge_types` (2R,): what the layers call each relation; −1 for those that carry no message.
    """
    passed = edge_types >= 0
    carries = passed[graph.relation]
    if edge_weight is not None:
        carries = carries & (edge_weight != 0)
    own = carries.nonzero().squeeze(1)
    columns = graph.source[own], graph.target[own], graph.relation[own], graph.entity
    count = 0
    if normaliser == "fixed":
        absent = absent_edges(whole, passed, graph, own, levels)
        count = absent.entity.numel()
        behind = absent.source, absent.target, absent.relation, absent.entity
        columns = tuple(torch.cat(pair) for pair in zip(columns, behind, strict=True))  # type: ignore[assignment]
    source, target, relation, entity = columns
    return Given(entity, torch.stack([source, target]), edge_types[relation], own, count)


def absent_edges(whole: MessageGraph, passed: Tensor, graph: Edges, present: Tensor, levels: int) -> Absent:
    """Find what a graph with only the edges `present` (index) lacks into every node whose incoming edges matter.

    `passed` (2R,) bool: the relations that carry messages. A node at level `levels` or more is only read from.
    """
    relations, size = 2 * whole.num_relations, whole.num_nodes
    nodes = torch.arange(graph.num_nodes, device=graph.device)
    if graph.level is not None:
        nodes = nodes[graph.level < levels]
    owner, edge = expand_rows(whole.row, graph.entity[nodes])
    target = nodes[owner]
    used = passed[whole.relation[edge]]
    target, edge = target[used], edge[used]

    keys = (whole.target * size + whole.source) * relations + whole.relation  # ascending: the graph is sorted so
    source_entity, target_entity = graph.entity[graph.source[present]], graph.entity[graph.target[present]]
    wanted = (target_entity * size + source_entity) * relations + graph.relation[present]
    place, known = find_sorted(keys, wanted)
    here = (graph.target[present] * whole.num_edges + place)[known].unique()
    lacking = ~find_sorted(here, target * whole.num_edges + edge)[1]
    target, edge = target[lacking], edge[lacking]
    entity, node = whole.source[edge].unique(return_inverse=True)
    return Absent(entity, graph.num_nodes + node, target, whole.relation[edge])
