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
from powerlink.graphs.focus import EdgesByLevel, count_within
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
        bounds = torch.tensor([first, last], device=self.keys.device) * graph.num_edges
        start, stop = torch.searchsorted(self.keys, bounds).tolist()
        return Removals(last - first, self.keys[start:stop] - bounds[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class WhatIf(EdgesByLevel):
    """The copies (sorted by scenario, then original) and the originals they read from.

    Where all copies are wanted, they are the nodes 0 … C−1, in their order.
    """

    scenario: Tensor  # (C,)
    original: Tensor  # (C,) node of the graph the copies were made of
    copy: Tensor  # (C,) node

    @property
    def num_copies(self) -> int:
        return self.scenario.numel()


def changed_nodes(
    graph: MessageGraph | ComputationGraph, removals: Removals, layers: int, *, wanted: Tensor | None = None
) -> Tensor:
    """Find the nodes each scenario changes, as sorted keys scenario·N + node.

    A removed edge changes its target in the first layer, its target's readers in the second, and so on. With `wanted`
    (S, w), nodes per scenario, only what those nodes can still notice is followed (by the graph's `level`), and they
    are always included.
    """
    size = graph.num_nodes
    scenario, edge = removals.keys // graph.num_edges, removals.keys % graph.num_edges
    changed: Tensor = (scenario * size + graph.target[edge]).unique()
    if wanted is not None:
        changed = changed[_level(graph)[changed % size] <= layers - 1]
    frontier = changed
    for layer in range(1, layers):
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
    return changed


def what_if(
    graph: MessageGraph | ComputationGraph, removals: Removals, changed: Tensor, layers: int, *, focused: bool
) -> WhatIf:
    """Build the copies of the changed nodes and the originals they read from.

    `focused`: only the copies at level 0 (a query's head and tail) are wanted; else every copy is.
    """
    size, num_copies = graph.num_nodes, changed.numel()
    scenario, original = changed // size, changed % size
    level = _level(graph)[original] if focused else torch.zeros_like(original)

    # Originals are found level by level: what a node at level l reads is needed at level l + 1.
    base = original.new_empty(0)  # sorted originals met so far
    base_level = base
    sources, targets, edges = [], [], []
    for depth in range(layers):
        copies = (level == depth).nonzero().squeeze(1)
        owner, edge = expand_rows(graph.row, original[copies])
        owner = copies[owner]
        gone = find_sorted(removals.keys, scenario[owner] * graph.num_edges + edge)[1]
        owner, edge = owner[~gone], edge[~gone]
        copy, is_copy = find_sorted(changed, scenario[owner] * size + graph.source[edge])
        sources.append(torch.where(is_copy, copy, num_copies + graph.source[edge]))
        targets.append(owner)
        edges.append(edge)

        now = base[base_level == depth]
        reader, read = expand_rows(graph.row, now)
        sources.append(num_copies + graph.source[read])
        targets.append(num_copies + now[reader])
        edges.append(read)

        met = torch.cat([graph.source[edge[~is_copy]], graph.source[read]]).unique()
        fresh = met[~find_sorted(base, met)[1]]
        base, order = torch.cat([base, fresh]).sort()
        base_level = torch.cat([base_level, torch.full_like(fresh, depth + 1)])[order]

    source, target, edge = torch.cat(sources), torch.cat(targets), torch.cat(edges)
    level, order = torch.cat([level, base_level]).sort(stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel(), device=graph.device)
    where = torch.empty(num_copies + size, dtype=torch.int64, device=graph.device)  # node of a copy or an original
    where[:num_copies] = place[:num_copies]
    where[num_copies + base] = place[num_copies:]
    target, by_target = where[target].sort(stable=True)
    edge = edge[by_target]
    return WhatIf(
        num_relations=graph.num_relations,
        entity=torch.cat([graph.entity[original], graph.entity[base]])[order],
        source=where[source[by_target]],
        target=target,
        relation=graph.relation[edge],
        norm=graph.norm[edge],
        level=level,
        nodes_within=count_within(level, layers + 1),
        edges_within=count_within(level[target], layers),
        scenario=scenario,
        original=original,
        copy=where[:num_copies],
    )


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


def _level(graph: Edges) -> Tensor:
    assert graph.level is not None, "a focus needs a graph that knows each node's distance to head and tail"
    return graph.level
