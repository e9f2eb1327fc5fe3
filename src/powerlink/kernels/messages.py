"""What the edges of a slice carry, to be weighted and added up at their targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from powerlink.graphs.edges import EdgeSlice
from powerlink.kernels import arrangements
from powerlink.kernels.fused import can_fuse, product_precision
from powerlink.kernels.grouped_product import grouped_product
from powerlink.kernels.incidence import Incidence
from powerlink.kernels.message_sum import message_sum, read_rows


@dataclass(frozen=True, eq=False)
class Messages:
    """What edges carry before they are weighted: rows, perhaps times rows of another table, and where to."""

    rows: Tensor  # (columns, d)
    incidence: Incidence
    factors: Tensor | None = None  # (factors, d)

    def summed(self, weight: Tensor) -> Tensor:
        """Return Σ weight·message at every row of the incidence: weight (E,) → (rows, d)."""
        return message_sum(self.rows, weight, self.incidence, self.factors)


@dataclass(frozen=True, eq=False)
class MappedSums:
    """The same where every relation is a linear map and weights come first: fewer rows are mapped."""

    nodes: Tensor  # (n, in)
    to_crossings: Incidence
    map_rows: Callable[[Tensor], Tensor]  # (C, in) → (C, out), each row by its relation
    to_places: Incidence  # from the crossings

    def summed(self, weight: Tensor) -> Tensor:
        """Return Σ weight·message at every place: weight (E,) → (places, out)."""
        weight = torch.cat([weight, weight.new_ones(1)])  # for entries that are no edge
        rows = message_sum(self.nodes, weight, self.to_crossings)
        return message_sum(self.map_rows(rows), weight, self.to_places)


def related_messages(nodes: Tensor, relations: Tensor, edges: EdgeSlice) -> Messages | MappedSums:
    """Return node·relation of every edge: nodes (n, d), relations (2R, d).

    They are summed at every node, facts in row 2·target and inverses in 2·target + 1.
    """
    if can_fuse(nodes):
        return Messages(nodes, arrangements.related_nodes_to_targets_by_direction(edges), relations)
    if _weights_come_first(nodes, edges):
        factors = read_rows(relations, arrangements.crossings_of(edges).relations)
        places = arrangements.crossings_to_targets_by_direction(edges)
        return MappedSums(nodes, arrangements.nodes_to_crossings(edges), lambda rows: rows * factors, places)
    pairs = arrangements.pairs_of(edges)
    messages = read_rows(nodes, pairs.sources) * read_rows(relations, pairs.relations)
    return Messages(messages, arrangements.pairs_to_targets_by_direction(edges))


def related_blocks(nodes: Tensor, blocks: Tensor, edges: EdgeSlice) -> Messages | MappedSums:
    """Return source · its relation's matrix of every edge, to be summed at the targets.

    nodes (n, B·i), blocks (2R, B, i, o); messages of width B·o.
    """
    precision = product_precision()
    if _weights_come_first(nodes, edges):
        by_relation = arrangements.crossings_of(edges).relations.groups
        multiply = partial(grouped_product, matrices=blocks, groups=by_relation, precision=precision)
        places = arrangements.crossings_to_targets(edges)
        return MappedSums(nodes, arrangements.nodes_to_crossings(edges), multiply, places)
    pairs = arrangements.pairs_of(edges)
    messages = grouped_product(nodes, blocks, pairs.relations.groups, pairs.sources, precision=precision)
    return Messages(messages, arrangements.pairs_to_targets(edges))


def _weights_come_first(nodes: Tensor, edges: EdgeSlice) -> bool:
    """Say whether to add up before relations map, where that maps fewer rows; a GPU has kernels of its own."""
    return nodes.device.type == "cpu" and not edges.reweighed and edges.heirs is None
