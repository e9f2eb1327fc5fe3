"""Directed, typed edges: the one shape every model encodes, and the row walk every graph is built with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class EdgeSlice:
    """The edges one layer needs. `index` places them in the graph; None means all, in order."""

    index: Tensor | None
    source: Tensor
    target: Tensor
    relation: Tensor
    norm: Tensor

    @cached_property
    def by_relation(self) -> tuple[Tensor, tuple[int, ...], Tensor]:
        """The edges grouped by relation: their order, how many each present relation has, and which those are."""
        order = self.relation.argsort(stable=True)
        present, sizes = self.relation[order].unique_consecutive(return_counts=True)
        return order, tuple(sizes.tolist()), present

    def weights(self, edge_weight: Tensor | None) -> Tensor | None:
        """Cut a weight per edge of the graph down to these edges."""
        if edge_weight is None or self.index is None:
            return edge_weight
        return edge_weight.index_select(0, self.index)


@dataclass(frozen=True, eq=False, kw_only=True)
class Edges:
    """Nodes and the typed edges messages travel along, from source to target.

    A node is local to its graph and stands for the global `entity` whose input embedding it starts from.
    """

    num_relations: int  # R; relation ids R … 2R−1 are the inverses
    entity: Tensor  # (num_nodes,)
    source: Tensor  # (num_edges,)
    target: Tensor  # (num_edges,) ascending
    relation: Tensor  # (num_edges,)
    norm: Tensor  # (num_edges,) 1/√(deg(source)·deg(target)) in the whole graph
    level: Tensor | None = None  # (num_nodes,) hops to the nearest node whose encoding is wanted; None: all are

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
    def _slices(self) -> dict[int, EdgeSlice]:
        return {}

    def layer(self, remaining: int) -> EdgeSlice:
        """Return the edges a layer needs when `remaining` more layers follow it.

        Only nodes within `remaining` hops of a wanted node still matter then, so their incoming edges are enough.
        """
        if self.level is None:
            remaining = 0  # every layer needs everything: one slice serves them all
        if remaining not in self._slices:
            if self.level is None:
                part = EdgeSlice(None, self.source, self.target, self.relation, self.norm)
            else:
                index = (self.level[self.target] <= remaining).nonzero().squeeze(1)
                part = EdgeSlice(index, self.source[index], self.target[index], self.relation[index], self.norm[index])
            self._slices[remaining] = part
        return self._slices[remaining]


def row_pointer(sorted_index: Tensor, size: int) -> Tensor:
    """Return where each value 0 … size−1 begins in a sorted index: (size + 1,)."""
    counts = torch.bincount(sorted_index, minlength=size)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def expand_rows(row: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Walk the rows `index` of a pointer: return (which of `index` each element came from, element position).

    >>> expand_rows(torch.tensor([0, 2, 2, 5]), torch.tensor([2, 0]))
    (tensor([0, 0, 0, 1, 1]), tensor([2, 3, 4, 0, 1]))
    """
    start = row[index]
    count = row[index + 1] - start
    owner = torch.repeat_interleave(torch.arange(index.numel(), device=index.device), count)
    first = count.cumsum(0) - count
    position = torch.arange(owner.numel(), device=index.device) - first[owner] + start[owner]
    return owner, position


def find_sorted(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Look values up in a sorted tensor without repeats: return (position, whether it is really there)."""
    if keys.numel() == 0:
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    position = torch.searchsorted(keys, wanted).clamp_(max=keys.numel() - 1)
    return position, keys[position] == wanted
