"""A layer's messages, made a piece at a time, and once for all edges for which they are the same.

`FastRGCNConv` and `RGATConv` copy a whole matrix for every edge they make a message of: on a graph of 33,000 facts
that is gigabytes, nearly all of them copies. In pieces they stay in the cache; and where a message depends on nothing
but its source and its edge's type, the thousands of copies of a node that a what-if graph has receive the same ones,
most of them known from the whole graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from powerlink.graphs.edges import find_sorted

PIECE = 600_000  # numbers a piece copies, if it copies a square matrix per edge: they fit a core's cache
PIECE_OF_ATTENTION = 4_000_000  # sharing out is work of its own for every piece
OF_SOURCE = "_j"  # how PyG names what is gathered from the source of an edge
Make = Callable[..., Tensor]  # a layer's `message`


@dataclass(frozen=True, eq=False)
class MessageArguments:
    """What a layer makes messages of, for the edges source → target, (E,) each."""

    arguments: Mapping[str, Any]
    rows: Mapping[str, Tensor]  # those of them that have a row per edge
    source: Tensor  # (E,)
    target: Tensor  # (E,)

    @property
    def _own(self) -> dict[str, Tensor]:
        """What belongs to the edges themselves."""
        return {name: v for name, v in self.rows.items() if not name.endswith(OF_SOURCE) and name != "index"}

    @property
    def types(self) -> dict[str, Tensor]:
        """The whole numbers, (E,) each, by which a layer may look up a matrix for each edge."""
        return {name: v for name, v in self._own.items() if v.dim() == 1 and not v.is_floating_point()}

    @property
    def by_place(self) -> bool:
        """Whether edges are counted by their place, so that all of them are wanted."""
        return self.arguments.get("ptr") is not None or "edge_index" in self.arguments

    @property
    def of_source_and_type(self) -> bool:
        """Whether messages depend on nothing else."""
        types = self.types
        return bool(types) and len(types) == len(self._own) and "index" not in self.arguments and not self.by_place

    def length(self, numbers: int) -> int:
        """Return how many edges a piece has, if it copies so many numbers."""
        widest = max((value[0].numel() for value in self.rows.values()), default=1)
        return max(numbers // widest**2, 1)

    def make(self, make: Make, edges: Tensor, begins: list[int]) -> list[Tensor]:
        """Make the messages of some edges, in pieces that begin at these places."""
        pieces = [edges[begin:end] for begin, end in pairwise([*begins, edges.numel()])]
        return [make(**{**self.arguments, **{n: v[piece] for n, v in self.rows.items()}}) for piece in pieces]


@dataclass(frozen=True, eq=False)
class KnownMessages:
    """The messages of the whole graph that depend on nothing but their source and their type."""

    names: tuple[str, ...]  # of the types
    spans: tuple[int, ...]  # of nodes and of each type
    keys: Tensor  # (n,) ascending
    messages: Tensor  # (n, …)

    @classmethod
    def of(cls, given: MessageArguments, messages: Tensor, num_nodes: int) -> KnownMessages | None:
        """Keep one of each, if there are such."""
        if not given.of_source_and_type or messages.size(0) != given.source.numel() or not given.source.numel():
            return None
        spans, keys, edges, _ = _distinct(given, num_nodes)
        return cls(tuple(given.types), spans, keys, messages.detach()[edges])

    def find(self, types: Mapping[str, Tensor], entity: Tensor) -> tuple[Tensor, Tensor]:
        """Look messages up by their types and the entities (n,) they come from: (place, whether it is known)."""
        known = torch.full_like(entity, tuple(types) == self.names, dtype=torch.bool)
        for value, span in zip(types.values(), self.spans[1:], strict=False):
            known &= (value >= 0) & (value < span)
        place, found = find_sorted(self.keys, _key(entity, types.values(), self.spans))
        return place, known & found

    def __deepcopy__(self, memo: Any) -> KnownMessages:
        return self


def make_in_pieces(
    make: Make, given: MessageArguments, whole: KnownMessages | None, entity: Tensor, known: Tensor
) -> Tensor:
    """Call a layer's `message`: (E, …).

    Nodes that are `known` (nodes,) have the rows that their `entity` (nodes,) has in the whole graph.
    """
    if not given.types or given.by_place or not given.source.numel():
        return make(**given.arguments)
    if given.of_source_and_type:
        _, _, edges, place = _distinct(given, entity.numel())
        if whole is None:
            there, known = edges, torch.zeros_like(edges, dtype=torch.bool)
        else:
            source = given.source[edges]
            there, found = whole.find({name: v[edges] for name, v in given.types.items()}, entity[source])
            known = found & known[source]
        new = edges[~known]
        made = given.make(make, new, list(range(0, new.numel(), given.length(PIECE))))
        if whole is not None:
            kept = whole.messages[there[known]]
            rows = next((rows for name, rows in given.rows.items() if name.endswith(OF_SOURCE)), kept)
            made.append(kept.to(rows.dtype))  # the model may have been turned into another kind of number since
            place = torch.cat([(~known).nonzero().squeeze(1), known.nonzero().squeeze(1)]).argsort()[place]
        return torch.cat(made).index_select(0, place)
    length = given.length(PIECE_OF_ATTENTION)
    if given.source.numel() <= length:
        return make(**given.arguments)
    # Attention is shared among the edges of a target: they stay together.
    edges = given.target.argsort(stable=True)
    target = given.target[edges]
    first = (target.diff(prepend=target.new_full((1,), -1)) != 0).nonzero().squeeze(1)
    begins = first[(first // length).diff(prepend=first.new_full((1,), -1)) > 0].tolist()
    return torch.cat(given.make(make, edges, begins)).index_select(0, edges.argsort())


def _distinct(given: MessageArguments, nodes: int) -> tuple[tuple[int, ...], Tensor, Tensor, Tensor]:
    """Find the n messages that differ: return (spans of nodes and types, keys (n,), an edge each (n,), places (E,))."""
    types = given.types.values()
    spans = nodes, *(int(value.max()) + 1 for value in types)
    keys, place = _key(given.source, types, spans).unique(return_inverse=True)
    return spans, keys, keys.scatter(0, place, torch.arange(place.numel(), device=place.device)), place


def _key(node: Tensor, types: Iterable[Tensor], spans: tuple[int, ...]) -> Tensor:
    """Number the combinations of node and types, (E,) each, by type first: (E,)."""
    key = torch.zeros_like(node)
    for value, span in zip(types, spans[1:], strict=False):
        key = key * span + value
    return key * spans[0] + node
