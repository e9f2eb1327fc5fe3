"""Paths merged into one graph from head to tail, with its nodes in columns."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter

from powerlink.explanation import Evidence, Fact, Query

HEAD, TAIL = 0, 1


@dataclass(frozen=True)
class Hop:
    """A fact between two nodes, walked from source to target by one or more paths."""

    source: int
    target: int
    fact: Fact
    paths: tuple[int, ...]


@dataclass(frozen=True)
class MergedPaths:
    """The union of some paths, without cycles. Node 0 is the head, node 1 the tail."""

    names: tuple[str, ...]
    hops: tuple[Hop, ...]
    columns: tuple[int, ...]  # per node; every hop leads to a later column


def merge_paths(query: Query, evidence: Sequence[Evidence]) -> MergedPaths:
    """Let paths and sets share the nodes they have in common.

    Two paths may pass two nodes in opposite orders; the later path then gets a copy of one of them, so that
    every hop can lead from left to right.
    """
    names = [query.head, query.tail]
    after: dict[int, set[int]] = {HEAD: set(), TAIL: set()}
    walked_by: dict[tuple[int, int, Fact], list[int]] = defaultdict(list)  # facts are equal whatever their effects
    wanted: dict[int, list[float]] = defaultdict(list, {HEAD: [0.0], TAIL: [1.0]})  # node → where its paths want it
    for p, piece in enumerate(evidence):
        here = HEAD
        for i, fact in enumerate(piece.facts, start=1):
            if piece.kind == "set":
                here, there, walked = _loose_hop(query, fact, names, after)
                wanted[here].append(0.5)
                wanted[there].append(0.5)
            else:
                walked = fact
                there = TAIL if i == len(piece.facts) else _shared_node(fact.target, here, names, after)
                wanted[there].append(i / len(piece.facts))
            after[here].add(there)
            walked_by[here, there, walked].append(p)
            here = there
    hops = tuple(Hop(*key, tuple(dict.fromkeys(walkers))) for key, walkers in walked_by.items())
    return MergedPaths(tuple(names), hops, _columns(after, wanted))


def _new_node(name: str, names: list[str], after: dict[int, set[int]]) -> int:
    names.append(name)
    after[len(names) - 1] = set()
    return len(names) - 1


def _shared_node(name: str, here: int, names: list[str], after: dict[int, set[int]]) -> int:
    """Return a node of this name that does not lead back to here; a new one where there is none."""
    for node, other in enumerate(names):
        if node not in (HEAD, TAIL) and other == name and not _reaches(node, here, after):
            return node
    return _new_node(name, names, after)


def _loose_hop(query: Query, fact: Fact, names: list[str], after: dict[int, set[int]]) -> tuple[int, int, Fact]:
    """Place a fact that is part of no path, walked in the direction that keeps every hop leading to the right."""

    def node(name: str) -> int:
        known = names.index(name) if name in names else _new_node(name, names, after)
        return HEAD if name == query.head else TAIL if name == query.tail else known

    for walked in (fact, replace(fact, inverse=not fact.inverse)):
        here, there = node(walked.source), node(walked.target)
        if here != TAIL and there != HEAD and not _reaches(there, here, after):
            return here, there, walked
    here = node(fact.source)
    # neither way fits: a copy of the far end stands for it
    return HEAD if here == TAIL else here, _new_node(fact.target, names, after), fact


def _reaches(start: int, goal: int, after: dict[int, set[int]]) -> bool:
    seen, stack = {start}, [start]
    while stack:
        node = stack.pop()
        if node == goal:
            return True
        stack.extend(after[node] - seen)
        seen |= after[node]
    return False


def _columns(after: dict[int, set[int]], wanted: dict[int, list[float]]) -> tuple[int, ...]:
    """Put each node near the mean of where its paths want it, with every hop leading to the right."""
    backwards = list(TopologicalSorter(after).static_order())  # every node behind those it leads to
    earliest = dict.fromkeys(after, 0)
    for node in reversed(backwards):
        for target in after[node]:
            earliest[target] = max(earliest[target], earliest[node] + 1)
    last = max(1, *earliest.values())
    latest: dict[int, int] = {}
    for node in backwards:
        latest[node] = min((latest[target] - 1 for target in after[node]), default=last)
    columns = dict.fromkeys(after, 0)
    for node in reversed(backwards):
        if node != HEAD:
            mean = sum(wanted[node]) / len(wanted[node])
            columns[node] = min(latest[node], max(columns[node], math.floor(last * mean + 0.5)))
        for target in after[node]:
            columns[target] = max(columns[target], columns[node] + 1)
    return tuple(columns[node] for node in sorted(columns))
