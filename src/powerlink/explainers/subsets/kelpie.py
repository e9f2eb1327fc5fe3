"""Kelpie (Rossi et al., SIGMOD 2022): the few facts without which a prediction falls, or that make it for others.

Facts of the head are filtered by how near they lead to the tail, and sets of them are tried in the order of what their
members do alone. A set's relevance is

    necessary:   rank without it − rank + σ(score − score without it)
    sufficient:  mean over other heads of (rank − rank with it + σ(score with it − score)) / rank

The search goes from sets of one fact to larger ones, ends where a set's relevance exceeds the threshold, and leaves a
size early when the last ten sets fall behind the best: with the chance of 1 − their mean / the best.

Ours: what is equally near is ordered by what the score would lose by it, to first order; at most `tried` sets of a size
are looked at; and with `around` both ends, facts of the tail are taken, too.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import combinations, count
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from powerlink.evidence import EvidenceBatch, fact_of
from powerlink.explainers.protocol import Oracle, Proposal, Wish
from powerlink.explainers.slopes import fact_slopes
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kernels.keyed_random import keyed_uniform_at, keys_of
from powerlink.settings import check_settings, setting

Mode = Literal["necessary", "sufficient"]
Around = Literal["head", "both"]
WINDOW = 10  # sets whose relevance decides whether to go on
THRESHOLDS: dict[Mode, float] = {"necessary": 5.0, "sufficient": 0.9}
FARTHEST = 3  # hops from a fact's other end to the tail: what is farther is all alike

Facts = tuple[int, ...]
Search = Generator[Sequence[Facts], list[float], dict[Facts, float]]  # asks for relevances, and returns what it found


@dataclass(frozen=True, kw_only=True)
class Kelpie:
    """Sets of the head's facts by their relevance."""

    name: ClassVar[str] = "kelpie"
    proposes: ClassVar[str] = "sets"
    looks_everywhere: ClassVar[bool] = True

    mode: Mode = setting(
        "necessary", "facts without which it falls, or facts that make it for others", among=get_args(Mode)
    )
    most: int = setting(4, "facts of a set, at most", least=1)
    facts: int = setting(20, "facts that sets are made of: those that lead nearest to the tail", least=1)
    threshold: float | None = setting(
        None, "a relevance that ends the search; by default 5 if necessary, 0.9 if sufficient"
    )
    tried: int = setting(100, "sets of each size that are tried, at most", least=1)
    around: Around = setting("head", "whose facts: the head's, as published, or both ends'", among=get_args(Around))
    others: int = setting(10, "other heads that facts are given to, if sufficient", least=1)

    def __post_init__(self) -> None:
        check_settings(self)

    def propose(self, oracle: Oracle, graph: ComputationGraph, wish: Wish, seed: int) -> Proposal:
        """Search all queries' sets side by side, and ask about those of one round together."""
        ask = self._relevance(oracle, graph, seed)
        searches = {
            query: self._search(facts, key)
            for query, (facts, key) in enumerate(zip(*self._filtered(oracle, graph, seed), strict=True))
        }
        wanted = {query: next(search) for query, search in searches.items()}  # perhaps nothing: it has no facts
        found: dict[int, dict[Facts, float]] = {}
        while wanted:
            sets = [(query, facts) for query, asked in wanted.items() for facts in asked]
            answers = iter(ask([query for query, _ in sets], [facts for _, facts in sets]))
            for query, asked in list(wanted.items()):
                try:
                    wanted[query] = searches[query].send([next(answers) for _ in asked])
                except StopIteration as stop:
                    found[query] = stop.value
                    del wanted[query]
        best = [
            (query, facts, -relevance)
            for query in sorted(found)
            for facts, relevance in sorted(found[query].items(), key=lambda item: -item[1])[: wish.count]
        ]
        return Proposal(_evidence(graph, best))

    def _search(self, facts: Sequence[int], key: int) -> Search:
        """Try sets of one query's facts, from those of one on."""
        singles = [(fact,) for fact in facts]
        alone = dict(zip(facts, (yield singles), strict=True))
        told: dict[Facts, float] = {(fact,): relevance for fact, relevance in alone.items()}
        threshold = THRESHOLDS[self.mode] if self.threshold is None else self.threshold
        lots = (float(keyed_uniform_at(torch.tensor(key), torch.tensor(number))) for number in count())
        for size in range(2, min(self.most, len(facts)) + 1):
            if max(told.values(), default=math.inf) > threshold:
                break
            # `nlargest` keeps the order of equals
            promising = nlargest(self.tried, combinations(facts, size), key=lambda some: sum(alone[f] for f in some))
            told |= yield from self._try(promising, threshold, lots)
        return told

    def _try(self, sets: Sequence[Facts], threshold: float, lots: Iterator[float]) -> Search:
        """Try sets of one size until one suffices, or the rest promises little; as many at once as decide that."""
        told: dict[Facts, float] = {}
        best, last = -math.inf, deque[float](maxlen=WINDOW)
        for first in range(0, len(sets), WINDOW):
            block = sets[first : first + WINDOW]
            for facts, relevance in zip(block, (yield block), strict=True):
                told[facts] = relevance
                last.append(relevance)
                if relevance > threshold:
                    return told
                if relevance >= best:
                    best = relevance
                elif len(told) > WINDOW and next(lots) > sum(last) / len(last) / best:
                    return told
        return told

    def _filtered(self, oracle: Oracle, graph: ComputationGraph, seed: int) -> tuple[list[list[int]], list[int]]:
        """Return each query's facts, the nearest to the tail first, and the key of its lots."""
        falls = fact_slopes(oracle.model, graph)
        every = torch.arange(graph.num_edges, device=graph.device)
        fact = fact_of(graph, every)
        ends = [(graph.head, _distance(graph, graph.tail, graph.head))]
        if self.around == "both":
            ends.append((graph.tail, _distance(graph, graph.head, graph.tail)))
        far = torch.full_like(every, FARTHEST + 2)
        for end, distance in ends:
            far = torch.where(graph.source == end[graph.query_of_edge], torch.minimum(far, distance[graph.target]), far)
        far = far.scatter_reduce(0, fact, far, "amin")
        edge = ((fact == every) & graph.kept & (far < FARTHEST + 2)).nonzero().squeeze(1)
        for order in (-falls, far, graph.query_of_edge):
            edge = edge[order[edge].argsort(stable=True)]
        chosen: list[list[int]] = [[] for _ in range(graph.num_queries)]
        for query, one in zip(graph.query_of_edge[edge].tolist(), edge.tolist(), strict=True):
            if len(chosen[query]) < self.facts:
                chosen[query].append(one)
        return chosen, keys_of(seed, *graph.queries.unbind(1)).tolist()

    def _relevance(self, oracle: Oracle, graph: ComputationGraph, seed: int) -> Relevance:
        if self.mode == "necessary":
            return Necessary(oracle, graph)
        return Sufficient(oracle, graph, oracle.other_heads(self.others, seed))


class Necessary:
    """How far the rank falls without some facts."""

    def __init__(self, oracle: Oracle, graph: ComputationGraph) -> None:
        everyone = torch.arange(graph.num_queries, device=graph.device)
        self._oracle, self._device, self._score = oracle, graph.device, oracle.now()
        self._rank = oracle.ranks_without(everyone, everyone.new_empty(everyone.numel(), 0))

    def __call__(self, queries: Sequence[int], sets: Sequence[Facts]) -> list[float]:
        query, facts = torch.tensor(queries, dtype=torch.long, device=self._device), _padded(sets, self._device)
        fall = self._score[query] - self._oracle.without(query, facts)
        worse = self._oracle.ranks_without(query, facts) - self._rank[query]
        told: list[float] = (worse + fall.sigmoid()).tolist()
        return told


class Sufficient:
    """How far the ranks of other heads rise when the facts are given to them: others (Q, ·), padded with −1."""

    def __init__(self, oracle: Oracle, graph: ComputationGraph, others: Tensor) -> None:
        self._oracle, self._others, self._device = oracle, others, graph.device
        query, place = (others >= 0).nonzero(as_tuple=True)
        score, rank = oracle.given(query, others[query, place], query.new_empty(query.numel(), 0))
        self._score, self._rank = (
            torch.zeros_like(others, dtype=x.dtype).index_put((query, place), x) for x in (score, rank)
        )

    def __call__(self, queries: Sequence[int], sets: Sequence[Facts]) -> list[float]:
        query, facts = torch.tensor(queries, dtype=torch.long, device=self._device), _padded(sets, self._device)
        asked, place = (self._others[query] >= 0).nonzero(as_tuple=True)
        whose = query[asked]
        score, rank = self._oracle.given(whose, self._others[whose, place], facts[asked])
        before = self._rank[whose, place]
        each = (before - rank + (score - self._score[whose, place]).sigmoid()) / before
        count = torch.bincount(asked, minlength=query.numel()).clamp(min=1)
        told: list[float] = (each.new_zeros(query.numel()).index_add(0, asked, each) / count).tolist()
        return told


Relevance = Necessary | Sufficient


def _distance(graph: ComputationGraph, start: Tensor, without: Tensor) -> Tensor:
    """Return how many hops every node is from its query's `start` (Q,) on ways that avoid another node (Q,)."""
    distance = torch.full_like(graph.entity, FARTHEST + 1)
    distance[start] = 0
    for hop in range(1, FARTHEST + 1):
        near = graph.target[distance[graph.source] == hop - 1]
        distance[near] = distance[near].clamp(max=hop)
        distance[without] = FARTHEST + 1
    return distance


def _padded(sets: Sequence[Facts], device: torch.device) -> Tensor:
    most = max(map(len, sets), default=0)
    rows = [(*facts, *[-1] * (most - len(facts))) for facts in sets]
    return torch.tensor(rows, dtype=torch.long, device=device).view(len(sets), most)


def _evidence(graph: ComputationGraph, best: Sequence[tuple[int, Facts, float]]) -> EvidenceBatch:
    query = torch.tensor([query for query, _, _ in best], dtype=torch.long, device=graph.device)
    cost = torch.tensor([cost for _, _, cost in best], dtype=torch.float64, device=graph.device)
    return EvidenceBatch.of_sets(graph, query, _padded([facts for _, facts, _ in best], graph.device), cost)
