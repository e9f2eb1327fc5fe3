"""Which edges of an edge_index are the two directions of one fact."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.errors import DataError
from powerlink.graphs.edges import find_sorted
from powerlink.graphs.message_graph import MessageGraph

NONE = -1


@dataclass(frozen=True, eq=False)
class PairedEdges:
    """An edge_index as a message graph, and the column behind each of its edges."""

    messages: MessageGraph
    column: Tensor  # (num_edges,) column of edge_index; −1 for a direction that is not there
    num_columns: int


def pair_up(edge_index: Tensor, edge_type: Tensor | None, num_nodes: int) -> PairedEdges:
    """Find facts and their inverses among typed edges (2, E), (E,).

    Types r and r + T/2 whose edges mirror each other are a relation and its inverse; a graph that mirrors itself is
    undirected; in any other every edge is a fact of its own, and its inverse carries no message.
    """
    source, target = edge_index
    kind = torch.zeros_like(source) if edge_type is None else edge_type
    types = int(kind.max()) + 1 if kind.numel() else 1

    def key(source: Tensor, kind: Tensor, target: Tensor) -> Tensor:
        return (source * num_nodes + target) * types + kind

    keys, order = key(source, kind, target).sort()
    if bool((keys[1:] == keys[:-1]).any()):
        raise DataError("edge_index holds the same edge of the same type twice: drop the repeats (Data.coalesce)")

    # back (E,) is each column's other direction, forward those that are facts
    half = types // 2
    twin = torch.where(kind < half, kind + half, kind - half)
    for inverse, facts, relations in (
        (twin, kind < half, half) if types % 2 == 0 else (kind, source <= target, types),
        (kind, source <= target, types),
    ):
        place, found = find_sorted(keys, key(target, inverse, source))
        if bool(found.all()) and kind.numel():
            count, forward = relations, facts.nonzero().squeeze(1)
            back = torch.where(source == target, NONE, order[place]) if inverse is kind else order[place]
            break
    else:
        count, forward, back = types, torch.arange(source.numel(), device=source.device), torch.full_like(source, NONE)
    triples = torch.stack([source, kind, target], dim=1)[forward]
    messages = MessageGraph.from_facts(triples, num_nodes, count, source.device)
    columns = torch.cat([forward, back[forward]])
    column = columns[messages.fact + (messages.relation >= count) * forward.numel()]
    return PairedEdges(messages, column, source.numel())
