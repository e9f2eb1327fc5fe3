"""Facts one by one: often a single one is the best explanation, and it need not lie on a path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from powerlink.evidence import EvidenceBatch
from powerlink.explainers.protocol import Oracle, Proposal, Wish
from powerlink.explainers.slopes import fact_slopes
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.edges import row_pointer
from powerlink.settings import setting


@dataclass(frozen=True, kw_only=True)
class SingleFacts:
    """The facts that the score would lose most by, to first order, each by itself."""

    name: ClassVar[str] = "single-facts"
    proposes: ClassVar[str] = "facts"
    looks_everywhere: ClassVar[bool] = True

    points: int = setting(2, "at how many weights of the edges, from 1 downwards, the score is differentiated", least=1)

    def propose(self, oracle: Oracle, graph: ComputationGraph, wish: Wish, seed: int) -> Proposal:
        """Name each query's facts with the largest slopes; one that joins head and tail is a path."""
        falls = fact_slopes(oracle.model, graph, self.points).double()
        head, tail = graph.head[graph.query_of_edge], graph.tail[graph.query_of_edge]
        forward = (graph.source == head) & (graph.target == tail)
        every = torch.arange(graph.num_edges, device=graph.device)
        once = torch.where(forward | forward[graph.reverse], forward, every <= graph.reverse)
        edge = (once & graph.kept & (falls > 0)).nonzero().squeeze(1)
        edge = edge[falls[edge].argsort(descending=True, stable=True)]
        edge = edge[graph.query_of_edge[edge].argsort(stable=True)]
        query = graph.query_of_edge[edge]
        place = torch.arange(edge.numel(), device=graph.device) - row_pointer(query, graph.num_queries)[query]
        edge = edge[place < wish.count]
        return Proposal(EvidenceBatch(graph.query_of_edge[edge], edge.unsqueeze(1), -falls[edge], forward[edge]))
