"""An explainer held against links whose explanations are known."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from powerlink.errors import DataError
from powerlink.explainers.protocol import Explainer
from powerlink.kg.explained_links import ExplainedLinks
from powerlink.kg.knowledge_graph import Split
from powerlink.models.subject import Subject, undisturbed
from powerlink.paths.propose import propose
from powerlink.pipeline import ExplainSettings, computation_graph
from powerlink.run.batching import batches
from powerlink.verify.ground_truth import READINGS, Reading, edge_auc, explaining_edges, first_true_path


@dataclass(frozen=True, eq=False)
class Agreement:
    """How well an explainer's own scores and its own order of paths agree with the ground truth, per query."""

    auc: dict[Reading, NDArray[np.float64]]  # (Q,); NaN where a computation graph lacks one of the classes
    first_true: NDArray[np.float64]  # (Q,) place of the first true path; infinity where there is none
    seconds: float  # spent on scoring edges and searching paths, all queries together

    @property
    def queries(self) -> int:
        return len(self.first_true)

    def of(self, chosen: NDArray[np.bool_]) -> Agreement:
        """Return the same of some of the queries; the time is shared out evenly."""
        share = float(chosen.mean()) if self.queries else 0.0
        auc = {reading: values[chosen] for reading, values in self.auc.items()}
        return Agreement(auc, self.first_true[chosen], self.seconds * share)

    def mean_auc(self, reading: Reading) -> float:
        """Return the mean over the queries that have one; NaN where none has."""
        values = self.auc[reading][~np.isnan(self.auc[reading])]
        return float(values.mean()) if len(values) else float("nan")

    def hit_at(self, count: int) -> float:
        """Return the share of queries with a true path among the first `count`."""
        return float((self.first_true <= count).mean()) if self.queries else float("nan")


def predicted_links(subject: Subject, data: ExplainedLinks, split: Split = "test") -> Tensor:
    """Return a split's links (Q, 3) with known explanations to which the model gives more than one half."""
    rows = [link for link in data.links_of(split).tolist() if tuple(link) in data.truth]
    links = torch.tensor(rows, dtype=torch.long).reshape(-1, 3)
    with undisturbed(subject.model), torch.no_grad():
        return links[(subject.model.score(subject.whole, links.to(subject.messages.device)) > 0).cpu()]


def hold_against_truth(
    subject: Subject,
    data: ExplainedLinks,
    queries: Tensor,
    explainer: Explainer,
    *,
    settings: ExplainSettings | None = None,
    seed: int = 0,
) -> Agreement:
    """Score the edges around each query (Q, 3), search paths, and compare both with what is known."""
    settings = settings or ExplainSettings()
    lengths = {"min_length": settings.min_length, "max_length": settings.max_length}
    for query in queries.tolist():
        if tuple(query) not in data.truth:
            raise DataError(f"{data.name} does not say what explains {tuple(query)}; expected links with labels")
    auc: dict[Reading, list[NDArray[np.float64]]] = {reading: [np.empty(0)] for reading in READINGS}
    first_true = [np.empty(0)]
    seconds = 0.0
    with undisturbed(subject.model):
        for batch in batches(subject.messages, queries, settings.hops or subject.model.num_layers):
            truth = [data.truth[head, relation, tail] for head, relation, tail in batch.tolist()]
            graph = computation_graph(subject, batch.to(subject.messages.device), settings)
            start = time.perf_counter()
            scores = explainer.score_edges(subject.model, graph, seed).values
            cost = settings.cost or explainer.cost
            paths = propose(graph, scores, cost=cost, count=settings.candidates, **lengths)
            seconds += time.perf_counter() - start
            explaining = explaining_edges(graph, truth)
            for reading in READINGS:
                auc[reading].append(edge_auc(graph, scores, explaining, reading))
            first_true.append(first_true_path(graph, paths, truth))
    return Agreement(
        {reading: np.concatenate(parts) for reading, parts in auc.items()}, np.concatenate(first_true), seconds
    )
