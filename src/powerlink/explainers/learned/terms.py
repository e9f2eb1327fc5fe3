"""Terms: what a mask is rewarded for. Each gives one loss per query."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kernels.segments import segment_sum
from powerlink.models.protocol import LinkModel, logits_by_weight


class Term(Protocol):
    """A loss per query (Q,) of the kept edges' mask logits (E,)."""

    def __call__(self, logits: Tensor) -> Tensor: ...


class Prediction:
    """Keep the prediction: −log P(Y = 1) on the masked graph (the paper's mutual-information term, Eq. 10)."""

    def __init__(self, model: LinkModel, graph: ComputationGraph) -> None:
        self._logits_of = logits_by_weight(model, graph.kept_edges, graph.triples)

    def __call__(self, logits: Tensor) -> Tensor:
        # softplus of the negated logit is −log sigmoid without its underflow
        return torch.nn.functional.softplus(-self._logits_of(torch.sigmoid(logits)))


class Size:
    """Stay small: ‖M‖₂ over the query's kept edges (Eq. 11)."""

    def __init__(self, graph: ComputationGraph) -> None:
        self._query, self._num_queries = graph.kept_edges.query, graph.num_queries

    def __call__(self, logits: Tensor) -> Tensor:
        squares = segment_sum(torch.sigmoid(logits).square(), self._query, self._num_queries)
        # √0 has an infinite slope; a query without kept edges must not poison the batch
        return squares.clamp(min=torch.finfo(squares.dtype).tiny).sqrt()


class TotalSize:
    """Stay small, edge by edge: Σ M over the query's kept edges, so that each edge pays the same in any graph."""

    def __init__(self, graph: ComputationGraph) -> None:
        self._query, self._num_queries = graph.kept_edges.query, graph.num_queries

    def __call__(self, logits: Tensor) -> Tensor:
        return segment_sum(torch.sigmoid(logits), self._query, self._num_queries)


class Entropy:
    """Be decided: the mean of −M log M − (1 − M) log(1 − M) over the query's kept edges, in nats."""

    def __init__(self, graph: ComputationGraph) -> None:
        self._query, self._num_queries = graph.kept_edges.query, graph.num_queries
        self._count = torch.bincount(self._query, minlength=self._num_queries).clamp(min=1)

    def __call__(self, logits: Tensor) -> Tensor:
        mask = torch.sigmoid(logits)
        # −log M is softplus of the negated logit: exact where M itself is rounded to 0 or 1
        softplus = torch.nn.functional.softplus
        entropy = mask * softplus(-logits) + torch.sigmoid(-logits) * softplus(logits)
        return segment_sum(entropy, self._query, self._num_queries) / self._count
