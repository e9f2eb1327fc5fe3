"""PaGE-Link (Zhang et al., WWW 2023): each step strengthens the best paths under the mask and weakens the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.explainers.learned.gnn_explainer import check_descent
from powerlink.explainers.learned.learner import learn_mask
from powerlink.explainers.learned.masks import FreeLogits
from powerlink.explainers.learned.terms import WeightedTerms, counterfactual, keep_prediction
from powerlink.explainers.protocol import EdgeScores
from powerlink.explainers.remarks import NO_WALK, remarks_where
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kernels.segments import segment_sum
from powerlink.models.protocol import LinkModel
from powerlink.paths.propose import Cost, RouteSearch, degree_cost
from powerlink.paths.search import PathBatch
from powerlink.settings import setting


@dataclass(frozen=True, kw_only=True)
class PaGELink:
    """Edge scores that keep the prediction and rise on the best head-to-tail paths, searched anew in every step.

    | paper | here | meaning |
    |---|---|---|
    | k | `best` | how many paths are strengthened in a step |
    | α, β | `on_weight`, `off_weight` | weights of the mask's mean on those paths, and off them |
    """

    name: ClassVar[str] = "page-link"
    cost: ClassVar[Cost] = "log-degree"  # what its learning searches by is also what orders its paths
    weighs_messages: ClassVar[bool] = True

    steps: int = setting(50, "steps of Adam that learn the mask")
    lr: float = setting(0.01, "Adam's learning rate")
    best: int = setting(5, "how many best paths are strengthened in each step")
    longest: int = setting(3, "most hops of those paths")
    prediction_weight: float = setting(1.0, "weight of keeping the prediction")
    counterfactual_weight: float = setting(0.0, "weight of losing the prediction without the mask; 0 switches it off")
    on_weight: float = setting(1.0, "weight of the mask's mean on the best paths")
    off_weight: float = setting(1.0, "weight of the mask's mean off them")

    def __post_init__(self) -> None:
        check_descent(self.steps, self.lr)
        if self.best < 1 or self.longest < 1:
            raise SettingsError(f"best and longest must be at least 1, not {self.best} and {self.longest}")

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Learn a logit per edge, all queries of the batch together."""
        paths = BestPaths(graph, count=self.best, longest=self.longest, on=self.on_weight, off=self.off_weight)
        terms: WeightedTerms = [
            (self.prediction_weight, keep_prediction(model, graph)),
            (1.0, paths),
            *counterfactual(self.counterfactual_weight, model, graph),
        ]
        mask = learn_mask(FreeLogits(graph, seed=seed), terms, steps=self.steps, lr=self.lr)
        return EdgeScores.of_kept(graph, mask, remarks_where(~paths.active, NO_WALK))


class BestPaths:
    """−on · (mean of M on the best paths) + off · (mean of M off them), over each query's kept edges.

    The best paths are the cheapest simple ones where an edge (u, v) costs log in-degree(v) − log M, its degree part
    nothing at head and tail. They are found exactly, and fixed while the gradient is taken. For a query without a path
    (`active` (Q,) is false) the term is zero.
    """

    def __init__(self, graph: ComputationGraph, *, count: int, longest: int, on: float, off: float) -> None:
        self._on, self._off = on, off
        self._query, self._num_queries = graph.kept_edges.query, graph.num_queries
        self._place = torch.cumsum(graph.kept, 0) - 1  # of an edge of the graph among the kept ones
        self._search = RouteSearch(graph, count=count, min_length=1, max_length=longest)
        self._degree = degree_cost(graph)
        found = self.paths(self._degree.new_zeros(self._degree.shape))
        self.active = torch.bincount(found.query, minlength=graph.num_queries) > 0

    def paths(self, logits: Tensor) -> PathBatch:
        """Return the best paths under the mask of these logits (E,)."""
        # a positive least cost: of two certain paths the shorter one is the better
        return self._search(self._degree + torch.nn.functional.softplus(-logits.detach().double()) + 1e-9)

    def __call__(self, logits: Tensor) -> Tensor:
        found = self.paths(logits).edges
        on = torch.zeros_like(logits)
        on[self._place[found[found >= 0]]] = 1.0
        mask = torch.sigmoid(logits)
        term = self._off * self._mean(mask, 1 - on) - self._on * self._mean(mask, on)
        return torch.where(self.active, term, 0.0)

    def _mean(self, mask: Tensor, chosen: Tensor) -> Tensor:
        """Return the mean of M over each query's chosen edges: (Q,)."""
        total = segment_sum(mask * chosen, self._query, self._num_queries)
        return total / segment_sum(chosen, self._query, self._num_queries).clamp(min=1)
