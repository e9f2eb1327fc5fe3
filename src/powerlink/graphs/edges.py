"""Directed, typed edges: the one shape every model encodes, and the row walk every graph is built with."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Heirs:
    """Nodes that are another node and a difference: their own edges tell the difference alone."""

    row: Tensor  # (h,) node
    ancestor: Tensor  # (h,) a node that is no heir itself

    def among(self, nodes: int) -> Heirs:
        """Return the heirs among the first nodes; their ancestors must be there, too."""
        here = (self.row < nodes).nonzero().squeeze(1)
        return Heirs(self.row[here], self.ancestor[here])


@dataclass(frozen=True, eq=False, kw_only=True)
class EdgeSlice:
    """The edges one layer needs."""

    index: slice | Tensor  # (E,) their places in the graph
    source: Tensor  # (E,)
    target: Tensor  # (E,) ascending
    relation: Tensor  # (E,)
    norm: Tensor  # (E,)
    num_sources: int  # nodes the layer reads: the graph's first ones
    num_targets: int  # nodes it computes: the first of those
    num_relations: int
    heirs: Heirs | None = None
    reweighed: bool
    arranged: dict[object, Any] = field(init=False, default_factory=dict)  # what kernels make of the columns, once

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what can be arranged again."""
        return {**self.__dict__, "arranged": {}}

    def weights(self, edge_weight: Tensor | None) -> Tensor:
        """Cut a weight per edge of the graph down to these edges; without one, every edge weighs 1."""
        if edge_weight is None:
            return torch.ones_like(self.norm)
        return edge_weight[self.index] if isinstance(self.index, slice) else edge_weight.index_select(0, self.index)


@dataclass(frozen=True, eq=False, kw_only=True)
class Edges:
    """Nodes and the typed edges messages travel along, from source to target.

    A node is local to its graph and stands for the global `entity` whose input embedding it starts from.
    """

    # The same messages are weighted again and again, as masks do, so they are made once, before their weights.
    reweighed: ClassVar[bool] = True

    num_relations: int  # R; relation ids R … 2R−1 are the inverses
    entity: Tensor  # (num_nodes,)
    source: Tensor  # (num_edges,)
    target: Tensor  # (num_edges,) ascending
    relation: Tensor  # (num_edges,)
    norm: Tensor  # (num_edges,) 1/√(deg(source)·deg(target)) in the whole graph
    level: Tensor | None = None  # (num_nodes,) hops to the nearest node whose encoding is wanted; None: all are
    heirs: Heirs | None = None

    def __deepcopy__(self, memo: object) -> Self:
        """A graph never changes, so whoever holds one shares it with their copy."""
        return self

    @property
    def num_nodes(self) -> int:
        return self.entity.numel()

    @property
    def num_edges(self) -> int:
        return self.source.numel()

    @property
    def device(self) -> torch.device:
        return self.source.device

    @cached_property
    def row(self) -> Tensor:
        """Where each target's edges begin: (num_nodes + 1,)."""
        return row_pointer(self.target, self.num_nodes)

    @cached_property
    def pair_key(self) -> Tensor:
        """target·N + source of each edge, ascending where edges are sorted by (target, source): (num_edges,)."""
        return self.target * self.num_nodes + self.source

    def rows_of(self, table: Tensor) -> Tensor:
        """Return each node's row of a table by entity: (num_entities, d) → (num_nodes, d)."""
        return table.index_select(0, self.entity)

    @cached_property
    def _slices(self) -> dict[int, EdgeSlice]:
        return {}

    def layer(self, remaining: int) -> EdgeSlice:
        """Return the edges a layer needs when `remaining` more layers follow it."""
        if self.level is None:
            remaining = 0  # every layer needs everything: one slice serves them all
        if remaining not in self._slices:
            index, num_sources, num_targets = self._needed(remaining)
            self._slices[remaining] = EdgeSlice(
                index=index,
                source=self.source[index],
                target=self.target[index],
                relation=self.relation[index],
                norm=self.norm[index],
                num_sources=num_sources,
                num_targets=num_targets,
                num_relations=self.num_relations,
                heirs=None if self.heirs is None else self.heirs.among(num_targets),
                reweighed=self.reweighed,
            )
        return self._slices[remaining]

    def _needed(self, remaining: int) -> tuple[slice | Tensor, int, int]:
        """Say which edges a layer needs, how many nodes it reads and how many it computes.

        Only nodes within `remaining` hops of a wanted node still matter then, so their incoming edges are enough.
        """
        index = slice(None) if self.level is None else (self.level[self.target] <= remaining).nonzero().squeeze(1)
        return index, self.num_nodes, self.num_nodes


def row_pointer(sorted_index: Tensor, size: int) -> Tensor:
    """Return where each value 0 … size−1 begins in a sorted index: (size + 1,)."""
    counts = torch.bincount(sorted_index, minlength=size)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def expand_rows(row: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Walk the rows `index` of a pointer: return (which of `index` each element came from, element position).

    >>> expand_rows(torch.tensor([0, 2, 2, 5]), torch.tensor([2, 0]))
    (tensor([0, 0, 0, 1, 1]), tensor([2, 3, 4, 0, 1]))
    """
    return expand_ranges(row[index], row[index + 1])


def expand_ranges(start: Tensor, stop: Tensor) -> tuple[Tensor, Tensor]:
    """Walk ranges start … stop − 1: return (which range each element came from, element)."""
    count = stop - start
    owner = torch.repeat_interleave(torch.arange(start.numel(), device=start.device), count)
    shift = start - (count.cumsum(0) - count)
    return owner, torch.arange(owner.numel(), device=start.device) + shift[owner]


def edges_between(graph: Edges, target: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Find all edges from sources (n,) to targets (n,) of a graph sorted by both: return (which pair, edge).

    Rows are halved again and again: nothing grows with them, and no key of every edge is made for it.
    """
    bounds = []
    for right in (False, True):
        low, high = graph.row[target], graph.row[target + 1]
        for _ in range(graph.num_edges.bit_length()):
            middle = (low + high) // 2
            there = graph.source[middle.clamp(max=max(graph.num_edges - 1, 0))]
            before = (low < high) & ((there <= source) if right else (there < source))
            low, high = torch.where(before, middle + 1, low), torch.where(before, high, torch.minimum(middle, high))
        bounds.append(low)
    return expand_ranges(*bounds)


def find_sorted(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Look values up in a sorted tensor without repeats: return (position, whether it is really there)."""
    if keys.numel() == 0:
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    position = torch.searchsorted(keys, wanted).clamp_(max=keys.numel() - 1)
    return position, keys[position] == wanted


def find_among(keys: Tensor, wanted: Tensor, span: int) -> tuple[Tensor, Tensor]:
    """Look many values of 0 … span−1 up as `find_sorted` does; positions of what is not there mean nothing.

    A table of the span costs less than a search where there is more to look up than it has entries.
    """
    if span > wanted.numel():
        return find_sorted(keys, wanted)
    table = keys.new_full((span,), -1)
    table[keys] = torch.arange(keys.numel(), device=keys.device)
    position = table[wanted]
    return position, position >= 0


def distinct(values: Tensor, span: int) -> Tensor:
    """Return the distinct values of 0 … span−1, ascending; by a table where that costs less than sorting."""
    if span > values.numel():
        found: Tensor = values.unique()
        return found
    met = torch.zeros(span, dtype=torch.bool, device=values.device)
    met[values] = True
    return met.nonzero().squeeze(1)
