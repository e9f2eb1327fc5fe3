"""How the edges of a slice are arranged for summing their messages: once, whatever their weights, and kept with them.

A message depends on its source and its relation but not on its target, so there are fewer distinct messages, the
(relation, source) pairs, than edges. Where weights are known first, a relation may map its targets' sums instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

import torch
from torch import Tensor

from powerlink.graphs.edges import EdgeSlice, Heirs
from powerlink.kernels.incidence import Incidence, Lookup

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
    pairs = pairs_of(edges)
    return _to_targets(edges, pairs.of_edge, pairs.sources.index.numel())


@arranged_once
def pairs_to_targets_by_direction(edges: EdgeSlice) -> Incidence:
    """Messages are pairs; facts are added up in row 2·target and inverses in row 2·target + 1."""
    pairs = pairs_of(edges)
    return _to_targets_by_direction(edges, pairs.of_edge, pairs.sources.index.numel())


@arranged_once
def related_nodes_to_targets_by_direction(edges: EdgeSlice) -> Incidence:
    """Messages are nodes times relations; rows as in `pairs_to_targets_by_direction`."""
    return _to_targets_by_direction(edges, edges.source, edges.num_sources, edges.relation, 2 * edges.num_relations)


def _to_targets(edges: EdgeSlice, message: Tensor, num_messages: int) -> Incidence:
    return Incidence.of(edges.target, message, edges.num_targets, num_messages, heirs=edges.heirs, ascending=True)


def _to_targets_by_direction(
    edges: EdgeSlice, message: Tensor, num_messages: int, factor: Tensor | None = None, num_factors: int = 0
) -> Incidence:
    rows, sizes = _by_direction(edges, edges.target, edges.relation), (2 * edges.num_targets, num_messages)
    heirs = edges.heirs
    if heirs is not None:
        heirs = Heirs(*(torch.stack([2 * node, 2 * node + 1], 1).flatten() for node in (heirs.row, heirs.ancestor)))
    return Incidence.of(rows, message, *sizes, factor, num_factors, heirs=heirs)


def _by_direction(edges: EdgeSlice, node: Tensor, relation: Tensor) -> Tensor:
    return 2 * node + (relation >= edges.num_relations)


@dataclass(frozen=True, eq=False)
class Crossings:
    """Rows that a relation maps, sorted by relation: as few as there can be.

    To map each source and add up is to add up and map each target's sum, if the map is linear. `gender` has thousands
    of sources and two targets, its inverse the other way round: both need two rows.
    """

    relations: Lookup  # (C,) of each row, ascending
    node: Tensor  # (C,) the source or the target it belongs to
    is_sum: Tensor  # (C,) of sources; else the row is one source alone
    of_edge: Tensor  # (E,) the row that each edge passes


@arranged_once
def crossings_of(edges: EdgeSlice) -> Crossings:
    """Choose a side for every relation."""
    sources, targets = (
        torch.bincount((edges.relation * span + node).unique() // span, minlength=2 * edges.num_relations)
        for node, span in ((edges.source, edges.num_sources), (edges.target, edges.num_targets))
    )
    fewer_targets = targets < sources  # (2R,)
    span = max(edges.num_sources, edges.num_targets)
    node = torch.where(fewer_targets[edges.relation], edges.target, edges.source)
    rows, of_edge = (edges.relation * span + node).unique(return_inverse=True)
    relation = rows // span
    return Crossings(Lookup(relation, 2 * edges.num_relations), rows % span, fewer_targets[relation], of_edge)


@arranged_once
def nodes_to_crossings(edges: EdgeSlice) -> Incidence:
    """What each row is made of: its one source, or those of its edges.

    Entries that are no edge have the weight behind the edges' weights, a 1.
    """
    crossings = crossings_of(edges)
    single, summed = (~crossings.is_sum).nonzero().squeeze(1), crossings.is_sum[crossings.of_edge].nonzero().squeeze(1)
    rows = torch.cat([single, crossings.of_edge[summed]])
    nodes = torch.cat([crossings.node[single], edges.source[summed]])
    behind = torch.cat([torch.full_like(single, edges.source.numel()), summed])
    return Incidence.of(rows, nodes, crossings.node.numel(), edges.num_sources, edges=behind)


@arranged_once
def crossings_to_targets(edges: EdgeSlice) -> Incidence:
    """Where each row goes once it is mapped: to its one target, or along its edges."""
    return _to_places(edges, edges.target, crossings_of(edges).node, edges.num_targets)


@arranged_once
def crossings_to_targets_by_direction(edges: EdgeSlice) -> Incidence:
    """The same, with facts added up in row 2·target and inverses in row 2·target + 1."""
    crossings = crossings_of(edges)
    of_edge = _by_direction(edges, edges.target, edges.relation)
    of_sum = _by_direction(edges, crossings.node, crossings.relations.index)
    return _to_places(edges, of_edge, of_sum, 2 * edges.num_targets)


def _to_places(edges: EdgeSlice, place_of_edge: Tensor, place_of_sum: Tensor, places: int) -> Incidence:
    crossings = crossings_of(edges)
    single, summed = (~crossings.is_sum[crossings.of_edge]).nonzero().squeeze(1), crossings.is_sum.nonzero().squeeze(1)
    rows = torch.cat([place_of_edge[single], place_of_sum[summed]])
    columns = torch.cat([crossings.of_edge[single], summed])
    behind = torch.cat([single, torch.full_like(summed, edges.source.numel())])
    return Incidence.of(rows, columns, places, crossings.node.numel(), edges=behind)
