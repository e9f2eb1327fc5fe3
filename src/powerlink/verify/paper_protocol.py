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
from powerlink.graphs.what_if import Removals
from powerlink.kernels.segments import run_count, run_sum
from powerlink.memory import LOGITS_PER_NODE, Room
from powerlink.models.protocol import Embeddings, LinkModel
from powerlink.questions import asked, asked_by_weight, asking_of
from powerlink.verify.counterfactual import answers


@dataclass(frozen=True, eq=False)
class PaperBatch:
    """The paper's figures per query."""

    fidelity_plus: Tensor  # (Q,)
    fidelity_minus: Tensor
    sparsity: Tensor
    sparsity_kept: Tensor
    rank: Tensor
    rank_without_top: Tensor  # (Q, len(tops))

    @property
    def table(self) -> Tensor:
        """All figures side by side, float64: (Q, 5 + len(tops))."""
        single = (self.fidelity_plus, self.fidelity_minus, self.sparsity, self.sparsity_kept, self.rank)
        return torch.cat([torch.stack([f.double() for f in single], 1), self.rank_without_top.double()], 1)


@torch.no_grad()
def measure_paper(
    model: LinkModel,
    graph: ComputationGraph,
    mask: Tensor,
    paths: Tensor,
    tops: Sequence[int],
    room: Room | None = None,
) -> PaperBatch:
    """Measure the mask (E,) and the chosen paths, edges (Q, count, max_length) padded with −1."""
    base = model.encode(graph.everywhere)
    plain = torch.sigmoid(asked(model, base, asking_of(graph)))
    numbers = asked_by_weight(model, graph, graph)
    kept, rest = (torch.sigmoid(numbers(weight.to(base.entity.dtype))) for weight in (mask, 1 - mask))
    total = run_sum(mask, graph.query_of_edge, graph.edge_row)
    edges = graph.edge_row.diff().clamp(min=1)
    survivors = run_count(graph.kept, graph.edge_row).clamp(min=1)
    rank = _ranks(model, graph, base, paths, [0, *tops], room)
    return PaperBatch(
        (plain - rest).abs(), (kept - plain).abs(), 1 - total / edges, 1 - total / survivors, rank[:, 0], rank[:, 1:]
    )


def _ranks(
    model: LinkModel, graph: ComputationGraph, base: Embeddings, paths: Tensor, tops: Sequence[int], room: Room | None
) -> Tensor:
    """Rank every tail on the computation graph without the top paths: (Q, len(tops))."""
    owners, edges = zip(*(_parallel_edges(graph, paths[:, :top].flatten(1)) for top in tops), strict=True)
    scenario = torch.cat([owner * len(tops) + number for number, owner in enumerate(owners)])
    removals = Removals.of(graph, graph.num_queries * len(tops), scenario, torch.cat(edges))
    most = int(graph.node_row.diff().max()) if graph.num_queries else 0
    ranks = []
    for run in answers(model, graph, removals, room, logits_each=most * LOGITS_PER_NODE):
        query = torch.arange(run.first, run.last, device=graph.device) // len(tops)
        embeddings = base if run.copies is None else base.followed_by(run.copies.rows(slice(run.keys.numel())))
        ranks.append(_rank(model, graph, embeddings, query, run.keys))
    return torch.cat(ranks).view(graph.num_queries, len(tops)) if ranks else base.entity.new_empty(0, len(tops))


def _rank(model: LinkModel, graph: ComputationGraph, embeddings: Embeddings, query: Tensor, copies: Tensor) -> Tensor:
    """Rank the tail of each scenario's query (S,) among its nodes; copies have their rows behind the graph's own."""
    scenario, row = expand_rows(graph.node_row, query)
    begin = torch.cat([query.new_zeros(1), graph.node_row.diff()[query].cumsum(0)])
    shift = begin[:-1] - graph.node_row[query]  # from a query's node to its place in its scenario
    owner, original = copies // graph.num_nodes, copies % graph.num_nodes
    behind = graph.num_nodes + torch.arange(copies.numel(), device=copies.device)
    row = row.index_copy(0, original + shift[owner], behind)
    head, tail = (node[query] + shift for node in (graph.head, graph.tail))
    logits = model.score(embeddings, torch.stack([row[head][scenario], graph.queries[query, 1][scenario], row], dim=1))
    return run_count(logits >= logits[tail][scenario], begin).double()  # the tail counts itself: ranks begin at 1


def _parallel_edges(graph: ComputationGraph, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return (query, edge) of all edges parallel to those of the paths (Q, n), in the same direction."""
    query = torch.arange(edges.size(0), device=edges.device).unsqueeze(1).expand_as(edges)[edges >= 0]
    edge = edges[edges >= 0]
    owner, parallel = expand_rows(graph.row, graph.target[edge])
    same = graph.source[parallel] == graph.source[edge][owner]
    return query[owner[same]], parallel[same]
