"""Terms: what a mask is rewarded for. Each gives one loss per query."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.edges import row_pointer
from powerlink.kernels.segments import run_sum
from powerlink.models.protocol import LinkModel
from powerlink.questions import asked, asked_by_weight, asking_of


class Term(Protocol):
    """A loss per query (Q,) of the kept edges' mask logits (E,)."""

    def __call__(self, logits: Tensor) -> Tensor: ...


class KeepPrediction:
    """Keep the prediction: −log P(Y = 1) on the masked graph (the paper's mutual-information term, Eq. 10)."""

    def __init__(self, model: LinkModel, graph: ComputationGraph) -> None:
        self._logits_of = asked_by_weight(model, graph.kept_edges, graph)

    def __call__(self, logits: Tensor) -> Tensor:
        # softplus of the negated logit is −log sigmoid without its underflow
        return torch.nn.functional.softplus(-self._logits_of(torch.sigmoid(logits)))


class Faithful:
    """Predict what the whole graph predicts: cross-entropy of P(Y = 1) on the masked graph with P(Y = 1) on the graph.

    `KeepPrediction` rewards a masked graph that is surer than the graph is; this does not, so a mask keeps what speaks
    against the prediction as well.
    """

    def __init__(self, model: LinkModel, graph: ComputationGraph) -> None:
        self._logits_of = asked_by_weight(model, graph.kept_edges, graph)
        with torch.no_grad():
            self._believed = torch.sigmoid(asked(model, model.encode(graph), asking_of(graph)))

    def __call__(self, logits: Tensor) -> Tensor:
        told = self._logits_of(torch.sigmoid(logits))
        return torch.nn.functional.softplus(told) - self._believed * told


class Counterfactual:
    """Lose the prediction without the mask: −log(1 − P(Y = 1)) under the weights 1 − M; pruned edges keep theirs."""

    def __init__(self, model: LinkModel, graph: ComputationGraph) -> None:
        self._logits_of = asked_by_weight(model, graph, graph)
        self._index = graph.kept_edges.index
        self._whole = torch.ones(graph.num_edges, device=graph.device)

    def __call__(self, logits: Tensor) -> Tensor:
        rest = torch.sigmoid(-logits)
        return torch.nn.functional.softplus(
            self._logits_of(self._whole.to(rest.dtype).index_copy(0, self._index, rest))
        )


def counterfactual(weight: float, model: LinkModel, graph: ComputationGraph) -> list[tuple[float, Term]]:
    """Return the counterfactual term with its weight, or nothing: preparing it costs a pass over the graph."""
    return [(weight, Counterfactual(model, graph))] if weight else []


class QuerySums:
    """Sums of a number per kept edge over each query's: (E,) → (Q,)."""

    def __init__(self, graph: ComputationGraph) -> None:
        self._query = graph.kept_edges.query
        self._row = row_pointer(self._query, graph.num_queries)

    @property
    def counts(self) -> Tensor:
        """How many kept edges each query has: (Q,)."""
        return self._row.diff()

    def __call__(self, values: Tensor) -> Tensor:
        return run_sum(values, self._query, self._row)


class Size:
    """Stay small: ‖M‖₂ over the query's kept edges (Eq. 11)."""

    def __init__(self, graph: ComputationGraph) -> None:
        self._sums = QuerySums(graph)

    def __call__(self, logits: Tensor) -> Tensor:
        squares = self._sums(torch.sigmoid(logits).square())
        # √0 has an infinite slope; a query without kept edges must not poison the batch
        return squares.clamp(min=torch.finfo(squares.dtype).tiny).sqrt()


class TotalSize:
    """Stay small, edge by edge: Σ M over the query's kept edges, so that each edge pays the same in any graph."""

    def __init__(self, graph: ComputationGraph) -> None:
        self._sums = QuerySums(graph)

    def __call__(self, logits: Tensor) -> Tensor:
        return self._sums(torch.sigmoid(logits))


class Entropy:
    """Be decided: the mean of −M log M − (1 − M) log(1 − M) over the query's kept edges, in nats."""

    def __init__(self, graph: ComputationGraph) -> None:
        self._sums = QuerySums(graph)
        self._count = self._sums.counts.clamp(min=1)

    def __call__(self, logits: Tensor) -> Tensor:
        mask = torch.sigmoid(logits)
        # −log M is softplus of the negated logit: exact where M itself is rounded to 0 or 1
        softplus = torch.nn.functional.softplus
        entropy = mask * softplus(-logits) + torch.sigmoid(-logits) * softplus(logits)
        return self._sums(entropy) / self._count
