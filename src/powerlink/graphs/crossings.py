"""Where relations map vectors: at the sources of their messages or at the targets, wherever there are fewer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from powerlink.graphs.incidence import Incidence, Lookup, Stretches


@dataclass(frozen=True, eq=False, kw_only=True)
class Crossings:
    """Rows that a relation maps, sorted by relation: as few as there can be.

    To map each source and add up is to add up and map each target's sum, if the map is linear. `gender` has thousands
    of sources and two targets, its inverse the other way round: both need two rows.
    """

    source: Tensor  # (E,)
    target: Tensor  # (E,)
    of_edge: Tensor  # (E,) the row that each edge passes
    at_target: Tensor  # (E,) whether that row is a sum of sources; else it is the edge's source alone
    relation: Tensor  # (C,) of each row, ascending
    node: Tensor  # (C,) the source or the target it belongs to
    is_sum: Tensor  # (C,)
    num_sources: int
    num_targets: int
    num_relations: int

    @classmethod
    def of(
        cls,
        source: Tensor,
        target: Tensor,
        relation: Tensor,
        *,
        num_sources: int,
        num_targets: int,
        num_relations: int,
    ) -> Crossings:
        """Choose a side for every relation of the edges, (E,) each."""
        by_source = relation * num_sources + source
        by_target = relation * num_targets + target
        sources, targets = (
            torch.bincount(keys.unique() // span, minlength=2 * num_relations)
            for keys, span in ((by_source, num_sources), (by_target, num_targets))
        )
        fewer_targets = targets < sources  # (2R,)
        at_target = fewer_targets[relation]
        span = max(num_sources, num_targets)
        key = relation * span + torch.where(at_target, target, source)
        rows, of_edge = key.unique(return_inverse=True)
        return cls(
            source=source,
            target=target,
            of_edge=of_edge,
            at_target=at_target,
            relation=rows // span,
            node=rows % span,
            is_sum=fewer_targets[rows // span],
            num_sources=num_sources,
            num_targets=num_targets,
            num_relations=num_relations,
        )

    @cached_property
    def relations(self) -> Lookup:
        """The relations, to be read for each row."""
        return Lookup(self.relation, 2 * self.num_relations)

    @cached_property
    def by_relation(self) -> Stretches:
        """The rows of each relation."""
        return Stretches.of(self.relation)

    @cached_property
    def from_nodes(self) -> Incidence:
        """What each row is made of: its one source, or those of its edges. Weights are those of `weights`."""
        single, summed = (~self.is_sum).nonzero().squeeze(1), self.at_target.nonzero().squeeze(1)
        rows = torch.cat([single, self.of_edge[summed]])
        nodes = torch.cat([self.node[single], self.source[summed]])
        edges = torch.cat([torch.full_like(single, self.source.numel()), summed])
        return _entries(rows, nodes, edges, self.relation.numel(), self.num_sources)

    @cached_property
    def to_targets(self) -> Incidence:
        """Where each row goes once it is mapped: to its one target, or along its edges."""
        return self._to(self.target, self.node, self.num_targets)

    @cached_property
    def to_targets_by_direction(self) -> Incidence:
        """The same, with facts added up in row 2·target and inverses in row 2·target + 1."""
        inverse = self.relation >= self.num_relations
        return self._to(2 * self.target + inverse[self.of_edge], 2 * self.node + inverse, 2 * self.num_targets)

    def _to(self, place_of_edge: Tensor, place_of_sum: Tensor, places: int) -> Incidence:
        single, summed = (~self.at_target).nonzero().squeeze(1), self.is_sum.nonzero().squeeze(1)
        rows = torch.cat([place_of_edge[single], place_of_sum[summed]])
        crossings = torch.cat([self.of_edge[single], summed])
        edges = torch.cat([single, torch.full_like(summed, self.source.numel())])
        return _entries(rows, crossings, edges, places, self.relation.numel())

    def weights(self, weight: Tensor) -> Tensor:
        """Put a 1 behind the edges' weights, for entries that are no edge: (E,) → (E + 1,)."""
        return torch.cat([weight, weight.new_ones(1)])


def _entries(rows: Tensor, columns: Tensor, edges: Tensor, num_rows: int, num_columns: int) -> Incidence:
    """Return the entries' pattern, where `edges` says whose weight each has."""
    incidence = Incidence.of(rows, columns, num_rows, num_columns)
    return replace(incidence, edge=edges[incidence.edge])
