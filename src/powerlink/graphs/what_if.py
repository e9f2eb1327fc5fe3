"""What changes when edges are removed: copies of exactly the nodes that would encode differently.

A scenario is a set of removed edges. Instead of encoding the graph once per scenario, every node whose encoding a
scenario changes gets a copy for it; a copy reads from the scenario's other copies where there are any and from the
unchanged originals elsewhere. One `encode` of originals and copies together answers thousands of scenarios, and costs
what the changed neighbourhoods cost. It is exact for every model in which a node reads only its incoming edges.

Where a model adds up its messages, a copy may inherit its original's sum and have edges only for what differs from it:
a hub that lost one fact is then told by one edge. The originals' sums are made once for all scenarios.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.edges import Edges, Heirs, expand_ranges, expand_rows, find_sorted, row_pointer
from powerlink.graphs.focus import EdgesByLevel, count_within
from powerlink.graphs.message_graph import MessageGraph

COPY_IN_EDGES = 8  # a copy's vectors take the memory of so many edges


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
class WhatIf(EdgesByLevel):
    """The copies (sorted by scenario, then original) and the originals they read from.

    Where all copies are wanted, they are the nodes 0 … C−1, in their order. Heirs are copies told by their difference
    from the original.
    """

    copy: Tensor  # (C,) node
    sign: Tensor | None  # (num_edges,) the edges' weights; −1 takes a message back that the original has


@dataclass(frozen=True, eq=False)
class Changes:
    """The nodes each scenario changes, as sorted unique keys scenario·N + node."""

    keys: Tensor  # (C,)
    early: Tensor  # (C,) bool: changed before the last layer, so that other nodes read the change

    def slice(self, graph: Edges, first: int, last: int) -> Changes:
        """Return those of the scenarios first … last − 1, renumbered from zero."""
        start, stop = _bounds_of(self.keys, first * graph.num_nodes, last * graph.num_nodes)
        return Changes(self.keys[start:stop] - first * graph.num_nodes, self.early[start:stop])

    def load(self, graph: Edges, num_scenarios: int, *, by_difference: bool) -> Tensor:
        """Count about the edges of each scenario's copies, (S,); a copy's own vectors weigh as some edges do."""
        node = self.keys % graph.num_nodes
        degree = graph.row[node + 1] - graph.row[node]
        # a difference is at most the readers of what changed early, and what they read before
        load = COPY_IN_EDGES + (2 * degree * self.early if by_difference else degree)
        return load.new_zeros(num_scenarios).index_add(0, self.keys // graph.num_nodes, load)


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
        if wanted is not None and layer == layers - 1:
            break  # all that the last layer changes, as far as anyone notices, are the wanted nodes themselves
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
    graph: MessageGraph | ComputationGraph,
    removals: Removals,
    changes: Changes,
    layers: int,
    *,
    focused: bool,
    by_difference: bool = False,
) -> WhatIf:
    """Build the copies of the changed nodes and the originals they read from.

    `focused`: only the copies at level 0 (a query's head and tail) are wanted; else every copy is. `by_difference`, for
    models that add up messages: a copy inherits its original's sum, and has edges only for what differs, wherever that
    is less than its own edges.
    """
    original = changes.keys % graph.num_nodes
    level = _level(graph)[original] if focused else torch.zeros_like(original)  # of each copy
    passed = _between_copies(graph, removals, changes, layers, level if focused else None)
    gone = _removed_at(graph, removals, changes)

    degree = graph.row[original + 1] - graph.row[original]
    differing, lost = (torch.bincount(part[0], minlength=original.numel()) for part in (passed, gone))
    heir = (2 * (2 * differing + lost) < degree) & by_difference  # most of a large sum taken back leaves its rounding
    to_heir, at_heir = heir[passed[0]], heir[gone[0]]
    whole = _whole(graph, original, (~heir).nonzero().squeeze(1), passed[:, ~to_heir], gone[:, ~at_heir])
    # To an heir, what changed comes instead of the original's message, and what is removed is taken back.
    instead = passed[:, to_heir]
    back = torch.cat([torch.cat([instead[:2], torch.full_like(instead[2:], -1)]), gone[:, at_heir]], dim=1)
    messages = torch.cat([whole, instead, back], dim=1)
    sign = torch.ones(messages.size(1), device=graph.device)
    sign[messages.size(1) - back.size(1) :] = -1.0
    return _in_order(graph, layers, changes, level, heir.nonzero().squeeze(1), messages, sign)


def _in_order(
    graph: Edges, layers: int, changes: Changes, level: Tensor, heirs: Tensor, messages: Tensor, sign: Tensor
) -> WhatIf:
    """Lay copies and the originals they need out by level, and what both receive by target.

    Copies have a `level` (C,), heirs (h,) are some of them, and messages (3, n) come to them with a sign (n,).
    """
    original = changes.keys % graph.num_nodes
    reader, edge, _ = messages
    read = torch.cat([graph.source[edge], original[heirs]])
    needed = _levels_of_originals(graph, layers, read, torch.cat([level[reader] + 1, level[heirs]]))
    base = (needed <= layers).nonzero().squeeze(1)
    levels, order = torch.cat([level, needed[base]]).sort(stable=True)  # of a level, copies come before originals
    node = torch.empty_like(order)
    node[order] = torch.arange(order.numel(), device=graph.device)
    copy, node_of = node[: original.numel()], torch.empty_like(needed)
    node_of[base] = node[original.numel() :]

    # Edges to copies and edges to originals, both by target, take turns level by level.
    by_target = copy[reader].argsort(stable=True)
    (reader, edge, sender), sign = messages.index_select(1, by_target), sign[by_target]
    readers = base[order[order >= original.numel()] - original.numel()]
    readers = readers[needed[readers] < layers]
    owner, own = expand_rows(graph.row, readers)
    ends = count_within(level[reader], layers), count_within(needed[readers][owner], layers)

    def together(*columns: Tensor) -> Tensor:
        turns = zip(*(column.tensor_split(end) for column, end in zip(columns, ends, strict=True)), strict=True)
        return torch.cat([piece for turn in turns for piece in turn])

    sources = torch.where(sender >= 0, copy[sender], node_of[graph.source[edge]])
    edges = together(edge, own)
    return WhatIf(
        num_relations=graph.num_relations,
        entity=torch.cat([graph.entity[original], graph.entity[base]])[order],
        source=together(sources, node_of[graph.source[own]]),
        target=together(copy[reader], node_of[readers][owner]),
        relation=graph.relation[edges],
        norm=graph.norm[edges],
        level=levels,
        heirs=Heirs(copy[heirs], node_of[original[heirs]]) if heirs.numel() else None,
        nodes_within=count_within(levels, layers + 1),
        edges_within=tuple(map(sum, zip(*ends, strict=True))),
        copy=copy,
        sign=together(sign, sign.new_ones(own.numel())) if heirs.numel() else None,
    )


def _between_copies(
    graph: MessageGraph | ComputationGraph, removals: Removals, changes: Changes, layers: int, level: Tensor | None
) -> Tensor:
    """Find where a copy reads another that changed before the last layer: (3, n) reader, edge and sender.

    Along removed edges it does not. With the copies' `level` (C,), only readers near enough for it to be noticed.
    """
    size = graph.num_nodes
    scenario, original = changes.keys // size, changes.keys % size
    sender = changes.early.nonzero().squeeze(1)
    if level is None:  # all readers of what changed early are copies: walk to them
        which, incoming = expand_rows(graph.row, original[sender])
        sender, edge = sender[which], graph.reverse[incoming]
        reader = find_sorted(changes.keys, scenario[sender] * size + graph.source[incoming])[0]
    else:  # readers are few: look for edges from each of the early copies
        near = (level <= layers - 2).nonzero().squeeze(1)
        which, place = expand_rows(row_pointer(scenario[near], removals.num_scenarios), scenario[sender])
        sender, reader = sender[which], near[place]
        pair = original[reader] * size + original[sender]
        bounds = (torch.searchsorted(graph.pair_key, pair, right=right) for right in (False, True))
        which, edge = expand_ranges(*bounds)
        sender, reader = sender[which], reader[which]
    there = ~find_sorted(removals.keys, scenario[sender] * graph.num_edges + edge)[1]
    return torch.stack([reader[there], edge[there], sender[there]])


def _removed_at(graph: MessageGraph | ComputationGraph, removals: Removals, changes: Changes) -> Tensor:
    """Find the removed edges that lead to copies, whose originals send along them: (3, n) copy, edge and −1."""
    edges = max(graph.num_edges, 1)
    edge = removals.keys % edges
    copy, there = find_sorted(changes.keys, removals.keys // edges * graph.num_nodes + graph.target[edge])
    return torch.stack([copy, edge, torch.full_like(edge, -1)])[:, there]


def _whole(graph: Edges, original: Tensor, copies: Tensor, passed: Tensor, gone: Tensor) -> Tensor:
    """Give copies all their edges, less what is gone, some read from another copy instead of the original.

    Returns (3, n) copy, edge and sender, −1 for the original; `passed` (3, p) and `gone` (3, g) are alike.
    """
    owner, edge = expand_rows(graph.row, original[copies])
    # An edge lies, in its copy's row, where it lies in its original's.
    begin, end = graph.row[original[copies]], graph.row[original[copies] + 1]
    shift = torch.zeros_like(original)
    shift[copies] = (end - begin).cumsum(0) - end
    sender, left = torch.full_like(edge, -1), torch.ones_like(edge, dtype=torch.bool)
    sender[shift[passed[0]] + passed[1]] = passed[2]
    left[shift[gone[0]] + gone[1]] = False
    return torch.stack([copies[owner[left]], edge[left], sender[left]])


def _levels_of_originals(graph: Edges, layers: int, node: Tensor, level: Tensor) -> Tensor:
    """Say how far from a wanted copy each original is read, (N,): layers + 1 where it is not.

    Copies read some nodes (n,) at a level (n,) each; what a node at level l reads is needed at level l + 1.
    """
    needed = torch.full_like(graph.entity, layers + 1).scatter_reduce(0, node, level, "amin")
    for depth in range(layers):
        read = graph.source[expand_rows(graph.row, (needed == depth).nonzero().squeeze(1))[1]]
        needed[read[needed[read] > depth]] = depth + 1
    return needed


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
