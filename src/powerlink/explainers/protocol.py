"""The seams: an Explainer gives every edge a score; a Proposer, its general form, names evidence itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor

from powerlink.evidence import EvidenceBatch
from powerlink.explain_settings import ExplainSettings
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.protocol import LinkModel
from powerlink.models.session import Session
from powerlink.paths.propose import Cost
from powerlink.paths.search import EDGES_AT_ONCE
from powerlink.settings import setting as setting  # noqa: PLC0414 - explainers of other packages find it here

SMALLEST_SCORE = 1e-6  # keeps 1/score and −log score finite
Remarks = Sequence[tuple[str, ...]]  # by query: sentences a reader must know before believing


@dataclass(frozen=True, eq=False)
class EdgeScores:
    """How much each edge of a computation graph matters to its query."""

    values: Tensor  # (num_edges,) in (0, 1] on kept edges, 0 on pruned ones; float64 if learned, see `mask_of`
    by_route: Tensor | None = None  # (num_edges,) what paths are searched by, where it is not the mask itself
    remarks: Remarks = ()  # of each query; none at all where there is nothing to say

    @classmethod
    def of_kept(cls, graph: ComputationGraph, values: Tensor, remarks: Remarks = ()) -> EdgeScores:
        """Spread values of the kept edges (E,) over all edges, none of them too small to be a cost."""
        return cls(graph.kept_edges.scatter(values.clamp(min=SMALLEST_SCORE), graph.num_edges), remarks=remarks)

    @property
    def for_search(self) -> Tensor:
        """The scores that paths are searched by: (num_edges,), as `values`."""
        return self.values if self.by_route is None else self.by_route


class Explainer(Protocol):
    """Scores edges; a frozen dataclass whose fields are its settings (flags and reports derive from them)."""

    @property
    def name(self) -> str:
        """What reports call it; usually a `ClassVar[str]`, a field where settings alone make a variant."""

    @property
    def cost(self) -> Cost:
        """How its scores become path costs, unless the user says otherwise; a `ClassVar`."""

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Score the kept edges of a batch of queries. A query's scores depend on (seed, query) alone."""


class Oracle(Protocol):
    """Answers "what if" about a batch: facts (S, most) are edges, one for each, padded with −1."""

    @property
    def model(self) -> LinkModel: ...

    def precisely(self) -> Oracle:
        """Return one that tells small differences apart, where there is such."""

    def sees(self, facts: Tensor) -> Tensor:
        """Tell which facts (…) can change an answer at all: bool."""

    def now(self) -> Tensor:
        """Return each question's number with all facts in place: (Q,)."""

    def without(self, question: Tensor, facts: Tensor) -> Tensor:
        """Return the numbers (S,) of some questions (S,) without some facts."""

    def with_only(self, question: Tensor, facts: Tensor) -> Tensor:
        """Return the numbers (S,) of some questions (S,) where nothing is left but some facts."""

    def ranks_without(self, question: Tensor, facts: Tensor) -> Tensor:
        """Return the filtered ranks (S,) of some questions (S,) without some facts."""

    def given(self, question: Tensor, other: Tensor, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Ask some questions (S,) of other heads (S,), as if facts of the question's own head were theirs, too.

        Return numbers and ranks: (S,) each.
        """

    def other_heads(self, count: int, seed: int) -> Tensor:
        """Draw entities of which the model does not believe what it believes of each question's head: (Q, ≤ count).

        Padded with −1.
        """


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is wanted of a proposer."""

    count: int  # pieces of evidence for each query, at most
    min_length: int
    max_length: int
    cost: Cost | None = None  # None: the proposer's own
    at_once: int = EDGES_AT_ONCE  # tried together by a search

    @classmethod
    def of(cls, settings: ExplainSettings) -> Wish:
        """Return what settings ask of a proposer, but for the memory it may take."""
        lengths = {"min_length": settings.min_length, "max_length": settings.max_length}
        return cls(count=settings.candidates, cost=settings.cost, **lengths)


@dataclass(frozen=True, eq=False)
class Proposal:
    """Evidence in an order; a mask where the proposer has one, which the paper's fidelity judges."""

    evidence: EvidenceBatch
    mask: Tensor | None = None  # (num_edges,) in (0, 1] on kept edges, 0 on pruned ones
    remarks: Remarks = ()


@runtime_checkable
class Proposer(Protocol):
    """Names evidence, paths or sets, best first; a frozen dataclass whose fields are its settings."""

    @property
    def name(self) -> str:
        """What reports call it."""

    def propose(self, oracle: Oracle, graph: ComputationGraph, wish: Wish, seed: int) -> Proposal:
        """Name evidence among the kept edges. What is said of a query depends on (seed, query) alone."""


@runtime_checkable
class Fitted(Protocol):
    """An explainer that is fitted once, on many queries of one model, and then applied to others."""

    fitting: ClassVar[type[Fitting]]  # a frozen dataclass: how it is fitted

    def check_fit(self, session: Session) -> None:
        """Refuse, in one sentence, to explain without weights or with those of another model."""


class Fitting(Protocol):
    """How an explainer is fitted; its fields are the settings of the fit."""

    @property
    def epochs(self) -> int:
        """How often `told` will be told."""

    @property
    def batch(self) -> int:
        """How many queries a batch has at most; fewer where their graphs are large."""

    def fit(
        self, model: LinkModel, batches: Iterable[ComputationGraph], seed: int, told: Callable[[float], None]
    ) -> dict[str, Tensor]:
        """Learn from batches, walking them as often as needed; `told` hears the mean loss of each of `epochs`.

        They come as a list where memory holds all of them: what is prepared for one can then be kept.
        """


AnyExplainer = Explainer | Proposer


def looks_everywhere(explainer: AnyExplainer) -> bool:
    """Say whether it looks at unpruned graphs: it learns nothing, so hubs and loose ends cost it no steps."""
    return bool(getattr(explainer, "looks_everywhere", False))


def described(explainer: AnyExplainer) -> dict[str, Any]:
    """Return the values that tell two explainers of one name apart, for reports."""
    own: tuple[Field[Any], ...] = fields(explainer) if is_dataclass(explainer) else ()
    return {f.name: getattr(explainer, f.name) for f in own if f.compare and f.name != "name"}
