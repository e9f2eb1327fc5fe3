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
    """Find each query's `count` best routes under the scores (E,) of the kept edges; edge ids are the graph's.

    A route is told by its best edges: of parallel edges only the cheapest (the first among equals) is searched, so no
    two paths are variants of one route.
    """
    edges = _cheapest_parallel(graph, edge_cost(scores, cost))
    return _search(graph, edges, edge_cost(scores[edges], cost), count, min_length, max_length)


def has_path(graph: ComputationGraph, *, min_length: int, max_length: int) -> Tensor:
    """Tell for each query whether a simple path of the allowed lengths runs over kept edges: (Q,) bool."""
    equal = torch.ones(graph.num_edges, dtype=torch.float64, device=graph.device)
    edges = _cheapest_parallel(graph, equal)
    found = _search(graph, edges, equal[edges], 1, min_length, max_length)
    return torch.bincount(found.query, minlength=graph.num_queries) > 0


def _cheapest_parallel(graph: ComputationGraph, cost: Tensor) -> Tensor:
    """Return the kept edges that are the cheapest from their source to their target, ascending."""
    kept = graph.kept_edges
    # Edges are sorted by (target, source), so parallel edges lie side by side.
    _, group = (kept.target * graph.num_nodes + kept.source).unique_consecutive(return_inverse=True)
    groups = int(group[-1]) + 1 if group.numel() else 0
    least = cost.new_full((groups,), torch.inf).scatter_reduce(0, group, cost[kept.index], "amin")
    cheapest = (cost[kept.index] == least[group]).nonzero().squeeze(1)
    first = group.new_full((groups,), kept.num_edges).scatter_reduce(0, group[cheapest], cheapest, "amin")
    return kept.index[first]


def _search(
    graph: ComputationGraph, edges: Tensor, cost: Tensor, count: int, min_length: int, max_length: int
) -> PathBatch:
    """Search some edges of the graph; the paths' edge ids are the graph's."""
    search = SearchGraph(graph.source[edges], graph.target[edges], cost, graph.num_nodes, graph.head, graph.tail)
    found = best_paths(search, count=count, min_length=min_length, max_length=max_length)
    ids = torch.where(found.edges >= 0, edges[found.edges.clamp(min=0)], -1) if found.count else found.edges
    return PathBatch(found.query, ids, found.length, found.cost)


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
