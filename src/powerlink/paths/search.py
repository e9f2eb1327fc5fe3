"""The k best simple paths of bounded length, exact, for all queries of a batch at once.

Partial paths grow from every head together, one hop a round. A partial path's bound is its own cost plus the least any
walk of the remaining length could still cost (Bellman–Ford from the tail), so what is cut can be shown never to matter.
Each round keeps a query's best partial paths; if the first one that was cut could still have beaten the k-th path
found, that query is searched again with room for more. Costs are summed from the tail towards the head: floating-
point addition is monotone, so bounds summed in the same order are never above the cost of what they bound, to the
last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from powerlink.graphs.edges import expand_rows, row_pointer

EDGES_AT_ONCE = 4_000_000  # tried together: bounds memory to about a GB


@dataclass(frozen=True, eq=False)
class PathBatch:
    """Paths of many queries, sorted by (query, cost, edge ids)."""

    query: Tensor  # (P,)
    edges: Tensor  # (P, max_length) edge ids, padded with −1 behind the path's end
    length: Tensor  # (P,)
    cost: Tensor  # (P,) float64; of a path that is still to grow, its bound

    @property
    def count(self) -> int:
        return self.query.numel()

    def select(self, index: Tensor) -> PathBatch:
        """Return some of the paths."""
        return PathBatch(self.query[index], self.edges[index], self.length[index], self.cost[index])


@dataclass(frozen=True, eq=False)
class SearchGraph:
    """Edges over the nodes of a batch of queries, to be searched at any costs."""

    source: Tensor  # (E,)
    target: Tensor  # (E,)
    num_nodes: int
    head: Tensor  # (Q,) node
    tail: Tensor  # (Q,) node

    @property
    def num_queries(self) -> int:
        return self.head.numel()

    @cached_property
    def outgoing(self) -> tuple[Tensor, Tensor]:
        """Edges by their source: where each node's begin (num_nodes + 1,), and their ids, ascending within a row."""
        order = self.source.argsort(stable=True)
        return row_pointer(self.source[order], self.num_nodes), order


def best_paths(
    graph: SearchGraph,
    cost: Tensor,
    *,
    count: int,
    max_length: int,
    min_length: int = 1,
    width: int | None = None,
    at_once: int = EDGES_AT_ONCE,
) -> PathBatch:
    """Return each query's `count` cheapest simple head→tail paths of min_length … max_length edges.

    `cost` (E,) is float64 and positive; equal ones go by edge ids. `width` is how many partial paths a query keeps per
    round at first, and `at_once` how many edges are tried together (and always those of one node): it bounds memory
    where paths meet hubs.
    """
    bounds = _bounds(graph, cost, max_length)
    pending = (graph.head != graph.tail).nonzero().squeeze(1)
    width = width or max(4 * count, 64)
    found = [_starts(pending[:0], cost)]
    while pending.numel():
        paths, exact = _search(graph, cost, bounds, pending, count, min_length, width, at_once)
        found.append(paths.select(exact[paths.query].nonzero().squeeze(1)))
        pending = pending[~exact[pending]]
        width *= 8
    return _best(_together(found, max_length), count, graph.num_queries)


def _bounds(graph: SearchGraph, cost: Tensor, max_length: int) -> list[Tensor]:
    """bounds[l][v]: the least cost of a walk of at most l edges from v to its query's tail."""
    now = cost.new_full((graph.num_nodes,), torch.inf)
    now[graph.tail] = 0.0
    bounds = [now]
    for _ in range(max_length):
        step = cost + now[graph.target]
        now = now.scatter_reduce(0, graph.source, step, "amin")
        bounds.append(now)
    return bounds


def _search(
    graph: SearchGraph,
    cost: Tensor,
    bounds: list[Tensor],
    queries: Tensor,
    count: int,
    min_length: int,
    width: int,
    at_once: int,
) -> tuple[PathBatch, Tensor]:
    """One beam search; returns its paths and, for every query of the graph, whether they are provably the best."""
    max_length, num_queries = len(bounds) - 1, graph.num_queries
    beam = _starts(queries, cost)  # sorted partial paths, all of one length
    done: list[PathBatch] = []
    cut = [beam.select(queries[:0])]  # the best partial path each round left out, per query
    for hop in range(1, max_length + 1):
        rests = []
        for part in _runs(graph, beam, at_once):
            grown, at_tail = _grown(graph, cost, bounds[max_length - hop], part, min_length)
            done.append(grown.select(at_tail.nonzero().squeeze(1)))
            if hop == max_length:
                continue
            # Nothing dearer than the k-th path already found can matter.
            limit = _kth_cost(done, count, num_queries)
            rest = ~at_tail & (grown.cost <= limit[grown.query])
            rests.append(_best(grown.select(rest.nonzero().squeeze(1)), width + 1, num_queries))
        if not rests:
            break
        beam = rests[0] if len(rests) == 1 else _best(_together(rests, hop), width + 1, num_queries)
        position = _position_in_query(beam.query, num_queries)
        cut.append(beam.select((position == width).nonzero().squeeze(1)))
        beam = beam.select((position < width).nonzero().squeeze(1))
        if not beam.count:
            break

    paths = _best(_together(done, max_length), count, num_queries)
    return paths, _exact(paths, _together(cut, max_length), count, num_queries)


def _starts(queries: Tensor, cost: Tensor) -> PathBatch:
    """Return the paths of no edge from the queries' heads."""
    count = queries.numel()
    return PathBatch(queries, queries.new_empty(count, 0), torch.zeros_like(queries), cost.new_zeros(count))


def _runs(graph: SearchGraph, beam: PathBatch, at_once: int) -> Iterator[PathBatch]:
    """Cut a beam into runs that have about `at_once` edges to grow along."""
    row, _ = graph.outgoing
    last = _nodes(graph, beam)[-1]
    degree = row[last + 1] - row[last]
    run = (degree.cumsum(0) - degree) // at_once
    sizes = run.unique_consecutive(return_counts=True)[1].tolist()
    for part in torch.arange(last.numel(), device=last.device).split(sizes) if len(sizes) > 1 else [None]:
        yield beam if part is None else beam.select(part)


def _nodes(graph: SearchGraph, paths: PathBatch) -> list[Tensor]:
    """Return the nodes that partial paths pass, in order: length + 1 of (P,)."""
    return [graph.head[paths.query], *(graph.target[column] for column in paths.edges.unbind(1))]


def _grown(
    graph: SearchGraph, cost: Tensor, bound: Tensor, beam: PathBatch, min_length: int
) -> tuple[PathBatch, Tensor]:
    """Grow partial paths by every edge that may lead on; also returns which of them are at the tail, (n,) bool."""
    row, order = graph.outgoing
    passed = _nodes(graph, beam)
    owner, place = expand_rows(row, passed[-1])
    edge = order[place]
    target, query = graph.target[edge], beam.query[owner]
    at_tail = target == graph.tail[query]
    hop = len(passed)
    fits = bound[target].isfinite() & (~at_tail | (hop >= min_length))
    for node in passed:
        fits &= target != node[owner]
    keep = fits.nonzero().squeeze(1)
    owner, edge, target, query = owner[keep], edge[keep], target[keep], query[keep]
    edges = torch.cat([beam.edges[owner], edge.unsqueeze(1)], dim=1)
    total = bound[target]
    for column in reversed(edges.unbind(1)):  # from the last edge to the first, as bounds are summed
        total = cost[column] + total
    return PathBatch(query, edges, torch.full_like(query, hop), total), at_tail[keep]


def _kth_cost(done: list[PathBatch], count: int, num_queries: int) -> Tensor:
    """Return each query's k-th lowest cost among complete paths, +inf where there are fewer."""
    query, cost = torch.cat([p.query for p in done]), torch.cat([p.cost for p in done])
    order = _order_by(query, cost)
    kth = order[_position_in_query(query[order], num_queries) == count - 1]
    limit = cost.new_full((num_queries,), torch.inf)
    limit[query[kth]] = cost[kth]
    return limit


def _order_by(*keys: Tensor) -> Tensor:
    """Return what sorts by the first key, then by the second, and so on: (n,)."""
    order = keys[-1].argsort(stable=True)
    for key in reversed(keys[:-1]):
        order = order[key[order].argsort(stable=True)]
    return order


def _position_in_query(query: Tensor, num_queries: int) -> Tensor:
    """Number the entries of each query 0, 1, … in a tensor sorted by query."""
    return torch.arange(query.numel(), device=query.device) - row_pointer(query, num_queries)[query]


def _best(paths: PathBatch, count: int, num_queries: int) -> PathBatch:
    """Return each query's first `count` paths, sorted by (query, cost, edge ids)."""
    order = _order_by(paths.query, paths.cost, *paths.edges.unbind(1))
    return paths.select(order[_position_in_query(paths.query[order], num_queries) < count])


def _together(parts: list[PathBatch], max_length: int) -> PathBatch:
    """Concatenate paths of different lengths."""
    padded = [torch.nn.functional.pad(p.edges, (0, max_length - p.edges.size(1)), value=-1) for p in parts]
    query, length, cost = (torch.cat([getattr(p, name) for p in parts]) for name in ("query", "length", "cost"))
    return PathBatch(query, torch.cat(padded), length, cost)


def _exact(paths: PathBatch, lost: PathBatch, count: int, num_queries: int) -> Tensor:
    """Tell for each query whether no partial path that was cut could still be among the best `count`."""
    exact = torch.ones(num_queries, dtype=torch.bool, device=paths.query.device)
    if not lost.count:
        return exact
    position = _position_in_query(paths.query, num_queries)
    kth = paths.query.new_full((num_queries,), -1)
    last = (position == count - 1).nonzero().squeeze(1)
    kth[paths.query[last]] = last
    full = kth[lost.query] >= 0
    exact[lost.query[~full]] = False
    lost = lost.select(full.nonzero().squeeze(1))
    rival = paths.select(kth[lost.query])
    # A cut path costs at least its bound; at equal cost its edge ids decide, as far as it goes.
    later = lost.cost > rival.cost
    tied = lost.cost == rival.cost
    for mine, theirs in zip(lost.edges.unbind(1), rival.edges.unbind(1), strict=True):
        later |= tied & (mine > theirs) & (mine >= 0)
        tied &= (mine == theirs) & (mine >= 0)
    exact[lost.query[~later]] = False
    return exact
