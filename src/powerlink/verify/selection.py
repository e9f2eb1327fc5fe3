"""Choosing the few paths that are shown: greedily, by what removing them together does to the model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.edges import expand_rows
from powerlink.graphs.incidence import row_pointer
from powerlink.graphs.what_if import Removals
from powerlink.models.protocol import LinkModel
from powerlink.paths.search import PathBatch
from powerlink.verify.counterfactual import Room, edges_of_facts, encode_only, scores_without

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


def choose_in_order(graph: ComputationGraph, paths: PathBatch, count: int) -> Tensor:
    """Take each query's first `count` paths that are different routes: (Q, count), −1 where there are fewer."""
    route = route_of(graph, paths)
    first = paths.query.new_full((int(route.max()) + 1 if route.numel() else 0,), paths.count)
    position = torch.arange(paths.count, device=route.device)
    first = first.scatter_reduce(0, route, position, "amin")
    fresh = (first[route] == position).nonzero().squeeze(1)
    query = paths.query[fresh]
    rank = torch.arange(fresh.numel(), device=fresh.device) - row_pointer(query, graph.num_queries)[query]
    shown = rank < count
    index = query.new_full((graph.num_queries, count), -1)
    return index.index_put((query[shown], rank[shown]), fresh[shown])


def choose_by_proof(
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
