"""Terms: what a mask is rewarded for. Each is a function of the kept edges' mask logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import softplus

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.edges import row_pointer
from powerlink.kernels.segments import run_sum
from powerlink.models.protocol import LinkModel
from powerlink.questions import asked, asked_by_weight, asking_of

Term = Callable[[Tensor], Tensor]  # logits (E,) → a loss per query (Q,)
WeightedTerms = Sequence[tuple[float, Term]]


def keep_prediction(model: LinkModel, graph: ComputationGraph) -> Term:
    """Keep the prediction: −log P(Y = 1) on the masked graph (the paper's mutual-information term, Eq. 10)."""
    logits_of = asked_by_weight(model, graph.kept_edges, graph)
    # softplus of the negated logit is −log sigmoid without its underflow
    return lambda logits: softplus(-logits_of(torch.sigmoid(logits)))


def keep_as_is(model: LinkModel, graph: ComputationGraph) -> Term:
    """Predict what the whole graph predicts: cross-entropy of P(Y = 1) on the masked graph with P(Y = 1) on the graph.

    `keep_prediction` rewards a masked graph that is surer than the graph is; this does not, so a mask keeps what speaks
    against the prediction as well.
    """
    logits_of = asked_by_weight(model, graph.kept_edges, graph)
    with torch.no_grad():
        believed = torch.sigmoid(asked(model, model.encode(graph), asking_of(graph)))

    def loss(logits: Tensor) -> Tensor:
        told = logits_of(torch.sigmoid(logits))
        return softplus(told) - believed * told

    return loss


def lose_prediction(model: LinkModel, graph: ComputationGraph) -> Term:
    """Lose the prediction without the mask: −log(1 − P(Y = 1)) under the weights 1 − M; pruned edges keep theirs."""
    logits_of, index = asked_by_weight(model, graph, graph), graph.kept_edges.index
    whole = torch.ones(graph.num_edges, device=graph.device)

    def loss(logits: Tensor) -> Tensor:
        rest = torch.sigmoid(-logits)
        return softplus(logits_of(whole.to(rest.dtype).index_copy(0, index, rest)))

    return loss


def counterfactual(weight: float, model: LinkModel, graph: ComputationGraph) -> WeightedTerms:
    """Return `lose_prediction` with its weight, or nothing: preparing it costs a pass over the graph."""
    return [(weight, lose_prediction(model, graph))] if weight else []


def mask_norm(graph: ComputationGraph) -> Term:
    """Stay small: ‖M‖₂ over the query's kept edges (Eq. 11)."""
    total, _ = _sums_by_query(graph)

    def loss(logits: Tensor) -> Tensor:
        squares = total(torch.sigmoid(logits).square())
        # √0 has an infinite slope; a query without kept edges must not poison the batch
        return squares.clamp(min=torch.finfo(squares.dtype).tiny).sqrt()

    return loss


def mask_sum(graph: ComputationGraph) -> Term:
    """Stay small, edge by edge: Σ M over the query's kept edges, so that each edge pays the same in any graph."""
    total, _ = _sums_by_query(graph)
    return lambda logits: total(torch.sigmoid(logits))


def mask_entropy(graph: ComputationGraph) -> Term:
    """Be decided: the mean of −M log M − (1 − M) log(1 − M) over the query's kept edges, in nats."""
    total, counts = _sums_by_query(graph)
    count = counts.clamp(min=1)

    def loss(logits: Tensor) -> Tensor:
        # −log M is softplus of the negated logit: exact where M itself is rounded to 0 or 1
        own = torch.sigmoid(logits) * softplus(-logits) + torch.sigmoid(-logits) * softplus(logits)
        return total(own) / count

    return loss


def _sums_by_query(graph: ComputationGraph) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Return what sums a number per kept edge, (E,) → (Q,), and how many each query has: (Q,)."""
    query = graph.kept_edges.query
    row = row_pointer(query, graph.num_queries)
    return lambda values: run_sum(values, query, row), row.diff()
