"""The floors every explainer must beat: chance, one backward pass, and two that never ask the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from powerlink.explainers.protocol import SMALLEST_SCORE, EdgeScores
from powerlink.explainers.slopes import FLOOR, fact_slopes, share_of_largest
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kernels.keyed_random import keyed_uniform, keys_of
from powerlink.models.protocol import LinkModel
from powerlink.paths.propose import Cost, degree_cost
from powerlink.settings import setting


@dataclass(frozen=True, kw_only=True)
class Random:
    """Edge scores by chance: what an explanation is worth that knows nothing."""

    name: ClassVar[str] = "random"
    cost: ClassVar[Cost] = "inverse"
    looks_everywhere: ClassVar[bool] = True

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Draw a score for each edge from (seed, query, edge)."""
        head, relation, tail = graph.queries[graph.query_of_edge].unbind(1)
        draws = keyed_uniform(keys_of(seed, head, relation, tail, graph.edge), 1).squeeze(1)
        return EdgeScores((1 - draws).clamp(min=SMALLEST_SCORE) * graph.kept)


@dataclass(frozen=True, kw_only=True)
class Gradient:
    """Edge scores by the gradient of the model's score, as `Slopes` of one point: what removing a fact would cost."""

    name: ClassVar[str] = "gradient"
    cost: ClassVar[Cost] = "log"
    looks_everywhere: ClassVar[bool] = True
    floor: float = setting(FLOOR, "least score of an edge, as a share of the query's largest")

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Differentiate all queries' scores in one backward pass; no query sees another's edges."""
        return EdgeScores(share_of_largest(fact_slopes(model, graph), graph, self.floor))


@dataclass(frozen=True, kw_only=True)
class Shortest:
    """The same score for every edge, so that the shortest paths come first; equals go by edge id."""

    name: ClassVar[str] = "shortest"
    cost: ClassVar[Cost] = "inverse"
    looks_everywhere: ClassVar[bool] = True

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Score every kept edge 1."""
        return EdgeScores(graph.kept.float())


@dataclass(frozen=True, kw_only=True)
class LowDegree:
    """Edge scores of 1 / in-degree of the node an edge leads to, so that paths around hubs come first.

    Head and tail cost nothing: every path has them. Degrees are counted among the kept edges; equals go by edge id.
    """

    name: ClassVar[str] = "low-degree"
    cost: ClassVar[Cost] = "log"
    looks_everywhere: ClassVar[bool] = True

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Score by degree; the model is not asked."""
        return EdgeScores.of_kept(graph, degree_cost(graph).neg().exp().float())
