"""What a few nodes' encodings depend on, sorted so that every layer reads and computes the first rows only.

A graph neural network of L layers computes a node from its incoming edges, those edges' sources from theirs, and so on.
For head and tail of a query, the last layer has two rows to compute and the first a few hundred; the other thousands of
its computation graph are never read.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.edges import Edges


@dataclass(frozen=True, eq=False, kw_only=True)
class EdgesByLevel(Edges):
    """Nodes sorted by their distance to the wanted ones, and edges by their targets: a layer needs the first of both.

    A model may return the encodings of the wanted nodes, the first ones, alone.
    """

    nodes_within: tuple[int, ...]  # how many nodes have a level of at most 0, 1, …, layers
    edges_within: tuple[int, ...]  # how many edges lead to one of a level of at most 0, 1, …, layers − 1

    def _needed(self, remaining: int) -> tuple[slice, int, int]:
        """Say which edges a layer needs, how many nodes it reads and how many it computes: the first of each."""
        return slice(self.edges_within[remaining]), self.nodes_within[remaining + 1], self.nodes_within[remaining]


@dataclass(frozen=True, eq=False, kw_only=True)
class Focus(EdgesByLevel):
    """The part of a graph that some nodes' encodings depend on."""

    edge: Tensor  # (num_edges,) place in the graph it was cut out of


def count_within(level: Tensor, depths: int) -> tuple[int, ...]:
    """Count the ascending levels of at most 0, 1, …, depths − 1."""
    return tuple(torch.searchsorted(level, torch.arange(depths, device=level.device), right=True).tolist())


def focus(graph: Edges, wanted: Tensor, layers: int) -> tuple[Focus, Tensor]:
    """Cut out what the encodings of the wanted nodes depend on, and say where those nodes are in it.

    Exact for every model of that many layers in which a node reads only its incoming edges.
    """
    level = torch.full_like(graph.entity, layers + 1)
    level[wanted] = 0
    for depth in range(1, layers + 1):
        read = graph.source[level[graph.target] < depth]
        level[read] = level[read].clamp(max=depth)
    node = level.sort(stable=True).indices[: int((level <= layers).sum())]
    place = torch.empty_like(level)
    place[node] = torch.arange(node.numel(), device=graph.device)

    edge = (level[graph.target] < layers).nonzero().squeeze(1)
    target, order = place[graph.target[edge]].sort(stable=True)
    edge = edge[order]
    levels = level[node]
    return Focus(
        num_relations=graph.num_relations,
        entity=graph.entity[node],
        source=place[graph.source[edge]],
        target=target,
        relation=graph.relation[edge],
        norm=graph.norm[edge],
        level=levels,
        edge=edge,
        nodes_within=count_within(levels, layers + 1),
        edges_within=count_within(levels[target], layers),
    ), place[wanted]
