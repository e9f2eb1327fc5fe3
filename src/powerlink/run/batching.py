"""Cutting queries into batches that fit a memory budget."""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import edge_bounds
from powerlink.graphs.message_graph import MessageGraph
from powerlink.memory import Budget
from powerlink.run.executor import Parcel

WALKED_AT_ONCE = 8_000_000  # edges


def batches(messages: MessageGraph, queries: Tensor, hops: int, budget: Budget) -> list[Parcel[Tensor]]:
    """Cut queries (Q, 3), in their order, into runs whose computation graphs have at most the budget's edges.

    A query larger than the budget is a batch of its own: none is refused.
    """
    runs: list[Parcel[Tensor]] = []
    first, total = 0, 0
    scorer = 2 * messages.num_relations  # rows that a query has beside its edges
    parts = (piece for part in queries.split(_walkable(messages, queries, hops)) for piece in part.split(256))
    bounds = [scorer + bound for part in parts for bound in edge_bounds(messages, part, hops).tolist()]
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


def _walkable(messages: MessageGraph, queries: Tensor, hops: int) -> list[int]:
    """Cut queries (Q, 3) into runs whose neighbourhoods are walked together: a hub's alone."""
    if len(queries) == 1:
        return [1]  # without a look at the whole graph
    steps = walked = messages.row.diff()  # by node
    for _ in range(1, hops):
        steps = torch.zeros_like(steps).index_add(0, messages.target, steps[messages.source])
        steps = steps.clamp(max=messages.num_edges)  # of what is walked to twice, one row is walked on
        walked = walked + steps
    load = walked[queries[:, [0, 2]].to(messages.device)].sum(1)
    run = (load.cumsum(0) - load) // WALKED_AT_ONCE
    sizes: list[int] = run.unique_consecutive(return_counts=True)[1].tolist()
    return sizes
