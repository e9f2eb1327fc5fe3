"""Cutting queries into batches that fit a memory budget."""

from __future__ import annotations

from torch import Tensor

from powerlink.graphs.computation_graph import edge_bounds
from powerlink.graphs.message_graph import MessageGraph

EDGES_PER_BATCH = 400_000  # a scorer of width 64 and a model of width 128 then stay near 2 GB
MOST_QUERIES = 32  # what a kill can cost at most


def batches(
    messages: MessageGraph, queries: Tensor, hops: int, *, edge_budget: int = EDGES_PER_BATCH, most: int = MOST_QUERIES
) -> list[Tensor]:
    """Cut queries (Q, 3), in their order, into runs whose computation graphs have at most `edge_budget` edges.

    A query larger than the budget is a batch of its own: none is refused.
    """
    runs: list[Tensor] = []
    first, total = 0, 0
    bounds = [int(b) for part in queries.split(256) for b in edge_bounds(messages, part, hops)]
    for place, bound in enumerate(bounds):
        edges = min(bound, messages.num_edges)
        if place > first and (total + edges > edge_budget or place - first >= most):
            runs.append(queries[first:place])
            first, total = place, 0
        total += edges
    if len(queries) > first:
        runs.append(queries[first:])
    return runs
