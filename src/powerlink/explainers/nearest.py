"""The part of a computation graph that proposers look at where memory does not suffice for all of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph, extract, target_edges
from powerlink.graphs.edges import distinct, expand_rows
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.keyed_random import keyed_uniform, keys_of
from powerlink.questions import Questions


@dataclass(frozen=True, eq=False)
class Sample:
    """What is left of one question's computation graph, and how large that is."""

    graph: ComputationGraph
    nodes: int  # of the whole computation graph
    edges: int

    @property
    def remark(self) -> str:
        return (
            "memory did not suffice for the whole computation graph: evidence was looked for among "
            f"{self.graph.num_edges:,} of its {self.edges:,} edges, around the nodes nearest to head and tail, "
            "chosen by chance where these are too many; the proof is about the whole graph"
        )


def nearest_part(graph: MessageGraph, question: Questions, hops: int, most: int, seed: int) -> Sample | None:
    """Cut a question's computation graph down to at most so many edges; None where it has no more.

    Nodes are chosen, not edges, so that a path whose nodes are chosen is there: head and tail, then those whose
    distances to head and tail add up to least, the ones nearest to the rarer end first. Between equals chance decides,
    which follows from (seed, query, entity). All edges among chosen nodes stay.
    """
    (head, relation, tail), foils = question.triples[0], question.foils
    others = torch.stack([tail, *([] if foils is None else foils[foils >= 0])])
    to_head = _distances(graph, head.unsqueeze(0), hops)
    to_tail = _distances(graph, others, hops)
    level = torch.minimum(to_head, to_tail)
    inside, degree = level <= hops, graph.row.diff()
    own = target_edges(graph, question.triples, foils)[1].numel()
    edges = int((inside[graph.source] & inside[graph.target]).sum()) - own
    if edges <= most:
        return None

    entity = inside.nonzero().squeeze(1)
    rarer = to_head if degree[head] <= degree[others].sum() else to_tail
    near = (to_head + to_tail) * (hops + 2) + rarer
    near[head], near[others] = -1, -1
    asked = [part.expand_as(entity) for part in (head, relation, tail)]
    order = near[entity] + keyed_uniform(keys_of(seed, *asked, entity), 1).squeeze(1).double()
    entity = entity[order.argsort()]
    # An edge is there as soon as the later of its nodes is.
    place = torch.full_like(graph.entity, entity.numel())
    place[entity] = torch.arange(entity.numel(), device=graph.device)
    later = torch.maximum(place[graph.source], place[graph.target])
    fitting = int((torch.bincount(later, minlength=entity.numel())[: entity.numel()].cumsum(0) <= most).sum())
    chosen = entity[: max(fitting, 1 + others.numel())].sort().values
    return Sample(extract(graph, question.triples, hops, foils, (chosen, level[chosen])), entity.numel(), edges)


def _distances(graph: MessageGraph, start: Tensor, hops: int) -> Tensor:
    """Return every node's distance to the nearest start, (N,); hops + 1 where it is farther."""
    distance = torch.full_like(graph.entity, hops + 1)
    distance[start] = 0
    for hop in range(1, hops + 1):
        reached = distinct(graph.source[expand_rows(graph.row, start)[1]], graph.num_nodes)
        start = reached[distance[reached] > hop]
        distance[start] = hop
    return distance
