"""Stage 4 as a whole: an explainer proposes evidence, mostly the best paths under its scores, and others beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from powerlink.errors import ExplainerError
from powerlink.evidence import Candidates, EvidenceBatch, pool
from powerlink.explain_settings import AlsoConsider
from powerlink.explainers.contract import propose_faithfully, score_faithfully
from powerlink.explainers.floor import LowDegree
from powerlink.explainers.protocol import (
    AnyExplainer,
    Explainer,
    Oracle,
    Proposal,
    Proposer,
    Remarks,
    Wish,
    looks_everywhere,
)
from powerlink.explainers.remarks import remarks_on_mask
from powerlink.explainers.single_facts import SingleFacts
from powerlink.explainers.slopes import Slopes
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.protocol import LinkModel, abilities_of
from powerlink.paths.propose import propose
from powerlink.stage_clock import Elapsed, Seconds, stage, timed


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


SECOND_PROPOSERS: dict[AlsoConsider, tuple[AnyExplainer, ...]] = {
    "cheap": (Slopes(), LowDegree()),
    "slopes": (Slopes(),),
    "none": (),
}


def second_proposers(also: AlsoConsider, model: LinkModel) -> list[Proposer]:
    """Return who else proposes; of a model that passes no messages also facts by themselves: few paths carry it."""
    alone = (SingleFacts(),) if also != "none" and abilities_of(model).retrainable else ()
    return [as_proposer(explainer) for explainer in (*SECOND_PROPOSERS[also], *alone)]


@dataclass(frozen=True, eq=False)
class Proposals:
    """What is proposed of a batch, and by whom."""

    candidates: Candidates
    proposers: list[str]
    mask: Tensor | None  # (num_edges,) the explainer's own, where it has one
    remarks: Remarks  # by query, doubts about that mask
    seconds: Seconds  # what it took to make them, also where they were known before


class Proposing:
    """Asks proposers about one batch, each of them once, however many ways their evidence is then chosen from.

    `graph` is pruned. Who learns nothing may look `everywhere` in it: pruning is for those who must learn a mask.
    """

    def __init__(
        self, oracle: Oracle, graph: ComputationGraph, wish: Wish, seed: int, allowed: Tensor | None = None
    ) -> None:
        self._oracle, self._wish, self._seed = oracle, wish, seed
        kept, whole = graph.kept, torch.ones_like(graph.kept)
        if allowed is not None:
            kept, whole = kept & allowed, allowed
        self._graphs = {False: graph.pruned_to(kept), True: graph.pruned_to(whole)}
        self._pruned = not torch.equal(kept, whole)
        self._known: dict[tuple[str, bool], tuple[Proposal, Seconds]] = {}

    def __call__(self, explainer: AnyExplainer, also: AlsoConsider = "none", *, everywhere: bool) -> Proposals:
        """Let an explainer propose, and those who are also considered."""
        first = as_proposer(explainer)
        asked = {first.name: self._ask(first, everywhere)}
        for second in second_proposers(also, self._oracle.model):
            if second.name not in asked:
                asked[second.name] = self._ask(second, everywhere, second=True)
        own, _ = asked[first.name]
        remarks: Sequence[tuple[str, ...]] = own.remarks or [()] * self._graphs[False].num_queries
        candidates = pool([proposal.evidence for proposal, _ in asked.values()])
        return Proposals(candidates, list(asked), own.mask, remarks, _total(took for _, took in asked.values()))

    def _ask(self, proposer: Proposer, everywhere: bool, second: bool = False) -> tuple[Proposal, Seconds]:
        wide = everywhere and self._pruned and looks_everywhere(proposer)
        if (proposer.name, wide) not in self._known:
            # ScoredPaths holds scores to their contract itself, and has stages of its own
            scored = isinstance(proposer, ScoredPaths)
            ask = proposer.propose if scored else partial(propose_faithfully, proposer)
            own = nullcontext() if scored else stage("propose")
            with timed(if_heard=True) as took, stage("second proposers") if second else own:
                proposal = ask(self._oracle, self._graphs[wide], self._wish, self._seed)
            self._known[proposer.name, wide] = proposal, took
        return self._known[proposer.name, wide]


def _total(parts: Iterable[Seconds]) -> Seconds:
    total: Seconds = {}
    for part in parts:
        for name, took in part.items():
            total[name] = total.get(name, Elapsed()) + took
    return total
