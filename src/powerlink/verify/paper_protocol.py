"""The paper's metrics of one batch: soft masks, and ranks among the computation graph's own nodes.

F+ weights edges by 1 − M and F− by M, probabilities are sigmoids, pruned edges have M = 0. For HΔR every parallel
edge between two consecutive nodes of a path is removed, in the path's direction only, and the tail is ranked unfiltered
among the computation graph's nodes, ties counted against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.edges import expand_rows
from powerlink.graphs.what_if import Removals, changed_nodes, what_if
from powerlink.kernels.segments import segment_sum
from powerlink.models.protocol import Embeddings, LinkModel, logits_by_weight


@dataclass(frozen=True, eq=False)
class PaperBatch:
    """The paper's figures per query."""

    fidelity_plus: Tensor  # (Q,)
    fidelity_minus: Tensor
    sparsity: Tensor
    sparsity_kept: Tensor
    rank: Tensor
    rank_without_top: Tensor  # (Q, len(tops))


@torch.no_grad()
def measure_paper(
    model: LinkModel, graph: ComputationGraph, mask: Tensor, paths: Tensor, tops: Sequence[int]
) -> PaperBatch:
    """Measure the mask (E,) and the chosen paths, edges (Q, count, max_length) padded with −1."""
    logits = logits_by_weight(model, graph, graph.triples)
    plain, kept, rest = (torch.sigmoid(logits(weight)) for weight in (torch.ones_like(mask), mask, 1 - mask))
    total = segment_sum(mask, graph.query_of_edge, graph.num_queries)
    edges = graph.edge_row.diff().clamp(min=1)
    survivors = segment_sum(graph.kept.to(mask.dtype), graph.query_of_edge, graph.num_queries).clamp(min=1)
    rank, without = _ranks(model, graph, paths, tops)
    return PaperBatch(
        (plain - rest).abs(), (kept - plain).abs(), 1 - total / edges, 1 - total / survivors, rank, without
    )


def _ranks(model: LinkModel, graph: ComputationGraph, paths: Tensor, tops: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Rank every tail on the computation graph, and without the top paths: (Q,), (Q, len(tops))."""
    base = model.encode(graph.everywhere)
    rank = _rank(model, graph, base, None)
    without = []
    for top in tops:
        owner, edge = _parallel_edges(graph, paths[:, :top].flatten(1))
        removals = Removals.of(graph, graph.num_queries, owner, edge)
        changed = changed_nodes(graph, removals, model.num_layers)
        if not changed.numel():
            without.append(rank)
            continue
        world = what_if(graph, removals, changed, model.num_layers, focused=False)
        encoded = model.encode(world).rows(torch.arange(world.num_copies, device=graph.device))
        without.append(_rank(model, graph, base.followed_by(encoded), world.original))
    return rank, torch.stack(without, dim=1) if without else rank.new_empty(graph.num_queries, 0)


def _rank(model: LinkModel, graph: ComputationGraph, embeddings: Embeddings, original: Tensor | None) -> Tensor:
    """Rank each tail among its query's nodes; changed nodes (C,) have their rows behind the graph's own."""
    place = torch.arange(graph.num_nodes, device=graph.device)
    if original is not None:  # scenarios are queries here, and nodes belong to one query: a plain overwrite
        place = place.index_copy(0, original, graph.num_nodes + torch.arange(original.numel(), device=place.device))
    query = graph.query_of_node
    triples = torch.stack([place[graph.head][query], graph.queries[query, 1], place], dim=1)
    logits = model.score(embeddings, triples)
    above = (logits >= logits[graph.tail][query]).to(torch.float64)
    return segment_sum(above, query, graph.num_queries)  # the tail itself is counted: its rank is at least 1


def _parallel_edges(graph: ComputationGraph, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return (query, edge) of all edges parallel to those of the paths (Q, n), in the same direction."""
    query = torch.arange(edges.size(0), device=edges.device).unsqueeze(1).expand_as(edges)[edges >= 0]
    edge = edges[edges >= 0]
    owner, parallel = expand_rows(graph.row, graph.target[edge])
    same = graph.source[parallel] == graph.source[edge][owner]
    return query[owner[same]], parallel[same]
