"""Cutting queries into batches that fit a memory budget."""

from __future__ import annotations

from torch import Tensor

from powerlink.graphs.computation_graph import edge_bounds
from powerlink.graphs.message_graph import MessageGraph
from powerlink.memory import Budget


def batches(messages: MessageGraph, queries: Tensor, hops: int, budget: Budget) -> list[Tensor]:
    """Cut queries (Q, 3), in their order, into runs whose computation graphs have at most the budget's edges.

    A query larger than the budget is a batch of its own: none is refused.
    """
    runs: list[Tensor] = []
    first, total = 0, 0
    scorer = 2 * messages.num_relations  # rows that a query has beside its edges
    bounds = [scorer + bound for part in queries.split(256) for bound in edge_bounds(messages, part, hops).tolist()]
    for place, bound in enumerate(bounds):
        edges = min(bound, scorer + messages.num_edges)
        if place > first and (total + edges > budget.edges or place - first >= budget.queries):
            runs.append(queries[first:place])
            first, total = place, 0
        total += edges
    if len(queries) > first:
        runs.append(queries[first:])
    return runs
