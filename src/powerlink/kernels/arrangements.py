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

from powerlink.graphs.edges import EdgeSlice, Heirs
from powerlink.kernels.incidence import Incidence, Lookup, Stretches

TILE = 64  # pairs of one relation that a GPU multiplies by its matrix at once

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
    def by_relation(self) -> Stretches:
        """The pairs of each relation."""
        return Stretches.of(self.relations.index)


@dataclass(frozen=True, eq=False)
class Tiles:
    """(relation, source) pairs laid out in tiles of one relation each; the gaps read node 0 and are read by nobody."""

    sources: Lookup  # (T·TILE,)
    relations: Lookup  # (T,)
    place: Tensor  # (P,) where each pair lies


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
def tiles_of(edges: EdgeSlice) -> Tiles:
    """The pairs, padded so that every tile belongs to one relation."""
    pairs = pairs_of(edges)
    present, counts = pairs.relations.index.unique_consecutive(return_counts=True)
    tiles = (counts + TILE - 1) // TILE
    first_tile, first_pair = tiles.cumsum(0) - tiles, counts.cumsum(0) - counts
    shift = torch.repeat_interleave(first_tile * TILE - first_pair, counts)
    place = torch.arange(pairs.count, device=shift.device) + shift
    relation = torch.repeat_interleave(present, tiles)
    source = place.new_zeros(relation.numel() * TILE).index_copy_(0, place, pairs.sources.index)
    return Tiles(Lookup(source, edges.num_sources), Lookup(relation, 2 * edges.num_relations), place)


@arranged_once
def nodes_to_targets(edges: EdgeSlice) -> Incidence:
    """Messages are the source nodes themselves."""
    return _to_targets(edges, edges.source, edges.num_sources)


@arranged_once
def pairs_to_targets(edges: EdgeSlice) -> Incidence:
    """Messages are (relation, source) pairs."""
    return _to_targets(edges, pairs_of(edges).of_edge, pairs_of(edges).count)


@arranged_once
def tiles_to_targets(edges: EdgeSlice) -> Incidence:
    """Messages are pairs where the tiles put them."""
    tiles = tiles_of(edges)
    return _to_targets(edges, tiles.place[pairs_of(edges).of_edge], tiles.sources.index.numel())


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
