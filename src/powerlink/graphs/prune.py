"""Pruning a computation graph: drop hubs, then all that hangs by a thread. A boolean over edges, never a new graph."""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph


def prune(graph: ComputationGraph, *, hub_limit: int | None, core: int, max_length: int) -> ComputationGraph:
    """Keep the edges outside hubs and inside the k-core.

    Head and tail are exempt from both. Where that would cut the last path of at most `max_length` hops, the query keeps
    its whole graph: a pruned-away explanation is no explanation.
    """
    exempt = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
    exempt[graph.head] = True
    exempt[graph.tail] = True

    kept = torch.ones_like(graph.kept)
    if hub_limit is not None:
        hub = (graph.row.diff() > hub_limit) & ~exempt
        kept &= ~(hub[graph.source] | hub[graph.target])
    kept = k_core(graph, kept, core, exempt)

    apart = ~connected(graph, kept, max_length)
    if apart.any():
        lost = apart & connected(graph, torch.ones_like(kept), max_length)
        kept = kept | lost[graph.query_of_edge]
    return graph.pruned_to(kept)


def k_core(graph: ComputationGraph, kept: Tensor, core: int, exempt: Tensor) -> Tensor:
    """Drop, until none is left, the edges of nodes with fewer than `core` distinct neighbours.

    A fact and its inverse, parallel facts and self-loops count once or not at all: the k-core is that of the simple
    undirected projection.
    """
    # Edges are sorted by (target, source), so parallel edges are neighbours: number each distinct pair.
    pairs, pair_of_edge = graph.pair_key.unique_consecutive(return_inverse=True)
    target, source = pairs // graph.num_nodes, pairs % graph.num_nodes
    alive = torch.zeros_like(pairs, dtype=torch.bool)
    alive[pair_of_edge[kept]] = True
    simple = alive & (source != target)
    while True:
        degree = torch.bincount(target[simple], minlength=graph.num_nodes)
        thin = (degree > 0) & (degree < core) & ~exempt
        if not thin.any():
            break
        simple &= ~(thin[source] | thin[target])
    inside = torch.bincount(target[simple], minlength=graph.num_nodes) > 0
    alive &= simple | ((source == target) & (inside[target] | exempt[target]))
    return kept & alive[pair_of_edge]


def connected(graph: ComputationGraph, kept: Tensor, max_length: int) -> Tensor:
    """Tell for each query whether a path of at most `max_length` kept edges leads from head to tail: (Q,) bool."""
    source, target = graph.source[kept], graph.target[kept]
    reached = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
    reached[graph.head] = True
    for _ in range(max_length):
        if reached[graph.tail].all():
            break
        reached = reached.index_put((target[reached[source]],), reached.new_ones(()))
    return reached[graph.tail]
