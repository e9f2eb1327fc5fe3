"""Cutting queries into batches that fit a memory budget."""

from __future__ import annotations

from torch import Tensor

from powerlink.graphs.computation_graph import edge_bounds
from powerlink.graphs.message_graph import MessageGraph
from powerlink.memory import Budget
from powerlink.run.executor import Parcel


def batches(messages: MessageGraph, queries: Tensor, hops: int, budget: Budget) -> list[Parcel[Tensor]]:
    """Cut queries (Q, 3), in their order, into runs whose computation graphs have at most the budget's edges.

    A query larger than the budget is a batch of its own: none is refused.
    """
    runs: list[Parcel[Tensor]] = []
    first, total = 0, 0
    scorer = 2 * messages.num_relations  # rows that a query has beside its edges
    bounds = [scorer + bound for part in queries.split(256) for bound in edge_bounds(messages, part, hops).tolist()]
    for place, bound in enumerate(bounds):
        edges = min(bound, scorer + messages.num_edges)
        if place > first and (total + edges > budget.edges or place - first >= budget.queries):
            runs.append(_run(queries, first, place, total))
            first, total = place, 0
        total += edges
    if len(queries) > first:
        runs.append(_run(queries, first, len(queries), total))
    return runs


def _run(queries: Tensor, first: int, last: int, size: int) -> Parcel[Tensor]:
    return Parcel(queries[first:last].clone(), size)  # a view would travel with all queries
