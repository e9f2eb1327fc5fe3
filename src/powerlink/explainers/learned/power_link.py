"""Power-Link (Chang, Ye, Lopez-Avila, Du and Li, KDD 2024): path-based explanation for knowledge-graph completion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, get_args

from powerlink.errors import SettingsError
from powerlink.explain_settings import Combining, Cost
from powerlink.settings import setting

if TYPE_CHECKING:  # its settings are flags of the command line, which does not wait for torch to tell them
    from powerlink.explainers.learned.masks import Mask
    from powerlink.explainers.protocol import EdgeScores
    from powerlink.graphs.computation_graph import ComputationGraph
    from powerlink.models.protocol import LinkModel


@dataclass(frozen=True, kw_only=True)
class PowerLink:
    """Edge scores whose strong edges keep the prediction and line up into head-to-tail walks.

    | paper | here | meaning |
    |---|---|---|
    | L | `order` | the longest walk that is strengthened |
    | γ | `size_weight` | weight of ‖M‖₂ |
    | T | `steps` | steps of Adam |
    | Combine_cat, Combine_euc | `combination` | how the scorer reads an edge beside the query |

    A weight of zero switches a term off: the paper's ablations −MI is `path_weight=0`, −PS is `prediction_weight=0`.
    """

    name: str = "power-link"  # a field, because the paper's ablations are these settings under names of their own
    cost: ClassVar[Cost] = "inverse"
    weighs_messages: ClassVar[bool] = True

    steps: int = setting(50, "steps of Adam that learn the mask")
    lr: float = setting(0.005, "Adam's learning rate")
    order: int = setting(3, "longest walk from head to tail that is strengthened")
    min_order: int = setting(2, "shortest such walk; 1 lets another relation between head and tail count")
    combination: Combining = setting(
        "concat", "how the scorer reads an edge beside the query; none: no scorer, a free logit per edge"
    )
    hidden: int = setting(64, "width of the scorer's hidden layers")
    prediction_weight: float = setting(
        1.0, "weight of keeping the prediction (the authors' code: 0.8); 0 switches it off"
    )
    counterfactual_weight: float = setting(0.0, "weight of losing the prediction without the mask; 0 switches it off")
    path_weight: float = setting(1.0, "weight of lining up into walks; 0 switches it off")
    size_weight: float = setting(0.03, "weight of staying small")

    @classmethod
    def thorough(cls) -> PowerLink:
        """Return the settings whose mask alone, in its own order, points at the reason (see docs/results).

        The paper's 50 steps leave nearly all edges near head and tail close to 1; more steps under a size term that
        counts are what tells the needed ones from the rest. Use with `cost="log"`, which does not favour short paths.
        """
        return cls(steps=300, size_weight=3.0, prediction_weight=3.0)

    def __post_init__(self) -> None:
        if not 1 <= self.min_order <= self.order:
            raise SettingsError(f"min_order must lie between 1 and order ({self.order}), not {self.min_order}")
        if self.steps < 0 or not 0 < self.lr < math.inf or self.hidden < 1:
            raise SettingsError("steps must not be negative; lr and hidden must be positive and finite")
        if self.combination not in get_args(Combining):
            raise SettingsError(f"combination must be {' or '.join(get_args(Combining))}, not {self.combination!r}")

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Learn one mask per query, all of the batch together."""
        from powerlink.explainers.learned.learner import learn_mask
        from powerlink.explainers.learned.path_terms import PowerPath
        from powerlink.explainers.learned.terms import WeightedTerms, counterfactual, keep_prediction, mask_norm
        from powerlink.explainers.protocol import EdgeScores
        from powerlink.explainers.remarks import NO_WALK, remarks_where
        from powerlink.kernels.fused import exact_but_for_the_scorer

        path = PowerPath(graph, self.order, self.min_order)
        with exact_but_for_the_scorer():
            terms: WeightedTerms = [
                (self.prediction_weight, keep_prediction(model, graph)),
                (self.path_weight, path),
                (self.size_weight, mask_norm(graph)),
                *counterfactual(self.counterfactual_weight, model, graph),
            ]
            mask = learn_mask(self._mask(graph, seed), terms, steps=self.steps, lr=self.lr)
        return EdgeScores.of_kept(graph, mask, remarks_where(~path.active, NO_WALK) if self.path_weight else ())

    def _mask(self, graph: ComputationGraph, seed: int) -> Mask:
        from powerlink.explainers.learned.masks import FreeLogits, TripletScorer

        if self.combination == "none":
            return FreeLogits(graph, seed=seed)
        return TripletScorer(graph, combination=self.combination, hidden=self.hidden, seed=seed)
