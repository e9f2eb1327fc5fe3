"""GNNExplainer-Link: the mask of GNNExplainer (Ying et al., NeurIPS 2019), with paths by the same search as all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from powerlink.errors import SettingsError
from powerlink.explainers.learned.learner import learn_mask
from powerlink.explainers.learned.masks import FreeLogits
from powerlink.explainers.learned.terms import WeightedTerms, counterfactual, keep_prediction, mask_entropy, mask_sum
from powerlink.explainers.protocol import EdgeScores
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.protocol import LinkModel
from powerlink.paths.propose import Cost
from powerlink.settings import setting


@dataclass(frozen=True, kw_only=True)
class GNNExplainer:
    """Edge scores that keep the prediction with as few, and as clearly chosen, edges as possible.

    Weights are GNNExplainer's well-known ones. The size is a sum over edges and the entropy a mean, as there: an edge
    then stays if the prediction's log-probability loses more than `size_weight` without it, however large the graph.
    """

    name: ClassVar[str] = "gnn-explainer"
    cost: ClassVar[Cost] = "inverse"
    weighs_messages: ClassVar[bool] = True

    steps: int = setting(100, "steps of Adam that learn the mask")
    lr: float = setting(0.01, "Adam's learning rate")
    prediction_weight: float = setting(1.0, "weight of keeping the prediction")
    counterfactual_weight: float = setting(0.0, "weight of losing the prediction without the mask; 0 switches it off")
    size_weight: float = setting(0.005, "weight of the mask's sum over the query's edges")
    entropy_weight: float = setting(1.0, "weight of the mask's mean entropy")

    def __post_init__(self) -> None:
        check_descent(self.steps, self.lr)

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Learn a logit per edge, all queries of the batch together."""
        terms: WeightedTerms = [
            (self.prediction_weight, keep_prediction(model, graph)),
            (self.size_weight, mask_sum(graph)),
            (self.entropy_weight, mask_entropy(graph)),
            *counterfactual(self.counterfactual_weight, model, graph),
        ]
        return EdgeScores.of_kept(graph, learn_mask(FreeLogits(graph, seed=seed), terms, steps=self.steps, lr=self.lr))


def check_descent(steps: int, lr: float) -> None:
    """Refuse a descent that cannot be."""
    if steps < 0 or not 0 < lr < math.inf:
        raise SettingsError(f"steps must not be negative and lr must be positive, not {steps} and {lr}")
