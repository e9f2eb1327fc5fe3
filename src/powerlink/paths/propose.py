"""From edge scores to candidate paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.paths.search import PathBatch, SearchGraph, best_paths

Cost = Literal["inverse", "log"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Paths to be judged, sorted by query, each with its proposer's place in the list of proposers."""

    paths: PathBatch
    proposer: Tensor  # (P,)


def edge_cost(scores: Tensor, how: Cost) -> Tensor:
    """Turn scores in (0, 1] into positive costs, float64: 1/score, or −log score (the best product is cheapest)."""
    scores = scores.double()
    if how == "inverse":
        return scores.reciprocal()
    # a positive least cost: of two paths through certain edges the shorter one is the better explanation
    return -scores.log() + 1e-9


def propose(
    graph: ComputationGraph, scores: Tensor, *, cost: Cost, count: int, min_length: int, max_length: int
) -> PathBatch:
    """Find each query's `count` best paths under the scores (E,) of the kept edges; edge ids are the graph's."""
    kept = graph.kept_edges
    search = SearchGraph(
        kept.source,
        kept.target,
        edge_cost(scores[kept.index], cost),
        graph.num_nodes,
        graph.head,
        graph.tail,
    )
    found = best_paths(search, count=count, min_length=min_length, max_length=max_length)
    edges = torch.where(found.edges >= 0, kept.index[found.edges.clamp(min=0)], -1) if found.count else found.edges
    return PathBatch(found.query, edges, found.length, found.cost)


def pool(proposals: list[PathBatch]) -> Candidates:
    """Join several proposers' paths; what two propose belongs to the first."""
    joined = PathBatch(
        *(torch.cat([getattr(part, name) for part in proposals]) for name in ("query", "edges", "length", "cost"))
    )
    proposer = torch.cat([torch.full_like(part.query, i) for i, part in enumerate(proposals)])
    key = torch.cat([joined.query.unsqueeze(1), joined.edges], dim=1)
    distinct, number = key.unique(dim=0, return_inverse=True)
    first = number.new_full((distinct.size(0),), joined.count)
    first = first.scatter_reduce(0, number, torch.arange(joined.count, device=number.device), "amin")
    first = first.sort().values
    first = first[joined.query[first].argsort(stable=True)]
    return Candidates(joined.select(first), proposer[first])
