"""Stage 3: what a set of queries can see. Always a batch; one query is a batch of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from powerlink.graphs.edges import (
    Edges,
    distinct,
    edges_between,
    expand_ranges,
    expand_rows,
    find_among,
    find_sorted,
    row_pointer,
)
from powerlink.graphs.message_graph import MessageGraph, inverse_relation


@dataclass(frozen=True, eq=False, kw_only=True)
class ComputationGraph(Edges):
    """The disjoint union of the queries' k-hop node-induced subgraphs around {head, tail}.

    Nodes are ordered by (query, entity) and edges by (query, edge of the message graph), so a query's nodes and
    edges are contiguous. The fact in question itself is left out: a fact must not explain itself. `level` is a node's
    distance to its query's head or tail: a model that encodes this graph computes the rows of head and tail, and of the
    others only as much as those two need.
    """

    queries: Tensor  # (Q, 3) head, relation, tail as global ids; a relation ≥ R asks through the inverse
    hops: int
    head: Tensor  # (Q,) node
    tail: Tensor  # (Q,) node
    query_of_node: Tensor  # (num_nodes,)
    query_of_edge: Tensor  # (num_edges,)
    edge: Tensor  # (num_edges,) its id in the message graph
    reverse: Tensor  # (num_edges,) the same fact in the other direction
    kept: Tensor  # (num_edges,) bool: survived pruning
    foil: Tensor | None = None  # (Q,) node that the tail is held against, −1 where there is none
    features: tuple[Tensor, Tensor] | None = None  # whole-graph encoding: (num_nodes, d) rows, (2R, d) relations

    @property
    def num_queries(self) -> int:
        return self.queries.size(0)

    @cached_property
    def node_row(self) -> Tensor:
        """Where each query's nodes begin: (Q + 1,)."""
        return row_pointer(self.query_of_node, self.num_queries)

    @cached_property
    def edge_row(self) -> Tensor:
        """Where each query's edges begin: (Q + 1,)."""
        return row_pointer(self.query_of_edge, self.num_queries)

    @property
    def against(self) -> Tensor | None:
        """Which queries have a foil, (Q,) bool; None: none has."""
        return None if self.foil is None else self.foil >= 0

    @property
    def ends(self) -> Tensor:
        """The nodes a query is answered with: head and tail (Q, 2), and the foil, else the tail again (Q, 3)."""
        if self.foil is None:
            return torch.stack([self.head, self.tail], dim=1)
        return torch.stack([self.head, self.tail, torch.where(self.foil >= 0, self.foil, self.tail)], dim=1)

    @property
    def triples(self) -> Tensor:
        """The queries over this graph's nodes: (Q, 3)."""
        return torch.stack([self.head, self.queries[:, 1], self.tail], dim=1)

    @cached_property
    def everywhere(self) -> Edges:
        """The same edges with every node's encoding wanted, for ranks inside the computation graph."""
        return replace(self, level=None)

    @cached_property
    def kept_edges(self) -> KeptEdges:
        """The edges that survived pruning, over the same nodes: what explainers score."""
        index = self.kept.nonzero().squeeze(1)
        return KeptEdges(
            num_relations=self.num_relations,
            entity=self.entity,
            source=self.source[index],
            target=self.target[index],
            relation=self.relation[index],
            norm=self.norm[index],
            level=self.level,
            index=index,
            query=self.query_of_edge[index],
        )

    def visible(self, edges: Tensor, layers: int) -> Tensor:
        """Tell which edges' facts (…) some layer of a model passes on towards head or tail; padding of −1 is not.

        A fact is seen if either of its messages arrives within the model's reach of head or tail.
        """
        assert self.level is not None
        if not self.num_edges:
            return torch.zeros_like(edges, dtype=torch.bool)
        edge = edges.clamp(min=0)
        nearest = torch.minimum(self.level[self.source[edge]], self.level[self.target[edge]])
        return (nearest <= layers - 1) & (edges >= 0)

    def pruned_to(self, kept: Tensor) -> ComputationGraph:
        """Return the same graph with another choice of surviving edges."""
        return replace(self, kept=kept)

    def with_features(self, entity: Tensor, relation: Tensor) -> ComputationGraph:
        """Attach the rows of a whole-graph encoding, entity (N, d) and relation (2R, d), that scorers read."""
        return replace(self, features=(entity[self.entity], relation))


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptEdges(Edges):
    """A computation graph's surviving edges, with their place in it."""

    index: Tensor  # (num_edges,) position in the computation graph
    query: Tensor  # (num_edges,)

    def scatter(self, values: Tensor, size: int) -> Tensor:
        """Spread values per surviving edge over all `size` edges; pruned ones get zero."""
        return values.new_zeros(size).index_copy(0, self.index, values)


def extract(
    graph: MessageGraph,
    queries: Tensor,
    hops: int,
    foils: Tensor | None = None,
    among: tuple[Tensor, Tensor] | None = None,
) -> ComputationGraph:
    """Cut out what each query (Q, 3) can see within `hops` of its head or tail, walking only those rows.

    With `foils` (Q,), −1 where a query has none, also what is around its foil. `among` names the nodes to look at,
    where those are not all: sorted keys query·N + entity, ends included, and each one's distance to the nearest end.
    """
    queries = queries.to(graph.device)
    size = graph.num_nodes
    nodes, level = among or _neighbourhood(graph, queries, hops, foils)
    query_of_node, entity = nodes // size, nodes % size

    begin, end = graph.row[entity], graph.row[entity + 1]
    target, edge = expand_ranges(begin, end)
    source, inside = find_among(nodes, (query_of_node * size)[target] + graph.source[edge], queries.size(0) * size)
    # An edge of the message graph lies, in its target's row, where it lies there.
    shift = (end - begin).cumsum(0) - end
    asked, fact = target_edges(graph, queries, foils)
    inside[fact + shift[find_sorted(nodes, asked * size + graph.target[fact])[0]]] = False
    left = inside.nonzero().squeeze(1)
    place = inside.cumsum(0) - 1
    source, target, edge = source[left], target[left], edge[left]

    ids = torch.arange(queries.size(0), device=graph.device)
    return ComputationGraph(
        num_relations=graph.num_relations,
        entity=entity,
        source=source,
        target=target,
        relation=graph.relation[edge],
        norm=graph.norm[edge],
        level=level,
        queries=queries,
        hops=hops,
        head=torch.searchsorted(nodes, ids * size + queries[:, 0]),
        tail=torch.searchsorted(nodes, ids * size + queries[:, 2]),
        query_of_node=query_of_node,
        query_of_edge=query_of_node[target],
        edge=edge,
        reverse=place[graph.reverse[edge] + shift[source]],
        kept=torch.ones_like(edge, dtype=torch.bool),
        foil=None if foils is None else torch.searchsorted(nodes, ids * size + foils).where(foils >= 0, -1),
    )


def edge_bounds(graph: MessageGraph, queries: Tensor, hops: int) -> Tensor:
    """Bound the number of edges of each query's computation graph from above: (Q,)."""
    nodes, _ = _neighbourhood(graph, queries.to(graph.device), hops)
    entity = nodes % graph.num_nodes
    degree = graph.row[entity + 1] - graph.row[entity]
    return degree.new_zeros(queries.size(0)).index_add(0, nodes // graph.num_nodes, degree)


def node_counts(graph: MessageGraph, queries: Tensor, hops: int) -> Tensor:
    """Count the nodes of each query's computation graph: (Q,)."""
    nodes, _ = _neighbourhood(graph, queries.to(graph.device), hops)
    return torch.bincount(nodes // graph.num_nodes, minlength=queries.size(0))


def _neighbourhood(
    graph: MessageGraph, queries: Tensor, hops: int, foils: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the sorted keys query·N + entity of all nodes within `hops`, and each one's distance."""
    size = graph.num_nodes
    ids = torch.arange(queries.size(0), device=graph.device) * size
    ends = [queries[:, 0], queries[:, 2], *([] if foils is None else [foils.where(foils >= 0, queries[:, 2])])]
    frontier = torch.cat([ids + end for end in ends]).unique()
    nodes, level = frontier, torch.zeros_like(frontier)
    for hop in range(1, hops + 1):
        owner, edge = expand_rows(graph.row, frontier % size)
        reached = distinct((frontier - frontier % size)[owner] + graph.source[edge], queries.size(0) * size)
        frontier = reached[~find_sorted(nodes, reached)[1]]
        nodes, order = torch.cat([nodes, frontier]).sort()
        level = torch.cat([level, torch.full_like(frontier, hop)])[order]
    return nodes, level


def target_edges(graph: MessageGraph, queries: Tensor, foils: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Find the facts in question among the graph's edges, the foils' among them: (query, edge) of both directions."""
    facts = queries
    if foils is not None:
        held = torch.stack([*queries[:, :2].unbind(1), foils.where(foils >= 0, queries[:, 2])], dim=1)
        facts = torch.cat([queries, held])
    head, relation, tail = facts.unbind(1)
    wanted = torch.cat([relation, inverse_relation(relation, graph.num_relations)])
    asked, edge = edges_between(graph, torch.cat([tail, head]), torch.cat([head, tail]))
    found = graph.relation[edge] == wanted[asked]
    query, edge = torch.stack([asked[found] % max(queries.size(0), 1), edge[found]], dim=1).unique(dim=0).unbind(1)
    return query, edge
