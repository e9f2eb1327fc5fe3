"""What an explanation says: the query, what became of it, the evidence, and the proof on the model.

Everything here is named, plain and immutable, so that reports need neither the graph nor the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import networkx
    import pandas
    from torch_geometric.explain import Explanation as PyGExplanation


class Status(StrEnum):
    """What became of a query. Every query gets exactly one."""

    EXPLAINED = "explained"
    FAINT = "faint"
    NO_EFFECT = "no_effect"
    NO_PATH = "no_path"
    HEAD_IS_TAIL = "head_is_tail"
    ENTITY_WITHOUT_FACTS = "entity_without_facts"
    NOT_FINITE = "not_finite"
    WORKER_LOST = "worker_lost"
    TOO_LARGE = "too_large"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Status.EXPLAINED: "evidence was found and proven on the model",
    Status.FAINT: (
        "evidence was found, but without all of it the score hardly falls, or rises: "
        "the prediction does not stand on it"
    ),
    Status.NO_EFFECT: "evidence was proposed, but removing any of it does not lower the model's score",
    Status.NO_PATH: "no path of the allowed lengths connects head and tail",
    Status.HEAD_IS_TAIL: "head and tail are the same entity, so there is no path between them",
    Status.ENTITY_WITHOUT_FACTS: "head or tail has no fact in the training graph, so nothing can explain it",
    Status.NOT_FINITE: "the model's score for this triple is not a finite number",
    Status.WORKER_LOST: "three workers died while they explained it and what was in its batch: a remark says of what",
    Status.TOO_LARGE: (
        "there is too little memory to ask the model about removals around head and tail: grant more, or look at less "
        "of the graph with hops of 1"
    ),
}


@dataclass(frozen=True)
class Query:
    """The prediction in question. `inverse`: the model was asked (tail, relation⁻¹, ?) and heads were ranked."""

    head: str
    relation: str
    tail: str
    inverse: bool = False
    foil: str | None = None  # what the answer is held against: why this one and not that one


@dataclass(frozen=True)
class Fact:
    """One hop of a path, or a member of a set: a fact of the graph, as it is stored there."""

    head: str
    relation: str
    tail: str
    inverse: bool = False  # the path walks this fact from its tail to its head
    visible: bool = True  # some layer of the model passes a message over it towards head or tail
    effect: float | None = field(default=None, compare=False)  # fall of the logit when this fact alone is removed

    @property
    def source(self) -> str:
        """Where the path enters this hop."""
        return self.tail if self.inverse else self.head

    @property
    def target(self) -> str:
        """Where the path leaves this hop."""
        return self.head if self.inverse else self.tail


@dataclass(frozen=True)
class Outcome:
    """What the model says of the query under some change to the graph."""

    score: float  # logit; higher is more plausible
    rank: float | None  # among all entities, filtered, ties at their mean; None where it was not measured


@dataclass(frozen=True)
class Evidence:
    """A few facts, and what removing them does to the model: a path from head to tail, or a set without an order."""

    facts: tuple[Fact, ...]
    score: float  # the explainer's: product of its edge scores over the facts; 0 where it had pruned an edge away
    cost: float  # what the proposer minimised
    score_without: float  # the model's logit when only these facts are removed
    rank_without: float | None
    proposed_by: str = ""  # the explainer that brought it in
    together: float | None = None  # what its facts carry together, in logits: see docs/method.md
    witnesses: int = 1  # candidates that differ from it in decorative facts alone, itself included
    kind: Literal["path", "set"] = "path"


@dataclass(frozen=True)
class PaperMetrics:
    """One query in the paper's own protocol (see docs/method.md): soft masks, ranks inside the computation graph."""

    fidelity_plus: float
    fidelity_minus: float
    sparsity: float
    sparsity_kept: float
    rank: float
    rank_without_top: Mapping[int, float]  # m → rank when the top m paths' edges are removed


@dataclass(frozen=True)
class GraphSize:
    """How large the computation graph was, and how much of it pruning kept."""

    nodes: int
    edges: int
    edges_kept: int
    edges_looked_at: int | None = None  # before pruning, where memory did not suffice for all; see the remarks


REMOVAL, POST_TRAINING = "removal", "post-training"  # what a model reads; what it would have learned


@dataclass(frozen=True)
class MadeBy:
    """What is needed to make the same explanation again."""

    explainer: str
    settings: Mapping[str, Any]  # of the explanation
    explainer_settings: Mapping[str, Any]
    seed: int
    graph: str  # KnowledgeGraph.fingerprint
    model: str  # e.g. "compgcn-distmult"
    model_hash: str
    versions: Mapping[str, str]
    reading: str = REMOVAL  # what "without a fact" means, see Removal and PostTraining


@dataclass(frozen=True)
class Explanation:
    """Why the model believes (or does not believe) one triple."""

    query: Query
    status: Status
    score: float | None  # the model's logit on the graph without the target fact; None if it is not finite
    rank: float | None
    evidence: tuple[Evidence, ...] = ()
    without_all: Outcome | None = None  # all shown evidence's facts removed together
    only_these: Outcome | None = None  # head and tail encoded from these facts alone
    without_top: Mapping[int, Outcome] = field(default_factory=dict)  # m → the first m pieces removed together
    deletion: tuple[float, ...] = ()  # the logit after removing the first 1, 2, … facts that are shown
    considered: int = 0  # candidates that were judged on the model
    remarks: tuple[str, ...] = ()  # doubts a reader must know of, a sentence each
    paper: PaperMetrics | None = None
    size: GraphSize | None = None
    made_by: MadeBy | None = None
    probability: float | None = None  # calibrated, see Calibration; None: it could not be, and is not shown

    @property
    def paths(self) -> tuple[Evidence, ...]:
        """The evidence that leads from head to tail."""
        return tuple(piece for piece in self.evidence if piece.kind == "path")

    @property
    def deletion_area(self) -> float | None:
        """The mean fall of the logit per removed fact: the mean over k of (score − deletion[k − 1]) / k."""
        if self.score is None or not self.deletion:
            return None
        # Per fact at every step, so that many facts do not win over few by being many.
        return sum((self.score - left) / k for k, left in enumerate(self.deletion, start=1)) / len(self.deletion)

    def _repr_html_(self) -> str:
        """Show this explanation in a notebook."""
        from powerlink.report.html import render_fragment  # noqa: PLC0415 - a look upwards, see pyproject.toml

        return render_fragment(self)

    def to_networkx(self) -> networkx.MultiDiGraph:
        """Return the facts as a graph, relations as keys: `paths`, `worth`, `effect` on edges, `role` on nodes."""
        from powerlink.report.export import to_networkx  # noqa: PLC0415

        return to_networkx(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """Return a row per hop of every path, with what the model says without that fact and without that path."""
        from powerlink.report.export import to_dataframe  # noqa: PLC0415

        return to_dataframe(self)

    def to_pyg(self, graph: Any = None) -> PyGExplanation:
        """Return edges with a mask for PyG's plots and metrics: the paths' own, or all training facts of a graph."""
        from powerlink.report.export import to_pyg  # noqa: PLC0415

        return to_pyg(self, graph)
