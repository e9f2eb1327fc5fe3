"""A layer's messages, made a piece at a time, and once for all edges for which they are the same.

`FastRGCNConv` and `RGATConv` copy a whole matrix for every edge they make a message of: on a graph of 33,000 facts
that is gigabytes, nearly all of them copies. In pieces they stay in the cache; and where a message depends on nothing
but its source and its edge's type, the thousands of copies of a node that a what-if graph has receive the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

PIECE = 600_000  # numbers a piece copies, if it copies a square matrix per edge: they fit a core's cache
PIECE_OF_ATTENTION = 4_000_000  # sharing out is work of its own for every piece
OF_SOURCE = "_j"  # how PyG names what is gathered from the source of an edge


def make_in_pieces(
    make: Callable[..., Tensor],
    arguments: Mapping[str, Any],
    rows: Mapping[str, Tensor],
    source: Tensor,
    target: Tensor,
) -> Tensor:
    """Call a layer's `message` for the edges source → target, (E,) each: messages (E, …).

    `rows`: those of the arguments that have a row per edge.
    """
    own = {name: value for name, value in rows.items() if not name.endswith(OF_SOURCE) and name != "index"}
    types = [value for value in own.values() if value.dim() == 1 and not value.is_floating_point()]
    # Without types no matrix is looked up by them; and who counts edges by their place wants all of them.
    if not types or arguments.get("ptr") is not None or "edge_index" in arguments:
        return make(**arguments)
    alike = len(types) == len(own) and "index" not in arguments
    square = max(value[0].numel() for value in rows.values()) ** 2 if source.numel() else 1
    length = max((PIECE if alike else PIECE_OF_ATTENTION) // square, 1)
    if source.numel() <= length:
        return make(**arguments)
    if alike:
        edges, place = _one_of_each(source, types)
        ends = torch.arange(0, edges.numel(), length).tolist()
    else:  # attention is shared among the edges of a target: they stay together
        edges = target.argsort(stable=True)
        place = torch.empty_like(edges).scatter_(0, edges, torch.arange(edges.numel(), device=edges.device))
        first = (target[edges].diff(prepend=target.new_full((1,), -1)) != 0).nonzero().squeeze(1)
        ends = first[(first // length).diff(prepend=first.new_full((1,), -1)) > 0].tolist()
    pieces = [edges[i:j] for i, j in zip(ends, [*ends[1:], edges.numel()], strict=True)]
    made = [make(**{**arguments, **{name: value[piece] for name, value in rows.items()}}) for piece in pieces]
    return torch.cat(made).index_select(0, place)


def _one_of_each(source: Tensor, types: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Choose an edge of each source and each combination of types, and tell whose message each edge has."""
    key = source
    for value in types:
        key = value * (key.max() + 1) + key
    kinds, place = key.unique(return_inverse=True)
    return kinds.scatter(0, place, torch.arange(key.numel(), device=key.device)), place
