"""Fitting an explainer that learns once from many queries, in the batches that explaining uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.explainers.learned.pg_explainer import PGExplainer
from powerlink.explainers.protocol import AnyExplainer, Fitting
from powerlink.explainers.weights import save_weights
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kernels.plain_torch import plain_torch
from powerlink.memory import MOST_QUERIES, Budget
from powerlink.models.session import Session
from powerlink.pipeline import ExplainSettings, computation_graph
from powerlink.run.batching import batches


class GraphBatches:
    """The computation graphs of many queries, at most so many at once, made anew on every walk.

    Memory then holds one batch. `together` says that it could hold all of them.
    """

    def __init__(
        self, session: Session, queries: Tensor, settings: ExplainSettings, at_once: int = MOST_QUERIES
    ) -> None:
        self._session, self._settings = session, settings
        queries = queries[queries[:, 0] != queries[:, 2]]
        hops = settings.hops or session.reach
        self._runs = batches(session.messages, queries, hops, Budget(queries=at_once))
        self.together = len(batches(session.messages, queries, hops, Budget(queries=len(queries)))) <= 1

    def __iter__(self) -> Iterator[ComputationGraph]:
        return (computation_graph(self._session, run.content, self._settings) for run in self._runs)


def fit_explainer(
    session: Session,
    queries: Tensor,
    out: str | Path,
    *,
    kind: type[Any] = PGExplainer,
    fitting: Fitting | None = None,
    settings: ExplainSettings | None = None,
    seed: int = 0,
    told: Callable[[float], None] = lambda loss: None,
) -> AnyExplainer:
    """Fit an explainer on queries (Q, 3), write what it learned to a file, and return it ready to explain.

    `kind` is a class with a `fitting`; `told` hears every epoch's mean loss of a query.
    """
    settings = settings or ExplainSettings()
    fitting = fitting or kind.fitting()
    with plain_torch(session.messages.device):
        graphs = GraphBatches(session, queries, settings, fitting.batch)
        tensors = fitting.fit(session.settled, list(graphs) if graphs.together else graphs, seed, told)
    origin = {"seed": seed, "queries": len(queries), **asdict(settings), **asdict(fitting)}  # type: ignore[arg-type]
    save_weights(Path(out), kind.name, origin, tensors, session)
    fitted: AnyExplainer = kind(weights=str(out))
    return fitted


def spread_over(facts: Tensor, limit: int | None) -> Tensor:
    """Take at most `limit` facts (F, 3), evenly from beginning to end: files are often sorted by relation."""
    if not len(facts):
        raise SettingsError("there is no fact to fit on")
    if limit is None or limit >= len(facts):
        return facts
    return facts[torch.linspace(0, len(facts) - 1, limit).long()]
