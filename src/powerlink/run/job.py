"""ExplainJob: all that decides what is said of a model's queries, as a value that pickles and travels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from powerlink.explainers.proposals import as_proposer
from powerlink.explainers.protocol import AnyExplainer, described, looks_everywhere
from powerlink.explanation import Explanation, MadeBy, Query, Status
from powerlink.memory import Budget, ran_out_of_memory
from powerlink.models.checkpoint import versions
from powerlink.models.protocol import abilities_of
from powerlink.models.session import Session
from powerlink.narrate import name_query, unexplained
from powerlink.pipeline import DEFAULT_EXPLAINER, Answer, ExplainSettings, explain_in_ways
from powerlink.run.batching import batches
from powerlink.run.ceiling import allocator_bound, budget_for
from powerlink.run.executor import Parcel
from powerlink.sources import open_model
from powerlink.stage_clock import Elapsed, Seconds, timed

Measurements = Mapping[Query, Mapping[str, float]]  # what else was found of a query, by name
ONLY = ""  # the one way of a job that has one
FEWEST_EDGES = 1_000  # looked at before a query is given up


@dataclass(frozen=True, kw_only=True)
class ExplainJob:
    """An explainer, the ways in which its evidence is chosen, a seed and a bound on memory; the model is not in it.

    `ways` look at the same graphs (hops, pruning, lengths) and share what the explainer proposes. `memory` is what the
    process, or on a GPU the device's share of it, may take in all, in bytes; by default, what the machine has.
    """

    explainer: AnyExplainer = DEFAULT_EXPLAINER
    ways: Mapping[str, ExplainSettings] = field(default_factory=lambda: {ONLY: ExplainSettings()})
    seed: int = 0
    memory: int | None = None

    def __post_init__(self) -> None:
        as_proposer(self.explainer)  # says what is no explainer before anything is done

    @classmethod
    def of(
        cls,
        explainer: AnyExplainer | None = None,
        settings: ExplainSettings | None = None,
        seed: int = 0,
        memory: int | None = None,
    ) -> ExplainJob:
        """Explain in one way."""
        ways = {ONLY: settings or ExplainSettings()}
        return cls(explainer=explainer or DEFAULT_EXPLAINER, ways=ways, seed=seed, memory=memory)

    def made_by(self, session: Session) -> dict[str, MadeBy]:
        """Write down, for each way, what is needed to make the same explanations again."""
        origin = {"graph": session.graph.fingerprint, "model": session.name, "model_hash": session.hash}
        return {
            way: MadeBy(
                explainer=self.explainer.name,
                settings=asdict(settings),
                explainer_settings=described(self.explainer),
                seed=self.seed,
                versions=versions(),
                reading=session.reading,
                **origin,
            )
            for way, settings in self.ways.items()
        }

    def cut(self, session: Session, queries: Tensor, budget: Budget) -> list[Parcel[Tensor]]:
        """Cut queries (Q, 3), in their order, into batches that fit a budget."""
        hops = next(iter(self.ways.values())).hops or session.reach
        return batches(session.messages, queries, hops, budget)

    def budget(self, session: Session) -> Budget:
        """Return what a batch may take beside the session."""
        return budget_for(session, self.memory, learns=not looks_everywhere(self.explainer))

    def run(self, session: Session, batch: Tensor) -> JobResult:
        """Explain a batch of queries (Q, 3) in every way; one that does not fit after all is halved."""
        with allocator_bound(session.messages.device, self.memory):
            return self._run(session, batch, self.budget(session))

    def _run(self, session: Session, batch: Tensor, budget: Budget) -> JobResult:
        try:
            with timed() as seconds:
                answers, measured = self.answer(session, batch, budget)
            return JobResult(answers, seconds, measured)
        except (RuntimeError, MemoryError) as error:
            if not ran_out_of_memory(error):
                raise
        # Outside of the handler: the error holds on to what filled the memory.
        if session.messages.device.type == "cuda":
            torch.cuda.empty_cache()
        if len(batch) > 1:
            first, second = (self._run(session, half, budget) for half in batch.tensor_split(2))
            return first.followed_by(second)
        fewer = min(budget.most or session.messages.num_edges, session.messages.num_edges) // 4
        if fewer < FEWEST_EDGES or abilities_of(session.settled).layers is None:
            return self._unanswered(session, batch, Status.TOO_LARGE)
        return self._run(session, batch, replace(budget, most=fewer))

    def answer(
        self, session: Session, batch: Tensor, budget: Budget, explainer: AnyExplainer | None = None
    ) -> tuple[Mapping[str, Answer], Measurements]:
        """Explain a batch that fits, perhaps by a stand-in for the job's explainer; also tell what was measured."""
        how: dict[str, Any] = {"seed": self.seed, "made_by": self.made_by(session)}
        how |= {"room": budget.room, "most": budget.most}
        return explain_in_ways(session, batch, self.ways, explainer=explainer or self.explainer, **how), {}

    def lost(self, session: Session, batch: Tensor, reason: str) -> JobResult:
        """Say of every query of a batch why there is no answer."""
        return self._unanswered(session, batch, Status.WORKER_LOST, (reason,))

    def _unanswered(self, session: Session, batch: Tensor, status: Status, remarks: tuple[str, ...] = ()) -> JobResult:
        queries = [name_query(session.graph, query) for query in batch.tolist()]
        ways = {}
        for way, made_by in self.made_by(session).items():
            closed = [unexplained(query, status, None, made_by) for query in queries]
            ways[way] = Answer([replace(explanation, remarks=remarks) for explanation in closed], {})
        return JobResult(ways, {})


@dataclass(frozen=True)
class JobResult:
    """What a job says of a batch, in each way, and the seconds of each stage."""

    ways: Mapping[str, Answer]
    seconds: Seconds
    measured: Measurements = field(default_factory=dict)

    @property
    def explanations(self) -> list[Explanation]:
        """What is said in the first way."""
        return next(iter(self.ways.values())).explanations

    def followed_by(self, other: JobResult) -> JobResult:
        """Return this batch's result and the next one's as one."""
        ways = {
            way: Answer([*own.explanations, *other.ways[way].explanations], _sum(own.seconds, other.ways[way].seconds))
            for way, own in self.ways.items()
        }
        return JobResult(ways, _sum(self.seconds, other.seconds), {**self.measured, **other.measured})


def _sum(one: Seconds, other: Seconds) -> Seconds:
    return {name: one.get(name, Elapsed()) + other.get(name, Elapsed()) for name in {**one, **other}}


@cache
def _opened(source: str, device: str) -> Session:
    return open_model(source, device)


def run_from(source: str, job: ExplainJob, batch: Tensor, device: str = "cpu") -> JobResult:
    """Run a job on a model that this process opens once: for a pool of your own."""
    return job.run(_opened(source, device), batch)
