"""What changes when edges are removed: copies of exactly the nodes that would encode differently.

A scenario is a set of removed edges. Instead of encoding the graph once per scenario, every node whose encoding a
scenario changes gets a copy for it; a copy reads from the scenario's other copies where there are any and from the
unchanged originals elsewhere. One `encode` of originals and copies together answers thousands of scenarios, and costs
what the changed neighbourhoods cost. It is exact for every model in which a node reads only its incoming edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.edges import Edges, expand_rows, find_sorted
from powerlink.graphs.message_graph import MessageGraph


@dataclass(frozen=True, eq=False)
class Removals:
    """Which edges each scenario is without, as sorted unique keys scenario·E + edge."""

    num_scenarios: int
    keys: Tensor  # (n,)

    @classmethod
    def of(cls, graph: Edges, num_scenarios: int, scenario: Tensor, edge: Tensor) -> Removals:
        """Collect (scenario, edge) pairs, in any order and with repeats."""
        return cls(num_scenarios, (scenario * graph.num_edges + edge).unique())

    def slice(self, graph: Edges, first: int, last: int) -> Removals:
        """Return the scenarios first … last − 1, renumbered from zero."""
        start, stop = _bounds_of(self.keys, first * graph.num_edges, last * graph.num_edges)
        return Removals(last - first, self.keys[start:stop] - first * graph.num_edges)


@dataclass(frozen=True, eq=False, kw_only=True)
class WhatIf(Edges):
    """The copies (nodes 0 … C−1, sorted by scenario, then original) and the originals they read from."""

    scenario: Tensor  # (C,)
    original: Tensor  # (C,) node of the graph the copies were made of

    @property
    def num_copies(self) -> int:
        return self.scenario.numel()


@dataclass(frozen=True, eq=False)
class Changes:
    """The nodes each scenario changes, as sorted unique keys scenario·N + node."""

    keys: Tensor  # (C,)
    early: Tensor  # (C,) bool: changed before the last layer, so that other nodes read the change

    def slice(self, graph: Edges, first: int, last: int) -> Changes:
        """Return those of the scenarios first … last − 1, renumbered from zero."""
        start, stop = _bounds_of(self.keys, first * graph.num_nodes, last * graph.num_nodes)
        return Changes(self.keys[start:stop] - first * graph.num_nodes, self.early[start:stop])

    def edge_load(self, graph: Edges, num_scenarios: int) -> Tensor:
        """Count the incoming edges of each scenario's nodes: (S,)."""
        node = self.keys % graph.num_nodes
        degree = graph.row[node + 1] - graph.row[node]
        return degree.new_zeros(num_scenarios).index_add(0, self.keys // graph.num_nodes, degree)


def changed_nodes(
    graph: MessageGraph | ComputationGraph, removals: Removals, layers: int, *, wanted: Tensor | None = None
) -> Changes:
    """Find the nodes each scenario changes.

    A removed edge changes its target in the first layer, its target's readers in the second, and so on. With `wanted`
    (S, w), nodes per scenario, only what those nodes can still notice is followed (by the graph's `level`), and they
    are always included.
    """
    size = graph.num_nodes
    scenario, edge = removals.keys // graph.num_edges, removals.keys % graph.num_edges
    changed: Tensor = (scenario * size + graph.target[edge]).unique()
    if wanted is not None:
        changed = changed[_level(graph)[changed % size] <= layers - 1]
    early, frontier = changed[:0], changed
    for layer in range(1, layers):
        early = changed
        owner, incoming = expand_rows(graph.row, frontier % size)
        reader = graph.source[incoming]  # the graph is symmetric: who sends to a node also reads from it
        keys = (frontier // size)[owner] * size + reader
        if wanted is not None:
            keys = keys[_level(graph)[reader] <= layers - 1 - layer]
        keys = keys.unique()
        frontier = keys[~find_sorted(changed, keys)[1]]
        changed = torch.cat([changed, frontier]).sort().values
    if wanted is not None:
        ids = torch.arange(wanted.size(0), device=graph.device).unsqueeze(1)
        changed = torch.cat([changed, (ids * size + wanted).flatten()]).unique()
    return Changes(changed, find_sorted(early, changed)[1])


def what_if(
    graph: MessageGraph | ComputationGraph, removals: Removals, changes: Changes, layers: int, *, focused: bool
) -> WhatIf:
    """Build the copies of the changed nodes and the originals they read from.

    `focused`: only the copies at level 0 (a query's head and tail) are wanted; else every copy is. Copies and
    originals are walked in their order, so that nothing needs to be sorted; and what is rare, a removed edge or an
    edge from one copy to another, is looked for from its own side instead of at every edge.
    """
    size, num_copies = graph.num_nodes, changes.keys.numel()
    scenario, original = changes.keys // size, changes.keys % size
    level = _level(graph)[original] if focused else torch.zeros_like(original)
    owner, edge = expand_rows(graph.row, original)
    sender = graph.source[edge]

    # Which originals are read, and how far from a wanted copy: what a node at level l reads is needed at level l + 1.
    base_level = torch.full((size,), layers + 1, device=graph.device)
    for depth in reversed(range(layers if focused else 1)):
        base_level[sender[level[owner] == depth] if focused else sender] = depth + 1
    for depth in range(1, layers):
        read = graph.source[expand_rows(graph.row, (base_level == depth).nonzero().squeeze(1))[1]]
        base_level[read[base_level[read] > depth]] = depth + 1
    base = (base_level <= layers).nonzero().squeeze(1)
    place = torch.empty_like(base_level)
    place[base] = num_copies + torch.arange(base.numel(), device=graph.device)
    readers = base[base_level[base] < layers]
    reader, read = expand_rows(graph.row, readers)

    # A copy is read instead of its original where it differs before the last layer.
    entry_of = _EntryOf(graph, changes.keys, original)
    source = place[sender]
    early = changes.early.nonzero().squeeze(1)
    sent, incoming = expand_rows(graph.row, original[early])
    entry, there = entry_of(scenario[early[sent]], graph.reverse[incoming])
    source[entry[there]] = early[sent[there]]
    entry, there = entry_of(removals.keys // max(graph.num_edges, 1), removals.keys % max(graph.num_edges, 1))
    left = torch.ones_like(edge, dtype=torch.bool)
    left[entry[there]] = False
    left = left.nonzero().squeeze(1)

    edge = torch.cat([edge[left], read])
    return WhatIf(
        num_relations=graph.num_relations,
        entity=torch.cat([graph.entity[original], graph.entity[base]]),
        source=torch.cat([source[left], place[graph.source[read]]]),
        target=torch.cat([owner[left], place[readers][reader]]),
        relation=graph.relation[edge],
        norm=graph.norm[edge],
        level=torch.cat([level, base_level[base]]),
        scenario=scenario,
        original=original,
    )


class _EntryOf:
    """Where an edge lies among the copies' incoming edges, walked in order."""

    def __init__(self, graph: MessageGraph | ComputationGraph, keys: Tensor, original: Tensor) -> None:
        self._graph, self._keys = graph, keys
        degree = graph.row[original + 1] - graph.row[original]
        self._shift = degree.cumsum(0) - degree - graph.row[original]

    def __call__(self, scenario: Tensor, edge: Tensor) -> tuple[Tensor, Tensor]:
        """Return each edge's place in its scenario (n,), and whether its target has a copy there."""
        copy, there = find_sorted(self._keys, scenario * self._graph.num_nodes + self._graph.target[edge])
        return (self._shift[copy] if self._keys.numel() else copy) + edge, there


def nothing_but(graph: ComputationGraph, scenario: Tensor, edge: Tensor, wanted: Tensor) -> tuple[Edges, Tensor]:
    """Build, for each scenario, a graph of nothing but the given edges, and the nodes wanted in it (S, w).

    (scenario, edge) lists what is left, in any order and with repeats; returns the graphs side by side and where the
    wanted nodes are in them: (S, w).
    """
    size = graph.num_nodes
    pairs = (scenario * graph.num_edges + edge).unique()
    scenario, edge = pairs // graph.num_edges, pairs % graph.num_edges
    ids = torch.arange(wanted.size(0), device=graph.device).unsqueeze(1)
    keys = ids * size + wanted
    sources, targets = scenario * size + graph.source[edge], scenario * size + graph.target[edge]
    nodes = torch.cat([keys.flatten(), sources, targets]).unique()
    target, order = torch.searchsorted(nodes, targets).sort(stable=True)
    edge = edge[order]
    world = Edges(
        num_relations=graph.num_relations,
        entity=graph.entity[nodes % size],
        source=torch.searchsorted(nodes, sources)[order],
        target=target,
        relation=graph.relation[edge],
        norm=graph.norm[edge],
    )
    return world, torch.searchsorted(nodes, keys)


def _bounds_of(keys: Tensor, low: int, high: int) -> tuple[int, int]:
    """Return where the sorted keys in [low, high) begin and end."""
    start, stop = torch.searchsorted(keys, torch.tensor([low, high], device=keys.device)).tolist()
    return start, stop


def _level(graph: Edges) -> Tensor:
    assert graph.level is not None, "a focus needs a graph that knows each node's distance to head and tail"
    return graph.level
