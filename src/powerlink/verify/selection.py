"""Choosing the few paths that are shown, and their order.

| rule | asks | order |
|---|---|---|
| `choose_by_carried` | why does the model believe it? | fewest facts first, then what they carry together |
| `choose_by_largest_drop` | which paths, cut together, hurt most? | greedily, by the fall of the logit |
| `choose_in_order` | what does the explainer say? | as the candidates come |
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.edges import expand_rows, row_pointer
from powerlink.graphs.what_if import Removals
from powerlink.memory import Room
from powerlink.models.protocol import LinkModel
from powerlink.paths.search import PathBatch
from powerlink.verify.carried import Carried, fact_of
from powerlink.verify.counterfactual import edges_of_facts, encode_only, scores_without

DECORATIVE = 0.05  # a hop of a longer path whose own effect is a smaller share of the path's is decoration
SLIGHT = 0.01  # a path without a fact that does this share of the query's largest fall is a trifle
NOISE = 1e-5  # a drop of the logit smaller than this (relative to its size) is rounding, not effect


@dataclass(frozen=True, eq=False)
class Choice:
    """Which candidate paths are shown, in order."""

    index: Tensor  # (Q, count) position among the candidates, −1 where a query has fewer
    drop: Tensor  # (Q,) fall of the logit when all of a query's chosen paths are removed


def route_of(graph: ComputationGraph, paths: PathBatch) -> Tensor:
    """Number the paths' routes, (P,): parallel variants (same nodes, other relations) share one."""
    nodes = torch.where(paths.edges >= 0, graph.target[paths.edges.clamp(min=0)], -1)
    number: Tensor = torch.cat([paths.query.unsqueeze(1), nodes], dim=1).unique(dim=0, return_inverse=True)[1]
    return number


def core_of(graph: ComputationGraph, paths: PathBatch, carried: Carried) -> Tensor:
    """Number the paths' cores, (P,): longer paths that differ only in decorative hops share one.

    A path of one fact or two has no hop to spare, and one whose every hop does little has no core but itself.
    """
    there = paths.edges >= 0
    slight = there & (carried.alone.abs() < DECORATIVE * carried.drop.abs().unsqueeze(1))
    spare = (paths.length > 2) & (there & ~slight).any(1)
    facts = torch.where(slight & spare.unsqueeze(1), -2, fact_of(graph, paths.edges))
    number: Tensor = torch.cat([paths.query.unsqueeze(1), facts], dim=1).unique(dim=0, return_inverse=True)[1]
    return number


def choose_by_carried(graph: ComputationGraph, paths: PathBatch, carried: Carried, count: int) -> tuple[Tensor, Tensor]:
    """Take each query's reasons, fewest facts first, then what carries most together: (Q, count).

    A reason is a path whose facts carry something together, and one of whose facts does more alone than `SLIGHT` of the
    largest fall. Behind the reasons come paths whose removal lowers the score, again fewest facts first, then by fall.
    Between equals the earlier candidate is taken. Of variants of one route, and of paths that differ only in decorative
    hops, the first one stands for all; also returned is for how many candidates each stands, (Q, count). Where a query
    has fewer paths, places are −1 and stand for none.
    """
    core = core_of(graph, paths, carried)
    size = carried.base.abs().clamp(min=1.0)[paths.query]
    reason = is_reason(paths, carried)
    # what rounding alone tells apart is equal, so that neither batch nor device decides
    step = resolution(carried.base.dtype) * size
    fall, joint = (carried.drop / step).round(), torch.where(reason, carried.together / step, 0.0).round()
    order = torch.arange(paths.count, device=graph.device)
    for key in (fall, joint, -paths.length, reason.long()):
        order = order[key[order].argsort(descending=True, stable=True)]
    order = order[paths.query[order].argsort(stable=True)]
    counts = reason | (carried.drop > NOISE * size)
    order = order[counts[order]]
    order = order[_first_of_each(route_of(graph, paths)[order])]
    order = order[_first_of_each(core[order])]
    index = _by_query(paths.query[order], order, graph.num_queries, count)
    witnesses = torch.bincount(core, minlength=1)[core]
    return index, torch.where(index >= 0, witnesses[index.clamp(min=0)], 0) if paths.count else index + 1


def is_reason(paths: PathBatch, carried: Carried) -> Tensor:
    """Tell which paths' facts carry something together, and are no trifle beside the query's other paths: (P,) bool."""
    size = carried.base.abs().clamp(min=1.0)
    largest = torch.zeros_like(size).scatter_reduce(0, paths.query, carried.drop, "amax")
    least = torch.maximum(SLIGHT * largest, NOISE * size)
    return (carried.together > (resolution(size.dtype) * size)[paths.query]) & (carried.strongest >= least[paths.query])


def resolution(kind: torch.dtype) -> float:
    """Return which differences of logits, relative to their size, are told apart by rounding alone."""
    return 8 * torch.finfo(kind).eps


def _first_of_each(number: Tensor) -> Tensor:
    """Return the places where a number occurs for the first time, ascending."""
    first = number.new_full((int(number.max()) + 1 if number.numel() else 0,), number.numel())
    place = torch.arange(number.numel(), device=number.device)
    return (first.scatter_reduce(0, number, place, "amin")[number] == place).nonzero().squeeze(1)


def _by_query(query: Tensor, values: Tensor, num_queries: int, count: int) -> Tensor:
    """Put the first `count` values of each query, ascending, side by side: (Q, count), −1 where there are fewer."""
    rank = torch.arange(query.numel(), device=query.device) - row_pointer(query, num_queries)[query]
    shown = rank < count
    table = query.new_full((num_queries, count), -1)
    return table.index_put((query[shown], rank[shown]), values[shown])


def choose_in_order(graph: ComputationGraph, paths: PathBatch, count: int) -> Tensor:
    """Take each query's first `count` paths that are different routes: (Q, count), −1 where there are fewer."""
    fresh = _first_of_each(route_of(graph, paths))
    return _by_query(paths.query[fresh], fresh, graph.num_queries, count)


def choose_by_largest_drop(
    model: LinkModel, graph: ComputationGraph, paths: PathBatch, count: int, room: Room | None = None
) -> Choice:
    """Add, one after the other, the path whose facts, removed with those already chosen, lower the logit most.

    A query stops when nothing lowers it further. No two chosen paths are variants of one route. Where several lower it
    alike (a path that shares one needed fact with the reason falls with it), the one wins whose facts alone, with those
    already chosen, support the prediction best; between equals still, the earlier candidate. `paths` are sorted by
    query.
    """
    route = route_of(graph, paths)
    row = row_pointer(paths.query, graph.num_queries)
    everyone = torch.arange(graph.num_queries, device=graph.device)
    with torch.no_grad():
        base = model.score(model.encode(graph), graph.triples)
    now = base.clone()
    index = everyone.new_full((graph.num_queries, count), -1)
    open_path = torch.ones(paths.count, dtype=torch.bool, device=graph.device)
    open_query = row.diff() > 0
    for turn in range(count):
        _, candidate = expand_rows(row, everyone[open_query])
        candidate = candidate[open_path[candidate]]
        if not candidate.numel():
            break
        query = paths.query[candidate]
        removed = torch.cat([_chosen_edges(paths, index[:, :turn])[query], paths.edges[candidate]], dim=1)
        scenario = torch.arange(candidate.numel(), device=graph.device)
        removals = Removals.of(graph, candidate.numel(), *edges_of_facts(graph, scenario, removed))
        scores = scores_without(model, graph, query, removals, room=room)
        best = scores.new_full((graph.num_queries,), torch.inf).scatter_reduce(0, query, scores, "amin")
        noise = NOISE * now.abs().clamp(min=1.0)
        improves = open_query & (best < now - noise)
        rivals = (improves[query] & (scores <= (best + noise)[query])).nonzero().squeeze(1)
        chosen = candidate[_most_sufficient(model, graph, query, removed, rivals)]
        index[improves, turn] = chosen
        now = torch.where(improves, best, now)
        open_query = improves
        taken = torch.zeros(int(route.max()) + 1, dtype=torch.bool, device=graph.device)
        taken[route[chosen]] = True
        open_path &= ~taken[route]
    return Choice(index, base - now)


def _chosen_edges(paths: PathBatch, index: Tensor) -> Tensor:
    """Return the edges of each query's chosen paths side by side: (Q, chosen · max_length), −1 as padding."""
    edges = paths.edges[index.clamp(min=0)]  # (Q, chosen, max_length)
    return torch.where((index >= 0).unsqueeze(2), edges, -1).flatten(1)


def _most_sufficient(model: LinkModel, graph: ComputationGraph, query: Tensor, edges: Tensor, rivals: Tensor) -> Tensor:
    """Return, for each query that has rivals (positions in `query` and `edges`), the one to choose, by query."""
    counts = torch.bincount(query[rivals], minlength=graph.num_queries)
    support = torch.zeros(rivals.numel(), device=graph.device)
    contested = (counts[query[rivals]] > 1).nonzero().squeeze(1)
    if contested.numel():
        scenario = torch.arange(contested.numel(), device=graph.device)
        facts = edges_of_facts(graph, scenario, edges[rivals[contested]])
        embeddings, triples = encode_only(model, graph, query[rivals[contested]], *facts)
        support = support.to(embeddings.entity.dtype).index_put((contested,), model.score(embeddings, triples))
    # what is no number supports nothing; of infinite numbers, differences would be none
    support = support.nan_to_num(nan=torch.finfo(support.dtype).min)
    most = support.new_full((graph.num_queries,), -torch.inf).scatter_reduce(0, query[rivals], support, "amax")
    near = support >= (most - NOISE * most.abs().clamp(min=1.0))[query[rivals]]
    first = rivals.new_full((graph.num_queries,), query.numel())
    first = first.scatter_reduce(0, query[rivals][near], rivals[near], "amin")
    return first[counts > 0]
