"""Cutting queries into batches that fit a memory budget."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import edge_bounds
from powerlink.graphs.message_graph import MessageGraph

BYTES_PER_EDGE = 1_500  # at most; learning takes about 530 of each kept edge on a GPU, other stages less
EDGES_PER_BATCH = 1_200_000  # so a batch stays within 2 GB
MOST_QUERIES = 32  # what a kill can cost at most
MOST_QUERIES_ON_A_GPU = 512  # where that many take seconds
SHARE_OF_A_GPU = 0.5  # of its memory: others may be on it, too


@dataclass(frozen=True)
class Budget:
    """How much goes into a batch."""

    edges: int = EDGES_PER_BATCH
    queries: int = MOST_QUERIES

    @classmethod
    def of(cls, device: torch.device, memory: int | None = None) -> Budget:
        """Derive it from `memory` in bytes, or from what the device has in all.

        What is free at the moment would differ between a run and its rerun, and the last digits of a number depend on
        its batch.
        """
        most = MOST_QUERIES
        if device.type == "cuda":
            most = MOST_QUERIES_ON_A_GPU
            if memory is None:
                memory = int(SHARE_OF_A_GPU * torch.cuda.get_device_properties(device).total_memory)
        return cls(EDGES_PER_BATCH if memory is None else max(memory // BYTES_PER_EDGE, 1), most)


DEFAULT = Budget()


def batches(messages: MessageGraph, queries: Tensor, hops: int, budget: Budget = DEFAULT) -> list[Tensor]:
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


def ran_out_of_memory(error: Exception) -> bool:
    """Tell a full memory from other faults; a CPU's allocator has no error of its own."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )
