"""What the model's score would lose by each fact, to first order: no steps, no mask to learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.explainers.influence import influence
from powerlink.explainers.protocol import EdgeScores
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.protocol import LinkModel, abilities_of
from powerlink.paths.propose import Cost
from powerlink.questions import asked_by_weight
from powerlink.settings import setting

FLOOR = 1e-3  # least score of an edge, as a share of the query's largest: every edge can still be part of a path


@dataclass(frozen=True, kw_only=True)
class Slopes:
    """Edge scores by the slope of the model's score in a fact's weight, averaged on its way out.

    All edges are weighted alike, at `points` weights evenly from 1 down to just above 0, and the score is
    differentiated at each. A fact's slope is the sum of its two directions', since a removal takes both. One point is
    the plain gradient; more of them see what a saturated score hides. Of a model that passes no messages it is what
    head and tail would have learned without the fact, see `influence`.
    """

    name: ClassVar[str] = "slopes"
    cost: ClassVar[Cost] = "log"
    looks_everywhere: ClassVar[bool] = True

    points: int = setting(2, "at how many weights of the edges, from 1 downwards, the score is differentiated")
    floor: float = setting(FLOOR, "least score of an edge, as a share of the query's largest")

    def __post_init__(self) -> None:
        if self.points < 1:
            raise SettingsError(f"points must be at least 1, not {self.points}")

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Differentiate all queries' scores together; no query sees another's edges."""
        return EdgeScores(share_of_largest(fact_slopes(model, graph, self.points), graph, self.floor))


def fact_slopes(model: LinkModel, graph: ComputationGraph, points: int = 1) -> Tensor:
    """Return the slope of each edge's fact, both directions, a mean over `points` weights from 1 down: (num_edges,)."""
    if own := abilities_of(model).retrainable:
        return influence(model, own, graph)
    logits = asked_by_weight(model, graph, graph)
    total = torch.zeros(graph.num_edges, dtype=graph.norm.dtype, device=graph.device)
    for point in range(points):
        weight = torch.full_like(total, 1 - point / points).requires_grad_()
        with torch.enable_grad():
            # a model that does not read its edges has no gradient by them: that is a zero, not an error
            (slope,) = torch.autograd.grad(logits(weight).sum() + 0 * weight.sum(), weight)
        total += slope / points
    return total + total[graph.reverse]


def share_of_largest(raw: Tensor, graph: ComputationGraph, floor: float) -> Tensor:
    """Map raw numbers into (0, 1]: positive part over the largest among the query's kept edges."""
    positive = raw.clamp(min=0) * graph.kept
    largest = positive.new_zeros(graph.num_queries).scatter_reduce(0, graph.query_of_edge, positive, "amax")
    share = positive / largest.clamp(min=torch.finfo(raw.dtype).tiny)[graph.query_of_edge]
    return share.clamp(min=floor) * graph.kept
