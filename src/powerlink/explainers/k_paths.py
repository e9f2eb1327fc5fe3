"""K-Paths (Abdullahi et al., 2025): the shortest paths that differ in their relations, without asking the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from powerlink.evidence import EvidenceBatch, first_of_each
from powerlink.explainers.protocol import Oracle, Proposal, Wish
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.paths.propose import RouteSearch
from powerlink.settings import check_settings, setting


@dataclass(frozen=True, kw_only=True)
class KPaths:
    """The shortest loopless paths, the first one of each sequence of relations before a second one of any.

    As in the paper, edges have no weight; what is wished of costs is not heard. Paths of one length go by edge ids.
    """

    name: ClassVar[str] = "k-paths"
    looks_everywhere: ClassVar[bool] = True

    search: int = setting(5, "how many times as many paths as are wished are looked at for other relations", least=1)

    def __post_init__(self) -> None:
        check_settings(self)

    def propose(self, oracle: Oracle, graph: ComputationGraph, wish: Wish, seed: int) -> Proposal:
        """Search more than is wished, and put the first path of each sequence of relations first."""
        shortest = RouteSearch(
            graph,
            count=self.search * wish.count,
            min_length=wish.min_length,
            max_length=wish.max_length,
            at_once=wish.at_once,
        )
        level = torch.ones(graph.kept_edges.num_edges, dtype=torch.float64, device=graph.device)
        return Proposal(diverse(graph, EvidenceBatch.of_paths(shortest(level))).first(wish.count))


def diverse(graph: ComputationGraph, paths: EvidenceBatch) -> EvidenceBatch:
    """Put each query's first path of every sequence of relations before the others; else the order stays."""
    there, edge = paths.edges >= 0, paths.edges.clamp(min=0)
    relations = torch.where(there, graph.relation[edge], -1) if paths.count else edge
    again = torch.ones(paths.count, dtype=torch.bool, device=graph.device)
    again[first_of_each(paths.numbered(relations))] = False
    order = again.long().argsort(stable=True)
    return paths.select(order[paths.query[order].argsort(stable=True)])
