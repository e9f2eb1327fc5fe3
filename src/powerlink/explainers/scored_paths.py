"""From an explainer's edge scores to its proposal: the best paths under them."""

from __future__ import annotations

from dataclasses import dataclass

from powerlink.errors import ExplainerError
from powerlink.evidence import EvidenceBatch
from powerlink.explainers.contract import score_faithfully
from powerlink.explainers.protocol import AnyExplainer, Explainer, Oracle, Proposal, Proposer, Wish, looks_everywhere
from powerlink.explainers.remarks import remarks_on_mask
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.paths.propose import propose
from powerlink.stage_clock import stage


@dataclass(frozen=True)
class ScoredPaths:
    """Proposes the best paths under an explainer's edge scores."""

    explainer: Explainer

    @property
    def name(self) -> str:
        return self.explainer.name

    @property
    def looks_everywhere(self) -> bool:
        return looks_everywhere(self.explainer)

    def propose(self, oracle: Oracle, graph: ComputationGraph, wish: Wish, seed: int) -> Proposal:
        """Score the edges, and search the paths that cost least."""
        with stage("score edges"):
            scores = score_faithfully(self.explainer, oracle.model, graph, seed)
        with stage("search paths"):
            paths = propose(
                graph,
                scores.for_search,
                cost=wish.cost or self.explainer.cost,
                count=wish.count,
                min_length=wish.min_length,
                max_length=wish.max_length,
                at_once=wish.at_once,
            )
        remarks = scores.remarks or [()] * graph.num_queries
        if not self.looks_everywhere:  # what is not learned is no mask, and has no emptiness to confess
            told = remarks_on_mask(graph, scores, paths)
            remarks = [(*own, *more) for own, more in zip(remarks, told, strict=True)]
        return Proposal(EvidenceBatch.of_paths(paths), scores.values, remarks)


def as_proposer(explainer: AnyExplainer) -> Proposer:
    """Return a proposer as it is, and an explainer as the proposer of its best paths."""
    if isinstance(explainer, Proposer):
        return explainer
    if not callable(getattr(explainer, "score_edges", None)):
        raise ExplainerError(f"{explainer!r} is no explainer: it needs a method score_edges, or propose")
    return ScoredPaths(explainer)
