"""Explainer, the seam: settings as fields, and one method."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.protocol import LinkModel
from powerlink.models.subject import Subject
from powerlink.paths.propose import Cost
from powerlink.settings import setting as setting  # noqa: PLC0414 - explainers of other packages find it here

SMALLEST_SCORE = 1e-6  # keeps 1/score and −log score finite


@dataclass(frozen=True, eq=False)
class EdgeScores:
    """How much each edge of a computation graph matters to its query."""

    values: Tensor  # (num_edges,) in (0, 1] on kept edges, 0 on pruned ones; float64 if learned, see `mask_of`
    path_term: Tensor | None = None  # (Q,) bool: whether a path term shaped the scores; None: there is no such term
    by_route: Tensor | None = None  # (num_edges,) what paths are searched by, where it is not the mask itself

    @classmethod
    def of_kept(cls, graph: ComputationGraph, values: Tensor, path_term: Tensor | None = None) -> EdgeScores:
        """Spread values of the kept edges (E,) over all edges, none of them too small to be a cost."""
        return cls(graph.kept_edges.scatter(values.clamp(min=SMALLEST_SCORE), graph.num_edges), path_term)

    @property
    def for_search(self) -> Tensor:
        """The scores that paths are searched by: (num_edges,), as `values`."""
        return self.values if self.by_route is None else self.by_route


class Explainer(Protocol):
    """Scores edges; a frozen dataclass whose fields are its settings (flags and reports derive from them)."""

    @property
    def name(self) -> str:
        """What reports call it; usually a `ClassVar[str]`, a field where settings alone make a variant."""
        ...

    @property
    def cost(self) -> Cost:
        """How its scores become path costs, unless the user says otherwise; a `ClassVar`."""
        ...

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Score the kept edges of a batch of queries. A query's scores depend on (seed, query) alone."""
        ...


@runtime_checkable
class Fitted(Protocol):
    """An explainer that is fitted once, on many queries of one model, and then applied to others."""

    fitting: ClassVar[type[Fitting]]  # a frozen dataclass: how it is fitted

    def check_fit(self, subject: Subject) -> None:
        """Refuse, in one sentence, to explain without weights or with those of another model."""
        ...


@runtime_checkable
class LooksEverywhere(Protocol):
    """An explainer that learns nothing, so it scores unpruned graphs as well: hubs and loose ends cost it no steps."""

    looks_everywhere: ClassVar[bool]


class Fitting(Protocol):
    """How an explainer is fitted; its fields are the settings of the fit."""

    @property
    def epochs(self) -> int:
        """How often `told` will be told."""
        ...

    @property
    def batch(self) -> int:
        """How many queries a batch has at most; fewer where their graphs are large."""
        ...

    def fit(
        self, model: LinkModel, batches: Iterable[ComputationGraph], seed: int, told: Callable[[float], None]
    ) -> dict[str, Tensor]:
        """Learn from batches, walking them as often as needed; `told` hears the mean loss of each of `epochs`.

        They come as a list where memory holds all of them: what is prepared for one can then be kept.
        """
        ...


def described(explainer: Explainer) -> dict[str, Any]:
    """Return the values that tell two explainers of one name apart, for reports."""
    own = fields(explainer)  # type: ignore[arg-type]
    return {f.name: getattr(explainer, f.name) for f in own if f.compare and f.name != "name"}
