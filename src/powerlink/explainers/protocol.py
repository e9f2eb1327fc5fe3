"""Explainer, the seam: settings as fields, and one method."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.protocol import LinkModel
from powerlink.paths.propose import Cost

SMALLEST_SCORE = 1e-6  # keeps 1/score and −log score finite


@dataclass(frozen=True, eq=False)
class EdgeScores:
    """How much each edge of a computation graph matters to its query."""

    values: Tensor  # (num_edges,) in (0, 1] on kept edges, 0 on pruned ones
    path_term: Tensor | None = None  # (Q,) bool: whether a path term shaped the scores; None: there is no such term


class Explainer(Protocol):
    """Scores edges; a frozen dataclass whose fields are its settings (flags and reports derive from them)."""

    name: ClassVar[str]
    cost: ClassVar[Cost]  # how its scores become path costs, unless the user says otherwise

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Score the kept edges of a batch of queries. A query's scores depend on (seed, query) alone."""
        ...


def setting(default: Any, meaning: str) -> Any:
    """Declare a field that users may set; command-line flags and their help derive from it."""
    return field(default=default, metadata={"help": meaning})
