"""What is measured while queries are explained: seconds, and edge scores held against what explains each query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from powerlink.atomic_file import write_atomically
from powerlink.errors import DataError
from powerlink.explainers.protocol import (
    AnyExplainer,
    EdgeScores,
    Explainer,
    Oracle,
    Proposal,
    Proposer,
    Wish,
    looks_everywhere,
)
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kg.explained_links import GroundTruth, Triple
from powerlink.memory import Budget
from powerlink.models.protocol import LinkModel
from powerlink.models.session import Session
from powerlink.narrate import name_query
from powerlink.pipeline import Answer
from powerlink.run.job import ExplainJob, Measurements
from powerlink.verify.ground_truth import READINGS, edge_auc, explaining_edges


class Watched:
    """Somebody whose scores of edges are held against the truth as they pass."""

    def __init__(self, explainer: AnyExplainer, truth: Mapping[Triple, GroundTruth]) -> None:
        self.watched, self._truth = explainer, truth
        self.name, self.looks_everywhere = explainer.name, looks_everywhere(explainer)
        self.auc: dict[Triple, dict[str, float]] = {}

    def _hold(self, graph: ComputationGraph, values: Tensor) -> None:
        """Measure the ROC-AUC of each of a batch's queries, of scores (num_edges,)."""
        queries = [(head, relation, tail) for head, relation, tail in graph.queries.tolist()]
        explaining = explaining_edges(graph, [self._truth[query] for query in queries])
        for reading in READINGS:
            for query, value in zip(queries, edge_auc(graph, values, explaining, reading).tolist(), strict=True):
                self.auc.setdefault(query, {})[reading] = value


class WatchedExplainer(Watched):
    """An explainer; what it scores is looked at."""

    def __init__(self, explainer: Explainer, truth: Mapping[Triple, GroundTruth]) -> None:
        super().__init__(explainer, truth)
        self._explainer, self.cost = explainer, explainer.cost

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Score a batch, and measure it."""
        scores = self._explainer.score_edges(model, graph, seed)
        self._hold(graph, scores.values)
        return scores


class WatchedProposer(Watched):
    """A proposer; its mask is looked at, where it has one."""

    def __init__(self, proposer: Proposer, truth: Mapping[Triple, GroundTruth]) -> None:
        super().__init__(proposer, truth)
        self._proposer = proposer

    def propose(self, oracle: Oracle, graph: ComputationGraph, wish: Wish, seed: int) -> Proposal:
        """Name evidence of a batch, and measure the mask."""
        proposal = self._proposer.propose(oracle, graph, wish, seed)
        if proposal.mask is not None:
            self._hold(graph, proposal.mask)
        return proposal


@dataclass(frozen=True, kw_only=True)
class WatchedJob(ExplainJob):
    """An ExplainJob that also measures its explainer's edge scores, where it is known what explains the queries."""

    truth: Mapping[Triple, GroundTruth] = field(default_factory=dict)

    def answer(
        self, session: Session, batch: Tensor, budget: Budget, explainer: AnyExplainer | None = None
    ) -> tuple[Mapping[str, Answer], Measurements]:
        """Explain a batch, and tell each reading's ROC-AUC of each query."""
        if not self.truth:
            return super().answer(session, batch, budget)
        who = self.explainer
        watched = WatchedProposer(who, self.truth) if isinstance(who, Proposer) else WatchedExplainer(who, self.truth)
        answers, _ = super().answer(session, batch, budget, watched)
        return answers, {name_query(session.graph, query): found for query, found in watched.auc.items()}


class Measured:
    """Numbers by query, in a file if there is one; it is rewritten as a whole, so that it is never half."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._numbers: dict[str, dict[str, float | None]] = {}
        if path is not None and path.is_file():
            try:
                self._numbers = dict(json.loads(path.read_text("utf-8")))
            except (OSError, ValueError, TypeError):
                raise DataError(f"{path} is damaged: delete the explanations beside it to start anew") from None

    def add(self, numbers: Mapping[Triple, Mapping[str, float]]) -> None:
        """Add the numbers of a batch for good."""
        for query, found in numbers.items():
            plain = {name: None if np.isnan(value) else value for name, value in found.items()}
            self._numbers[_key(query)] = plain
        if self._path is not None:
            write_atomically(self._path, (json.dumps(self._numbers) + "\n").encode())

    def of(self, name: str, queries: Iterable[Triple]) -> NDArray[np.float64]:
        """Return one number of each query, (Q,); NaN where it has none."""
        found = (self._numbers.get(_key(query), {}).get(name) for query in queries)
        return np.array([np.nan if value is None else value for value in found], dtype=np.float64)


def _key(query: Triple) -> str:
    return " ".join(map(str, query))
