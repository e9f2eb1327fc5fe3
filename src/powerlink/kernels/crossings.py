"""Where relations map vectors: at the sources of their messages or at the targets, wherever there are fewer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from powerlink.graphs.edges import EdgeSlice, row_pointer
from powerlink.kernels.arrangements import arranged_once
from powerlink.kernels.incidence import Groups, Incidence, Lookup


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

    @cached_property
    def by_relation(self) -> Groups:
        """The rows of each relation."""
        return Groups(row_pointer(self.relations.index, self.relations.size))


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
    of_edge, of_row = (relation >= edges.num_relations for relation in (edges.relation, crossings.relations.index))
    return _to_places(edges, 2 * edges.target + of_edge, 2 * crossings.node + of_row, 2 * edges.num_targets)


def _to_places(edges: EdgeSlice, place_of_edge: Tensor, place_of_sum: Tensor, places: int) -> Incidence:
    crossings = crossings_of(edges)
    single, summed = (~crossings.is_sum[crossings.of_edge]).nonzero().squeeze(1), crossings.is_sum.nonzero().squeeze(1)
    rows = torch.cat([place_of_edge[single], place_of_sum[summed]])
    columns = torch.cat([crossings.of_edge[single], summed])
    behind = torch.cat([single, torch.full_like(summed, edges.source.numel())])
    return Incidence.of(rows, columns, places, crossings.node.numel(), edges=behind)
