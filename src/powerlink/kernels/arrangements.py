"""How the edges of a slice are arranged for summing their messages: once, whatever their weights, and kept with them.

A message depends on its source and its relation but not on its target, so there are fewer distinct messages, the
(relation, source) pairs, than edges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TypeVar

import torch
from torch import Tensor

from powerlink.graphs.edges import EdgeSlice, Heirs, row_pointer
from powerlink.kernels.incidence import Groups, Incidence, Lookup

View = TypeVar("View")


def arranged_once(arrange: Callable[[EdgeSlice], View]) -> Callable[[EdgeSlice], View]:
    """Keep what is arranged of a slice with the slice; it must not hold the slice, or both would outlive their use."""

    @wraps(arrange)
    def kept(edges: EdgeSlice) -> View:
        if arrange not in edges.arranged:
            edges.arranged[arrange] = arrange(edges)
        view: View = edges.arranged[arrange]
        return view

    return kept


@dataclass(frozen=True, eq=False)
class Pairs:
    """The distinct (relation, source) pairs, ascending."""

    relations: Lookup  # (P,)
    sources: Lookup  # (P,)
    of_edge: Tensor  # (E,)

    @property
    def count(self) -> int:
        return self.sources.index.numel()

    @cached_property
    def by_relation(self) -> Groups:
        """The pairs of each relation."""
        return Groups(row_pointer(self.relations.index, self.relations.size))


@arranged_once
def relations_of(edges: EdgeSlice) -> Lookup:
    """The relations, to be read for each edge."""
    return Lookup(edges.relation, 2 * edges.num_relations)


@arranged_once
def pairs_of(edges: EdgeSlice) -> Pairs:
    """The pairs that the edges carry."""
    pairs, of_edge = (edges.relation * edges.num_sources + edges.source).unique(return_inverse=True)
    relations = Lookup(pairs // edges.num_sources, 2 * edges.num_relations)
    return Pairs(relations, Lookup(pairs % edges.num_sources, edges.num_sources), of_edge)


@arranged_once
def nodes_to_targets(edges: EdgeSlice) -> Incidence:
    """Messages are the source nodes themselves."""
    return _to_targets(edges, edges.source, edges.num_sources)


@arranged_once
def pairs_to_targets(edges: EdgeSlice) -> Incidence:
    """Messages are (relation, source) pairs."""
    return _to_targets(edges, pairs_of(edges).of_edge, pairs_of(edges).count)


@arranged_once
def pairs_to_targets_by_direction(edges: EdgeSlice) -> Incidence:
    """Messages are pairs; facts are added up in row 2·target and inverses in row 2·target + 1."""
    return _by_direction(edges, pairs_of(edges).of_edge, pairs_of(edges).count)


@arranged_once
def related_nodes_to_targets_by_direction(edges: EdgeSlice) -> Incidence:
    """Messages are nodes times relations; rows as in `pairs_to_targets_by_direction`."""
    return _by_direction(edges, edges.source, edges.num_sources, edges.relation, 2 * edges.num_relations)


def _to_targets(edges: EdgeSlice, message: Tensor, num_messages: int) -> Incidence:
    return Incidence.of(edges.target, message, edges.num_targets, num_messages, heirs=edges.heirs, ascending=True)


def _by_direction(
    edges: EdgeSlice, message: Tensor, num_messages: int, factor: Tensor | None = None, num_factors: int = 0
) -> Incidence:
    rows, sizes = 2 * edges.target + (edges.relation >= edges.num_relations), (2 * edges.num_targets, num_messages)
    heirs = None if edges.heirs is None else Heirs(_both_rows(edges.heirs.row), _both_rows(edges.heirs.ancestor))
    return Incidence.of(rows, message, *sizes, factor, num_factors, heirs=heirs)


def _both_rows(nodes: Tensor) -> Tensor:
    """Return 2·node and 2·node + 1 of each node: (n,) → (2n,)."""
    return (2 * nodes.unsqueeze(1) + torch.tensor([0, 1], device=nodes.device)).flatten()
