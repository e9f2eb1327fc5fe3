"""Evidence: a few facts that may be why the model believes. A path has an order, a set has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.paths.search import PathBatch

Kind = Literal["path", "set"]


@dataclass(frozen=True, eq=False)
class EvidenceBatch:
    """Evidence of many queries, sorted by query, in each query's order of being proposed."""

    query: Tensor  # (n,)
    edges: Tensor  # (n, most) an edge for each fact, padded with −1 at the end
    cost: Tensor  # (n,) float64: what the proposer orders by, the cheapest first
    is_path: Tensor  # (n,) bool: the edges lead from head to tail, one after the other

    @classmethod
    def of_paths(cls, paths: PathBatch) -> EvidenceBatch:
        """Return paths as evidence."""
        return cls(paths.query, paths.edges, paths.cost, torch.ones_like(paths.query, dtype=torch.bool))

    @classmethod
    def of_sets(cls, graph: ComputationGraph, query: Tensor, edges: Tensor, cost: Tensor) -> EvidenceBatch:
        """Return sets of facts, edges (n, most) in either direction, padded with −1; a query's in their order."""
        last = torch.iinfo(edges.dtype).max
        edges = fact_of(graph, edges)
        edges = edges.where(edges >= 0, last).sort(dim=1).values
        again = torch.nn.functional.pad(edges[:, 1:] == edges[:, :-1], (1, 0))  # a fact named in both directions
        edges = edges.where(~again, last).sort(dim=1).values
        order = query.argsort(stable=True)
        edges = edges.where(edges < last, -1)[order]
        return cls(query[order], edges, cost.double()[order], torch.zeros_like(query, dtype=torch.bool))

    @property
    def count(self) -> int:
        return self.query.numel()

    @property
    def size(self) -> Tensor:
        """How many facts each holds: (n,)."""
        return (self.edges >= 0).sum(1)

    def select(self, index: Tensor) -> EvidenceBatch:
        """Return some of it."""
        return EvidenceBatch(self.query[index], self.edges[index], self.cost[index], self.is_path[index])

    def first(self, count: int) -> EvidenceBatch:
        """Return each query's first `count` pieces."""
        place = torch.arange(self.count, device=self.query.device) - torch.searchsorted(self.query, self.query)
        return self.select((place < count).nonzero().squeeze(1))

    def numbered(self, columns: Tensor) -> Tensor:
        """Number the pieces, (n,): those of one query and kind share a number where their columns (n, w) are equal."""
        key = torch.cat([self.query.unsqueeze(1), self.is_path.long().unsqueeze(1), columns], dim=1)
        number: Tensor = key.unique(dim=0, return_inverse=True)[1]
        return number


def fact_of(graph: ComputationGraph, edges: Tensor) -> Tensor:
    """Return one edge for both directions of each fact (…); padding of −1 stays."""
    edge = edges.clamp(min=0)
    return torch.where(edges >= 0, torch.minimum(edge, graph.reverse[edge]), -1) if graph.num_edges else edges


def first_of_each(number: Tensor) -> Tensor:
    """Return the places where a number occurs for the first time, ascending."""
    first = number.new_full((int(number.max()) + 1 if number.numel() else 0,), number.numel())
    place = torch.arange(number.numel(), device=number.device)
    return (first.scatter_reduce(0, number, place, "amin")[number] == place).nonzero().squeeze(1)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Evidence to be judged, each piece with its proposer's place in the list of proposers."""

    evidence: EvidenceBatch
    proposer: Tensor  # (n,)


def pool(proposals: Sequence[EvidenceBatch]) -> Candidates:
    """Join what several proposed; what two propose belongs to the first."""
    most = max(1, *(part.edges.size(1) for part in proposals))
    joined = EvidenceBatch(
        torch.cat([part.query for part in proposals]),
        torch.cat([torch.nn.functional.pad(p.edges, (0, most - p.edges.size(1)), value=-1) for p in proposals]),
        torch.cat([part.cost for part in proposals]),
        torch.cat([part.is_path for part in proposals]),
    )
    proposer = torch.cat([torch.full_like(part.query, i) for i, part in enumerate(proposals)])
    first = first_of_each(joined.numbered(joined.edges))
    first = first[joined.query[first].argsort(stable=True)]
    return Candidates(joined.select(first), proposer[first])
