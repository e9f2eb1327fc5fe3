"""Directed, typed edges: the one shape every model encodes, and the row walk every graph is built with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from powerlink.graphs.crossings import Crossings
from powerlink.graphs.incidence import Heirs, Incidence, Lookup, Stretches, row_pointer

TILE = 64  # pairs of one relation that a GPU multiplies by its matrix at once


@dataclass(frozen=True, eq=False)
class Tiles:
    """(relation, source) pairs laid out in tiles of one relation each; the gaps read node 0 and are read by nobody."""

    sources: Lookup  # (T·TILE,)
    relations: Lookup  # (T,)
    place: Tensor  # (P,) where each pair lies


@dataclass(frozen=True, eq=False, kw_only=True)
class EdgeSlice:
    """The edges one layer needs, arranged for summing their messages; arranged once, whatever the weights.

    A message depends on its source and its relation but not on its target, so there are fewer distinct messages, the
    (relation, source) pairs, than edges.
    """

    index: Tensor | None  # (E,) place in the graph; None means its first E edges, in order
    source: Tensor  # (E,)
    target: Tensor  # (E,) ascending
    relation: Tensor  # (E,)
    norm: Tensor  # (E,)
    num_sources: int  # nodes the layer reads: the graph's first ones
    num_targets: int  # nodes it computes: the first of those
    num_relations: int
    heirs: Heirs | None = None
    reweighed: bool = (
        True  # the same messages are weighted again and again, so they are made once, before their weights
    )

    @cached_property
    def _pairs(self) -> tuple[Tensor, Tensor]:
        pairs, of_edge = (self.relation * self.num_sources + self.source).unique(return_inverse=True)
        return pairs, of_edge

    @cached_property
    def pair_source(self) -> Tensor:
        """The source of each pair: (P,)."""
        return self._pairs[0] % self.num_sources

    @cached_property
    def pair_relation(self) -> Tensor:
        """The relation of each pair, ascending: (P,)."""
        return self._pairs[0] // self.num_sources

    @cached_property
    def pair_sources(self) -> Lookup:
        """The sources, to be read for each pair."""
        return Lookup(self.pair_source, self.num_sources)

    @cached_property
    def pair_relations(self) -> Lookup:
        """The relations, to be read for each pair."""
        return Lookup(self.pair_relation, 2 * self.num_relations)

    @cached_property
    def edge_relations(self) -> Lookup:
        """The relations, to be read for each edge."""
        return Lookup(self.relation, 2 * self.num_relations)

    @cached_property
    def pairs_by_relation(self) -> Stretches:
        """The pairs of each relation."""
        return Stretches.of(self.pair_relation)

    @cached_property
    def tiles(self) -> Tiles:
        """The pairs, padded so that every tile belongs to one relation."""
        present, counts = self.pair_relation.unique_consecutive(return_counts=True)
        tiles = (counts + TILE - 1) // TILE
        first_tile, first_pair = tiles.cumsum(0) - tiles, counts.cumsum(0) - counts
        shift = torch.repeat_interleave(first_tile * TILE - first_pair, counts)
        place = torch.arange(self.pair_source.numel(), device=shift.device) + shift
        relation = torch.repeat_interleave(present, tiles)
        source = place.new_zeros(relation.numel() * TILE).index_copy_(0, place, self.pair_source)
        return Tiles(Lookup(source, self.num_sources), Lookup(relation, 2 * self.num_relations), place)

    @cached_property
    def tiles_to_targets(self) -> Incidence:
        """Messages are pairs where the tiles put them."""
        places = self.tiles.place[self._pairs[1]]
        sizes = self.num_targets, self.tiles.sources.index.numel()
        return Incidence.of(self.target, places, *sizes, heirs=self.heirs, ascending=True)

    @cached_property
    def nodes_to_targets(self) -> Incidence:
        """Messages are the source nodes themselves."""
        sizes = self.num_targets, self.num_sources
        return Incidence.of(self.target, self.source, *sizes, heirs=self.heirs, ascending=True)

    @cached_property
    def pairs_to_targets(self) -> Incidence:
        """Messages are (relation, source) pairs."""
        sizes = self.num_targets, self._pairs[0].numel()
        return Incidence.of(self.target, self._pairs[1], *sizes, heirs=self.heirs, ascending=True)

    @cached_property
    def pairs_to_targets_by_direction(self) -> Incidence:
        """Messages are pairs; facts are added up in row 2·target and inverses in row 2·target + 1."""
        rows = self.target * 2 + (self.relation >= self.num_relations)
        sizes = 2 * self.num_targets, self._pairs[0].numel()
        return Incidence.of(rows, self._pairs[1], *sizes, heirs=self._heirs_by_direction)

    @cached_property
    def related_nodes_to_targets_by_direction(self) -> Incidence:
        """Messages are nodes times relations; rows as in `pairs_to_targets_by_direction`."""
        rows = self.target * 2 + (self.relation >= self.num_relations)
        sizes, factors = (2 * self.num_targets, self.num_sources), (self.relation, 2 * self.num_relations)
        return Incidence.of(rows, self.source, *sizes, *factors, heirs=self._heirs_by_direction)

    @property
    def _heirs_by_direction(self) -> Heirs | None:
        return None if self.heirs is None else self.heirs.in_pairs()

    @cached_property
    def crossings(self) -> Crossings:
        """Where relations map vectors if messages need not be there before they are weighted."""
        return Crossings.of(
            self.source,
            self.target,
            self.relation,
            num_sources=self.num_sources,
            num_targets=self.num_targets,
            num_relations=self.num_relations,
        )

    def weights(self, edge_weight: Tensor | None) -> Tensor:
        """Cut a weight per edge of the graph down to these edges; without one, every edge weighs 1."""
        if edge_weight is None:
            return torch.ones_like(self.norm)
        return edge_weight[: self.norm.numel()] if self.index is None else edge_weight.index_select(0, self.index)


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

    @property
    def heirs(self) -> Heirs | None:
        """Nodes whose edges tell only how they differ from another node; here, none."""
        return None

    @property
    def reweighed(self) -> bool:
        """Whether the same messages are weighted again and again, as masks do; else weights may come first."""
        return True

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
        """Return the edges a layer needs when `remaining` more layers follow it.

        Only nodes within `remaining` hops of a wanted node still matter then, so their incoming edges are enough.
        """
        if self.level is None:
            remaining = 0  # every layer needs everything: one slice serves them all
        if remaining not in self._slices:
            index = None if self.level is None else (self.level[self.target] <= remaining).nonzero().squeeze(1)
            columns = {"source": self.source, "target": self.target, "relation": self.relation, "norm": self.norm}
            self._slices[remaining] = EdgeSlice(
                index=index,
                num_sources=self.num_nodes,
                num_targets=self.num_nodes,
                num_relations=self.num_relations,
                heirs=self.heirs,
                reweighed=self.reweighed,
                **(columns if index is None else {name: column[index] for name, column in columns.items()}),
            )
        return self._slices[remaining]


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
