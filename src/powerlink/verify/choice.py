"""Choosing the few pieces of evidence that are shown, and their order.

| rule | asks | order |
|---|---|---|
| carried | why does the model believe it? | fewest facts first, then what they carry together |
| largest-drop | which of them, cut together, hurt most? | greedily, by the fall of the score |
| mask | what does the explainer say? | as the candidates come |
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.evidence import EvidenceBatch, fact_of, first_of_each
from powerlink.explain_settings import Select as Select  # noqa: PLC0414 - where it is looked for
from powerlink.explainers.protocol import Oracle
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.edges import expand_rows, row_pointer
from powerlink.verify.carried import Carried, measure_carried

DECORATIVE = 0.05  # a hop of a longer path whose own effect is a smaller share of the path's is decoration
SLIGHT = 0.01  # a path without a fact that does this share of the query's largest fall is a trifle
NOISE = 1e-5  # a drop of the logit smaller than this (relative to its size) is rounding, not effect


@dataclass(frozen=True, eq=False)
class Choice:
    """Which candidates are shown, in order."""

    index: Tensor  # (Q, count) position among the candidates, −1 where a query has fewer
    witnesses: Tensor  # (Q, count) for how many candidates each stands, 0 where there is none
    carried: Carried | None = None  # by candidate, where that decided

    def edges_of(self, evidence: EvidenceBatch) -> Tensor:
        """Return the edges of what is shown, padded with −1: (Q, count, most)."""
        padding = evidence.edges.new_full((1, evidence.edges.size(1)), -1)  # where the index is −1
        return torch.cat([evidence.edges, padding])[self.index]


def choose(oracle: Oracle, graph: ComputationGraph, evidence: EvidenceBatch, select: Select, count: int) -> Choice:
    """Choose what is shown of each query's candidates, `count` at most."""
    if select == "carried":
        return choose_by_carried(graph, evidence, measure_carried(oracle.precisely(), graph, evidence), count)
    if select == "largest-drop":
        return choose_by_largest_drop(oracle, graph, evidence, count)
    return choose_in_order(graph, evidence, count)


def route_of(graph: ComputationGraph, evidence: EvidenceBatch) -> Tensor:
    """Number the routes, (P,): parallel paths (same nodes, other relations) share one; a set has one of its own."""
    there, edge = evidence.edges >= 0, evidence.edges.clamp(min=0)
    nodes = torch.where(evidence.is_path.unsqueeze(1), graph.target[edge], edge) if graph.num_edges else edge
    return evidence.numbered(torch.where(there, nodes, -1))


def core_of(graph: ComputationGraph, evidence: EvidenceBatch, carried: Carried) -> Tensor:
    """Number the cores, (P,): larger pieces that differ only in decorative facts share one.

    A piece of one fact or two has none to spare, and one whose every fact does little has no core but itself.
    """
    there = evidence.edges >= 0
    slight = there & (carried.alone.abs() < DECORATIVE * carried.drop.abs().unsqueeze(1))
    spare = (evidence.size > 2) & (there & ~slight).any(1)
    return evidence.numbered(torch.where(slight & spare.unsqueeze(1), -2, fact_of(graph, evidence.edges)))


def choose_by_carried(graph: ComputationGraph, evidence: EvidenceBatch, carried: Carried, count: int) -> Choice:
    """Take each query's reasons, fewest facts first, then what carries most together.

    A reason is evidence whose facts carry something together, and one of whose facts does more alone than `SLIGHT` of
    the largest fall. Behind the reasons comes evidence whose removal lowers the score, again fewest facts first, then
    by fall. Between equals the earlier candidate is taken. Of variants of one route, and of pieces that differ only in
    decorative facts, the first one stands for all.
    """
    core = core_of(graph, evidence, carried)
    size = carried.base.abs().clamp(min=1.0)[evidence.query]
    reason = is_reason(evidence, carried)
    # what rounding alone tells apart is equal, so that neither batch nor device decides
    step = resolution(carried.base.dtype) * size
    fall, joint = (carried.drop / step).round(), torch.where(reason, carried.together / step, 0.0).round()
    order = torch.arange(evidence.count, device=graph.device)
    for key in (fall, joint, -evidence.size, reason.long()):
        order = order[key[order].argsort(descending=True, stable=True)]
    order = order[evidence.query[order].argsort(stable=True)]
    counts = reason | (carried.drop > NOISE * size)
    order = order[counts[order]]
    order = order[first_of_each(route_of(graph, evidence)[order])]
    order = order[first_of_each(core[order])]
    index = _by_query(evidence.query[order], order, graph.num_queries, count)
    witnesses = torch.bincount(core, minlength=1)[core]
    return Choice(index, torch.cat([witnesses, witnesses.new_zeros(1)])[index], carried)


def is_reason(evidence: EvidenceBatch, carried: Carried) -> Tensor:
    """Tell whose facts carry something together, and are no trifle beside the query's other evidence: (P,) bool."""
    size = carried.base.abs().clamp(min=1.0)
    largest = torch.zeros_like(size).scatter_reduce(0, evidence.query, carried.drop, "amax")
    least = torch.maximum(SLIGHT * largest, NOISE * size)
    joint = carried.together > (resolution(size.dtype) * size)[evidence.query]
    return joint & (carried.strongest >= least[evidence.query])


def resolution(kind: torch.dtype) -> float:
    """Return which differences of logits, relative to their size, are told apart by rounding alone."""
    return 8 * torch.finfo(kind).eps


def _by_query(query: Tensor, values: Tensor, num_queries: int, count: int) -> Tensor:
    """Put the first `count` values of each query, ascending, side by side: (Q, count), −1 where there are fewer."""
    rank = torch.arange(query.numel(), device=query.device) - row_pointer(query, num_queries)[query]
    shown = rank < count
    table = query.new_full((num_queries, count), -1)
    return table.index_put((query[shown], rank[shown]), values[shown])


def choose_in_order(graph: ComputationGraph, evidence: EvidenceBatch, count: int) -> Choice:
    """Take each query's first `count` pieces that are different routes."""
    fresh = first_of_each(route_of(graph, evidence))
    index = _by_query(evidence.query[fresh], fresh, graph.num_queries, count)
    return Choice(index, (index >= 0).long())


def choose_by_largest_drop(oracle: Oracle, graph: ComputationGraph, evidence: EvidenceBatch, count: int) -> Choice:
    """Add, one after the other, the piece whose facts, removed with those already chosen, lower the score most.

    A query stops when nothing lowers it further. No two chosen paths are variants of one route. Where several lower it
    alike (a path that shares one needed fact with the reason falls with it), the one wins whose facts alone, with those
    already chosen, support the prediction best; between equals still, the earlier candidate.
    """
    route = route_of(graph, evidence)
    row = row_pointer(evidence.query, graph.num_queries)
    everyone = torch.arange(graph.num_queries, device=graph.device)
    now = oracle.now()
    choice = Choice(everyone.new_full((graph.num_queries, count), -1), everyone.new_zeros(graph.num_queries, count))
    open_piece = torch.ones(evidence.count, dtype=torch.bool, device=graph.device)
    open_query = row.diff() > 0
    for turn in range(count):
        _, candidate = expand_rows(row, everyone[open_query])
        candidate = candidate[open_piece[candidate]]
        if not candidate.numel():
            break
        query = evidence.query[candidate]
        removed = torch.cat([choice.edges_of(evidence)[query, :turn].flatten(1), evidence.edges[candidate]], dim=1)
        scores = oracle.without(query, removed)
        best = scores.new_full((graph.num_queries,), torch.inf).scatter_reduce(0, query, scores, "amin")
        noise = NOISE * now.abs().clamp(min=1.0)
        improves = open_query & (best < now - noise)
        rivals = (improves[query] & (scores <= (best + noise)[query])).nonzero().squeeze(1)
        chosen = candidate[_most_sufficient(oracle, graph, query, removed, rivals)]
        choice.index[improves, turn] = chosen
        now = torch.where(improves, best, now)
        open_query = improves
        taken = torch.zeros(int(route.max()) + 1, dtype=torch.bool, device=graph.device)
        taken[route[chosen]] = True
        open_piece &= ~taken[route]
    return Choice(choice.index, (choice.index >= 0).long())


def _most_sufficient(oracle: Oracle, graph: ComputationGraph, query: Tensor, edges: Tensor, rivals: Tensor) -> Tensor:
    """Return, for each query that has rivals (positions in `query` and `edges`), the one to choose, by query."""
    counts = torch.bincount(query[rivals], minlength=graph.num_queries)
    support = torch.zeros(rivals.numel(), device=graph.device)
    contested = (counts[query[rivals]] > 1).nonzero().squeeze(1)
    if contested.numel():
        alone = oracle.with_only(query[rivals[contested]], edges[rivals[contested]])
        support = support.to(alone.dtype).index_put((contested,), alone)
    # what is no number supports nothing; of infinite numbers, differences would be none
    support = support.nan_to_num(nan=torch.finfo(support.dtype).min)
    most = support.new_full((graph.num_queries,), -torch.inf).scatter_reduce(0, query[rivals], support, "amax")
    near = support >= (most - NOISE * most.abs().clamp(min=1.0))[query[rivals]]
    first = rivals.new_full((graph.num_queries,), query.numel())
    first = first.scatter_reduce(0, query[rivals][near], rivals[near], "amin")
    return first[counts > 0]
