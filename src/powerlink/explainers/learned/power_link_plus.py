"""Power-Link's terms on a free mask that must also be missed when it is gone: small, quick, judged as it is learned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.explainers.learned.gnn_explainer import check_descent
from powerlink.explainers.learned.learner import learn_mask
from powerlink.explainers.learned.masks import FreeLogits
from powerlink.explainers.learned.path_terms import PowerPath
from powerlink.explainers.learned.terms import WeightedTerms, counterfactual, keep_as_is, mask_norm
from powerlink.explainers.protocol import EdgeScores
from powerlink.explainers.remarks import NO_WALK, remarks_where
from powerlink.explainers.slopes import FLOOR, fact_slopes, share_of_largest
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kernels.segments import gather
from powerlink.models.protocol import LinkModel
from powerlink.paths.propose import Cost
from powerlink.settings import setting


@dataclass(frozen=True, kw_only=True)
class PowerLinkPlus:
    """Edge scores that alone keep the prediction as it is, without which it is lost, and that line up into walks.

    What differs from Power-Link: a number per edge instead of a scorer, started from the slopes; few large steps; the
    prediction is to stay as it is instead of growing surer (`keep_as_is`); and the rest of the graph is to lose it
    (`lose_prediction`). The mask says how much hangs on which edges. Paths are searched by the slopes, which order them
    better than any mask did (docs/results/paper-protocol.md).
    """

    name: ClassVar[str] = "power-link-plus"
    cost: ClassVar[Cost] = "log"
    weighs_messages: ClassVar[bool] = True

    steps: int = setting(20, "steps of Adam that learn the mask")
    lr: float = setting(0.3, "Adam's learning rate")
    order: int = setting(3, "longest walk from head to tail that is strengthened")
    min_order: int = setting(2, "shortest such walk; 1 lets another relation between head and tail count")
    start: float = setting(2.0, "logit that the edge with the steepest slope begins at; 0: all begin at about one half")
    prediction_weight: float = setting(3.0, "weight of keeping the prediction as it is")
    counterfactual_weight: float = setting(2.0, "weight of losing the prediction without the mask")
    path_weight: float = setting(0.1, "weight of lining up into walks; 0 switches it off")
    size_weight: float = setting(0.02, "weight of staying small")

    def __post_init__(self) -> None:
        check_descent(self.steps, self.lr)
        if not 1 <= self.min_order <= self.order:
            raise SettingsError(f"min_order must lie between 1 and order ({self.order}), not {self.min_order}")

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Learn one mask per query, all of the batch together."""
        slopes = fact_slopes(model, graph, points=2)
        path = PowerPath(graph, self.order, self.min_order)
        terms: WeightedTerms = [
            (self.prediction_weight, keep_as_is(model, graph)),
            *counterfactual(self.counterfactual_weight, model, graph),
            (self.path_weight, path),
            (self.size_weight, mask_norm(graph)),
        ]
        mask = FreeLogits(graph, seed=seed, start=self.start * _flattened(slopes, graph))
        learned = learn_mask(mask, terms, steps=self.steps, lr=self.lr)
        remarks = remarks_where(~path.active, NO_WALK) if self.path_weight else ()
        scores = EdgeScores.of_kept(graph, learned, remarks)
        return replace(scores, by_route=share_of_largest(slopes, graph, FLOOR))


def _flattened(slopes: Tensor, graph: ComputationGraph) -> Tensor:
    """Map the kept edges' slopes into −1 … 1 by the fourth root of their share of the query's steepest: (E,).

    Slopes span many orders of magnitude; taken as they are, all but a few edges would begin alike.
    """
    edges = graph.kept_edges
    slope = slopes[edges.index]
    steepest = slope.new_zeros(graph.num_queries).scatter_reduce(0, edges.query, slope.abs(), "amax")
    share = slope.abs() / gather(steepest.clamp(min=torch.finfo(slope.dtype).tiny), edges.query)
    return torch.sign(slope) * share.sqrt().sqrt()
