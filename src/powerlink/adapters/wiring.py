"""Whose edge is which: PyG's graphs as a KnowledgeGraph, the edge types a user's layers know, and parts of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from powerlink.errors import DataError, MismatchError, SettingsError
from powerlink.graphs.edges import Edges, find_sorted
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kg.knowledge_graph import KnowledgeGraph, Names

Inverse = Literal["added", "none", "same"]
NOT_PASSED = -1


@dataclass(frozen=True, eq=False)
class Wiring:
    """A graph, and the edge type of every relation (0 … R−1) and inverse (R … 2R−1) in the user's layers."""

    graph: KnowledgeGraph
    edge_types: Tensor  # (2R,); −1: no message runs this way


def wire(graph: Any, inverse: Inverse | Sequence[int], names: Any = None, relation_names: Any = None) -> Wiring:
    """Read a KnowledgeGraph, Data or HeteroData, and settle which edge type each relation and inverse has.

    `inverse`: "added", relation r's inverse is type r + R; "none", messages run from head to tail only; "same", both
    directions have type r; or the types themselves, R or 2R numbers.
    """
    if isinstance(inverse, str) and inverse not in get_args(Inverse):
        raise SettingsError(f"inverse must be {', '.join(get_args(Inverse))} or the edge types, not {inverse!r}")
    if isinstance(graph, HeteroData):
        return _wire_hetero(graph, inverse, names or {})
    if isinstance(graph, Data):
        graph = _graph_of_data(graph, inverse, names, relation_names)
    if not isinstance(graph, KnowledgeGraph):
        raise SettingsError(f"a graph must be a KnowledgeGraph, Data or HeteroData, not {type(graph).__name__}")
    return Wiring(graph, _edge_types(graph.num_relations, inverse))


def _edge_types(count: int, inverse: Inverse | Sequence[int]) -> Tensor:
    facts, nowhere = torch.arange(count), torch.full((count,), NOT_PASSED)
    if isinstance(inverse, str):
        return torch.cat([facts, {"added": facts + count, "none": nowhere, "same": facts}[inverse]])
    types = torch.as_tensor(list(inverse), dtype=torch.long)
    if types.numel() == count:
        return torch.cat([types, nowhere])
    if types.numel() != 2 * count:
        raise MismatchError(
            f"edge types are needed for {count} relations, or for them and their inverses ({2 * count}), but "
            f"{types.numel()} are given"
        )
    return types


def _graph_of_data(data: Data, inverse: Inverse | Sequence[int], names: Any, relation_names: Any) -> KnowledgeGraph:
    """Name the facts of a homogeneous graph; with inverses added, one direction of each pair is the fact."""
    if data.edge_index is None or data.get("edge_type") is None:
        raise DataError("the Data has no edge_index or no edge_type: a knowledge graph needs both")
    (source, target), kind = data.edge_index.cpu(), data.edge_type.cpu()
    if kind.shape != source.shape:
        raise DataError(f"edge_type must have a number per edge, {tuple(source.shape)}, not {tuple(kind.shape)}")
    rows = torch.stack([source, kind, target], dim=1)
    if rows.unique(dim=0).size(0) != rows.size(0):
        raise DataError("the Data holds the same edge of the same type twice: drop the repeats (Data.coalesce)")
    count = int(kind.max()) + 1 if kind.numel() else 0
    if inverse == "same":
        raise SettingsError("which direction is the fact? with inverse='same' give a KnowledgeGraph instead of Data")
    if inverse == "added":
        count = (count + 1) // 2
        back = rows[:, 1] >= count
        flipped = torch.stack([target, kind - count, source], dim=1)[back]
        rows = rows[~back]
        if not torch.equal(flipped.unique(dim=0), rows.unique(dim=0)):
            raise MismatchError(
                f"with inverse='added' every edge of type r < {count} needs its inverse of type r + {count}, and the "
                "Data's edges are not such pairs; say inverse='none' if it holds each fact once"
            )
    relation_names = relation_names or data.get("relation_names") or [f"r{i}" for i in range(count)]
    return _graph("data", rows, names or data.get("entity_names"), relation_names, data.num_nodes or 0)


def _wire_hetero(data: HeteroData, inverse: Inverse | Sequence[int], names: Mapping[str, Sequence[str]]) -> Wiring:
    """Number nodes and edge types as `to_homogeneous` does; a `rev_` type that mirrors another is its inverse."""
    first: dict[str, int] = {}
    called: list[str] = []
    for kind in data.node_types:
        first[kind] = len(called)
        called += names.get(kind) or [f"{kind} {i}" for i in range(data[kind].num_nodes)]
        if len(called) - first[kind] != data[kind].num_nodes:
            raise MismatchError(
                f"there are {data[kind].num_nodes} nodes of type {kind!r}, but {len(names[kind])} names"
            )
    edges = {
        kind: data[kind].edge_index.cpu() + torch.tensor([[first[kind[0]]], [first[kind[2]]]])
        for kind in data.edge_types
    }
    mirror = {}
    if inverse == "added":
        mirror = {kind: twin for kind in edges if (twin := _mirror_of(kind, edges)) is not None}
    facts = [kind for kind in edges if kind not in mirror]
    middles = [kind[1] for kind in facts]
    relation_names = [m if middles.count(m) == 1 else " ".join(k) for m, k in zip(middles, facts, strict=True)]
    parts = [torch.stack([edges[k][0], torch.full_like(edges[k][0], i), edges[k][1]], 1) for i, k in enumerate(facts)]
    rows = torch.cat(parts) if parts else torch.empty(0, 3, dtype=torch.long)
    graph = _graph("heterodata", rows, called, relation_names, len(called))
    if inverse != "added":
        return Wiring(graph, _edge_types(graph.num_relations, inverse))
    position = {kind: i for i, kind in enumerate(data.edge_types)}
    back = {twin: position[kind] for kind, twin in mirror.items()}
    types = [position[kind] for kind in facts] + [back.get(kind, NOT_PASSED) for kind in facts]
    return Wiring(graph, torch.tensor(types, dtype=torch.long))


def _mirror_of(kind: tuple[str, str, str], edges: Mapping[tuple[str, str, str], Tensor]) -> tuple[str, str, str] | None:
    """Return the edge type that this one is the exact reverse of, by PyG's naming: (b, rev_x, a) of (a, x, b)."""
    twin = (kind[2], kind[1].removeprefix("rev_"), kind[0])
    if not kind[1].startswith("rev_") or twin not in edges:
        return None
    return twin if torch.equal(edges[kind].flip(0).unique(dim=1), edges[twin].unique(dim=1)) else None


def _graph(
    name: str, rows: Tensor, names: Sequence[str] | None, relation_names: Sequence[str], num_nodes: int
) -> KnowledgeGraph:
    entities = tuple(map(str, names)) if names is not None else tuple(f"e{i}" for i in range(num_nodes))
    if len(entities) != num_nodes:
        raise MismatchError(f"the graph has {num_nodes} nodes, but {len(entities)} names are given")
    needed = int(rows[:, 1].max()) + 1 if len(rows) else 0
    if len(relation_names) < needed:
        raise MismatchError(f"the graph has {needed} relations, but {len(relation_names)} names are given")
    for part in (entities, relation_names):
        shared, uses = Counter(part).most_common(1)[0] if part else ("", 1)
        if uses > 1:
            raise DataError(f"the name {shared!r} is given {uses} times; every entity and every relation needs its own")
    relations, empty = Names("relation", tuple(map(str, relation_names))), np.empty((0, 3), dtype=np.int64)
    return KnowledgeGraph(name, Names("entity", entities), relations, rows.numpy().astype(np.int64), empty, empty)


def find_edges(whole: MessageGraph, graph: Edges) -> Tensor:
    """Find the edge of the whole graph behind each edge of a part of it: (num_edges,)."""
    relations = 2 * whole.num_relations
    keys = whole.pair_key * relations + whole.relation  # ascending: the graph is sorted so
    ends = graph.entity[graph.target] * whole.num_nodes + graph.entity[graph.source]
    edge, found = find_sorted(keys, ends * relations + graph.relation)
    if not bool(found.all()):
        raise MismatchError("the graph has edges that are not in the graph the model was adapted to")
    return edge
