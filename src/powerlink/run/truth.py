"""Ways of explaining held against known reasons; with a folder it goes on after a kill.

DIR/MODEL/EXPLAINER.SELECTION.jsonl           explanations, as `explain --out` writes them
DIR/MODEL/EXPLAINER.SELECTION.measured.json   what was measured on the way, query by query
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast, get_args
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from powerlink.errors import DataError, SettingsError, UnknownNameError
from powerlink.explain_settings import DEPTH as DEPTH  # noqa: PLC0414 - where it is looked for
from powerlink.explainers.catalog import find_recipe
from powerlink.explainers.protocol import AnyExplainer, Fitted
from powerlink.explanation import Explanation, Query
from powerlink.kg.explained_links import KnownReasons, Triple
from powerlink.kg.planted import Planted, true_reasons
from powerlink.models.rule_model import RuleModel
from powerlink.models.session import Session
from powerlink.narrate import name_query
from powerlink.pipeline import DEFAULT_EXPLAINER, ExplainSettings
from powerlink.run.claim import claimed
from powerlink.run.compare import with_weights
from powerlink.run.executor import Executor
from powerlink.run.explain_many import run_batches
from powerlink.run.job import ONLY
from powerlink.run.ledger import Ledger
from powerlink.run.progress import Told, adding_up, nobody
from powerlink.run.watched import Measured, WatchedJob
from powerlink.verify.choice import Select
from powerlink.verify.first_right import Held, Match, Reach, TruthTable, first_right, pooled, rows_of
from powerlink.verify.ground_truth import READINGS

FLOORS = ("gradient", "low-degree", "shortest", "random")
TOGETHER = "all models together"


@dataclass(frozen=True)
class Way:
    """An explainer by name, and how paths are chosen."""

    explainer: str
    select: Select

    @property
    def name(self) -> str:
        return f"{self.explainer}, {self.select}"


def find_ways(explainers: Sequence[str] | None = None, selections: Sequence[str] | None = None) -> list[Way]:
    """Return the product of both; by default what `explain` does, its other choice, and each floor's own order."""
    for name in selections or ():
        if name not in get_args(Select):
            raise UnknownNameError("way to select paths", name, get_args(Select))
    if explainers is None and selections is None:
        best = [Way(DEFAULT_EXPLAINER.name, "carried"), Way(DEFAULT_EXPLAINER.name, "largest-drop")]
        return [*best, *(Way(floor, "mask") for floor in FLOORS)]
    names = dict.fromkeys(explainers or (DEFAULT_EXPLAINER.name, *FLOORS))
    chosen = dict.fromkeys(cast(Sequence[Select], selections or (ExplainSettings().select,)))
    return [Way(find_recipe(name).name, select) for name in names for select in chosen]


def make_explainer(way: Way, session: Session, weights: Sequence[Path]) -> AnyExplainer:
    """Make a way's explainer for a model, with the weights that fit it where it needs some."""
    recipe = find_recipe(way.explainer)
    return with_weights(session, recipe, weights) if recipe.fitting else recipe.make()


@dataclass(frozen=True, eq=False)
class Asked:
    """What an explainer said of queries, and what was measured on the way."""

    explanations: list[Explanation]
    seconds: float  # a query
    auc: dict[str, NDArray[np.float64]]  # reading → (Q,); empty where not all that explains is known


@dataclass(frozen=True, eq=False)
class Task:
    """A model, the queries asked of it, and what is known of them."""

    session: Session
    known: KnownReasons
    queries: Tensor  # (Q, 3)
    label: str

    @classmethod
    def of(cls, session: Session, known: KnownReasons, queries: Tensor | None = None, label: str = "") -> Task:
        """Ask all queries of which something is known, or some of them."""
        queries = known.queries if queries is None else queries
        for head, relation, tail in queries.tolist():
            if (head, relation, tail) not in known.of:
                raise DataError(
                    f"{known.name} does not say what explains {(head, relation, tail)}; expected queries with reasons"
                )
        return cls(session, known, queries, label or session.name)

    @classmethod
    def planted(cls, planted: Planted) -> Task:
        """Ask the model that chains a planted graph's rules for the facts they were planted for."""
        graph = planted.graph
        model = RuleModel(planted.rules, graph.num_entities, graph.num_relations)
        session = Session.of(graph, model, name=f"rules-{graph.name}", hash=graph.fingerprint)
        return cls.of(session, KnownReasons.of_steps(graph.name, graph, true_reasons(planted)))

    @property
    def triples(self) -> list[Triple]:
        return [(head, relation, tail) for head, relation, tail in self.queries.tolist()]

    def within_reach(self, longest: int, match: Match | None = None, shortest: int = 1) -> int | None:
        """Count the queries with any right path of these lengths; None where that is not cheap to tell."""
        reach = Reach(self.session.graph, self.session.messages, longest, shortest)
        found = [reach.holds(query, self.known.of[query], match) for query in self.triples]
        return None if None in found else sum(map(bool, found))

    def ask(
        self,
        explainer: AnyExplainer,
        settings: ExplainSettings,
        *,
        seed: int = 0,
        file: Path | None = None,
        executor: Executor | None = None,
        told: Callable[[int], None] = lambda more: None,
    ) -> Asked:
        """Let an explainer explain the queries; with a file, go on behind those that are in it."""
        if isinstance(explainer, Fitted):
            explainer.check_fit(self.session)
        triples = {name_query(self.session.graph, query): query for query in self.triples}
        job = WatchedJob(explainer=explainer, ways={ONLY: settings}, seed=seed, truth=self.known.steps or {})
        ledger = Ledger(file, job.made_by(self.session)[ONLY]) if file else None
        done: dict[Query, Explanation] = ledger.done if ledger else {}
        there = triples.keys() & done.keys()
        told(len(there))
        measured = Measured(file and file.with_suffix(".measured.json"))
        waiting = file and file.with_suffix(".waiting")
        how: dict[str, Any] = {"done": there, "executor": executor, "waiting": waiting, "told": told}
        for result in run_batches(self.session, self.queries, job, **how):
            batch = [explanation for explanation in result.explanations if explanation.query not in done]
            took = sum(stage.clock for stage in result.seconds.values()) / max(len(result.explanations), 1)
            found = {e.query: {"seconds": took, **result.measured.get(e.query, {})} for e in batch}
            measured.add({triples[query]: numbers for query, numbers in found.items()})
            if ledger:
                ledger.append(batch)  # last: what is in there is done
            else:
                done |= {explanation.query: explanation for explanation in batch}
        seconds = measured.of("seconds", self.triples)
        return Asked(
            [done[name] for name in triples],
            float(seconds[~np.isnan(seconds)].mean()) if np.isfinite(seconds).any() else float("nan"),
            {reading: measured.of(reading, self.triples) for reading in READINGS} if self.known.steps else {},
        )

    def hold(self, way: str, asked: Asked, match: Match | None = None) -> Held:
        """Hold what was said against what is known."""
        places = first_right(asked.explanations, [self.known.of[query] for query in self.triples], match)
        return Held(way, places, asked.seconds, asked.auc)


@dataclass(frozen=True, eq=False)
class Trial:
    """Several ways of explaining held against what is known of one or more models' queries."""

    ways: Sequence[Way]
    settings: ExplainSettings = field(default_factory=lambda: ExplainSettings(paths=DEPTH))
    match: Match | None = None
    seed: int = 0
    weights: Sequence[Path] = ()
    folder: Path | None = None

    def __post_init__(self) -> None:
        unfit = [way.explainer for way in self.ways if find_recipe(way.explainer).fitting]
        if unfit and not self.weights:
            raise SettingsError(
                f"{unfit[0]} must be fitted before it can explain: give the file that `powerlink fit` made by --weights"
            )

    def run(self, tasks: Sequence[Task], told: Told = nobody, executor: Executor | None = None) -> list[TruthTable]:
        """Return a table for each model and, of several, one for all of them together."""
        with claimed(self.folder, folder=True) if self.folder else nullcontext():
            held = [list(self._held(task, told, executor)) for task in tasks]
        reach = [task.within_reach(self.settings.max_length, self.match, self.settings.min_length) for task in tasks]
        each = zip(tasks, held, reach, strict=True)
        tables = [self._table(task.label, [task], found, [within]) for task, found, within in each]
        return [*tables, self._table(TOGETHER, tasks, pooled(held), reach)] if len(tasks) > 1 else tables

    def _held(self, task: Task, told: Told, executor: Executor | None) -> Iterator[Held]:
        for way in self.ways:
            asked = task.ask(
                make_explainer(way, task.session, self.weights),
                replace(self.settings, select=way.select),
                seed=self.seed,
                file=self._file(task.session, way),
                executor=executor,
                told=adding_up(told, f"{task.label}: {way.name}", len(task.queries)),
            )
            yield task.hold(way.name, asked, self.match)

    def _file(self, session: Session, way: Way) -> Path | None:
        home = f"{quote(session.name, safe='')}-{session.hash[:8]}"
        return self.folder and self.folder / home / f"{quote(way.explainer, safe='')}.{way.select}.jsonl"

    def _table(
        self, label: str, tasks: Sequence[Task], held: Sequence[Held], reach: Sequence[int | None]
    ) -> TruthTable:
        asked = [(task, name_query(task.session.graph, query)) for task in tasks for query in task.triples]
        unit: dict[tuple[str, Query], int] = {}
        units = [unit.setdefault((task.session.graph.fingerprint, query), len(unit)) for task, query in asked]
        return TruthTable(
            label,
            [query for _, query in asked],
            sum(found for found in reach if found is not None) if None not in reach else None,
            rows_of(held, self.settings.paths, self.seed, units),
        )
