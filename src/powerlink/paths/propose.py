"""From edge scores to candidate paths."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from powerlink.explain_settings import Cost as Cost  # noqa: PLC0414 - where it is looked for
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.paths.search import EDGES_AT_ONCE, PathBatch, SearchGraph, best_paths


def edge_cost(scores: Tensor, how: Literal["inverse", "log"]) -> Tensor:
    """Turn scores in (0, 1] into positive costs, float64: 1/score, or −log score (the best product is cheapest)."""
    scores = scores.double()
    if how == "inverse":
        return scores.reciprocal()
    # a positive least cost: of two paths through certain edges the shorter one is the better explanation
    return -scores.log() + 1e-9


def degree_cost(graph: ComputationGraph) -> Tensor:
    """Return log in-degree of the node each kept edge leads to, float64, (E,); nothing at head and tail.

    Degrees are those among the kept edges: a path through a hub says little about this query.
    """
    edges = graph.kept_edges
    cost = edges.row.diff().double().clamp(min=1).log()
    cost[graph.head] = 0.0
    cost[graph.tail] = 0.0
    return cost[edges.target]


class RouteSearch:
    """A search for each query's best routes over the kept edges, prepared once for any number of costs.

    A route is told by its best edges: of parallel edges only the cheapest (the first among equals) is searched, so no
    two paths are variants of one route. Edges that lie on no short enough way from head to tail are left out at once.
    """

    def __init__(
        self, graph: ComputationGraph, *, count: int, min_length: int, max_length: int, at_once: int = EDGES_AT_ONCE
    ) -> None:
        self._wish = {"count": count, "min_length": min_length, "max_length": max_length, "at_once": at_once}
        kept = graph.kept_edges
        self._place = _between_head_and_tail(graph, max_length).nonzero().squeeze(1)  # among the kept edges
        self._edge = kept.index[self._place]
        # Edges are sorted by (target, source), so parallel edges lie side by side.
        key = kept.target[self._place] * graph.num_nodes + kept.source[self._place]
        pair, self._pair = key.unique_consecutive(return_inverse=True)
        source, target = pair % graph.num_nodes, pair // graph.num_nodes
        self._graph = SearchGraph(source, target, graph.num_nodes, graph.head, graph.tail)

    def __call__(self, cost: Tensor) -> PathBatch:
        """Search under a positive cost of each kept edge (E,), float64; the paths' edge ids are the graph's."""
        cost = cost[self._place]
        pairs = self._graph.source.numel()
        least = cost.new_full((pairs,), torch.inf).scatter_reduce(0, self._pair, cost, "amin")
        cheapest = (cost == least[self._pair]).nonzero().squeeze(1)
        first = cheapest.new_full((pairs,), cost.numel()).scatter_reduce(0, self._pair[cheapest], cheapest, "amin")
        found = best_paths(self._graph, least, **self._wish)
        if not found.count:
            return found
        edges = self._edge[first][found.edges.clamp(min=0)]
        return PathBatch(found.query, torch.where(found.edges >= 0, edges, -1), found.length, found.cost)


def propose(
    graph: ComputationGraph,
    scores: Tensor,
    *,
    cost: Cost,
    count: int,
    min_length: int,
    max_length: int,
    at_once: int = EDGES_AT_ONCE,
) -> PathBatch:
    """Find each query's `count` best routes under the scores (num_edges,) of the graph's edges."""
    search = RouteSearch(graph, count=count, min_length=min_length, max_length=max_length, at_once=at_once)
    kept = scores[graph.kept_edges.index]
    if cost == "log-degree":
        return search(edge_cost(kept, "log") + degree_cost(graph))
    return search(edge_cost(kept, cost))


def has_path(graph: ComputationGraph, *, min_length: int, max_length: int) -> Tensor:
    """Tell for each query whether a simple path of the allowed lengths runs over kept edges: (Q,) bool."""
    search = RouteSearch(graph, count=1, min_length=min_length, max_length=max_length)
    found = search(torch.ones(graph.kept_edges.num_edges, dtype=torch.float64, device=graph.device))
    return torch.bincount(found.query, minlength=graph.num_queries) > 0


def _between_head_and_tail(graph: ComputationGraph, max_length: int) -> Tensor:
    """Tell which kept edges can lie on a simple path of at most `max_length` edges from head to tail: (E,) bool."""
    edges = graph.kept_edges
    from_head = _hops(graph.head, edges.source, edges.target, graph.num_nodes, max_length - 1)
    to_tail = _hops(graph.tail, edges.target, edges.source, graph.num_nodes, max_length - 1)
    inside: Tensor = from_head[edges.source] + 1 + to_tail[edges.target] <= max_length
    returns = (edges.target == graph.head[edges.query]) | (edges.source == graph.tail[edges.query])
    return inside & ~returns


def _hops(start: Tensor, source: Tensor, target: Tensor, num_nodes: int, most: int) -> Tensor:
    """Count the edges from the start nodes to every node, (num_nodes,); more than `most` where it is too far."""
    hops = torch.full((num_nodes,), most + 1, device=start.device)
    hops[start] = 0
    for _ in range(most):
        hops = hops.scatter_reduce(0, target, hops[source] + 1, "amin")
    return hops
