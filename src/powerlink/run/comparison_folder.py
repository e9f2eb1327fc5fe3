"""The folder of a comparison of explainers; it goes on after a kill.

DIR/settings.json                       what the comparison was begun with
DIR/MODEL/EXPLAINER.SELECTION.jsonl     explanations, as `explain --out` writes them
DIR/MODEL/EXPLAINER.seconds.json        what every batch took
DIR/MODEL/EXPLAINER.safetensors         what was fitted for the comparison
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
from torch import Tensor

from powerlink.atomic_file import write_atomically
from powerlink.errors import DataError, MismatchError, OutputError
from powerlink.explain_settings import SHARED as SHARED  # noqa: PLC0414 - where it is looked for
from powerlink.explain_settings import Metrics
from powerlink.explain_settings import Selection as Selection  # noqa: PLC0414 - where it is looked for
from powerlink.explainers.catalog import Recipe
from powerlink.explainers.protocol import AnyExplainer, Fitted
from powerlink.explanation import Explanation, Query
from powerlink.kg.knowledge_graph import Split
from powerlink.models.session import Session
from powerlink.narrate import name_query
from powerlink.pipeline import ExplainSettings
from powerlink.run.executor import Executor
from powerlink.run.explain_many import run_batches
from powerlink.run.fitting import fit_explainer, spread_over
from powerlink.run.job import ExplainJob, JobResult
from powerlink.run.ledger import Ledger, difference
from powerlink.run.queries import Which
from powerlink.stage_clock import Elapsed
from powerlink.verify.comparison import Pace

# How paths are chosen: the explainer's own order (the paper), by what they carry together or by the largest drop among
# its own candidates, or as `explain` does.
SELECTIONS: dict[Selection, dict[str, Any]] = {
    "mask": {"select": "mask", "also_consider": "none"},
    "carried": {"select": "carried", "also_consider": "none"},
    "largest-drop": {"select": "largest-drop", "also_consider": "none"},
    "pooled": {"select": "carried", "also_consider": "cheap"},
}


@dataclass(frozen=True, kw_only=True)
class CompareSettings:
    """What all explainers of a comparison share."""

    split: Split = "test"
    which: Which = "believed"
    max_nodes: int | None = None
    fit: int | None = None
    seed: int = 0
    explain: ExplainSettings = field(default_factory=ExplainSettings)


class Comparison:
    """A folder in which explainers are compared; another comparison is refused there."""

    def __init__(self, folder: Path, settings: CompareSettings, graph: str) -> None:
        self.folder, self.settings = folder, settings
        begun = asdict(settings) | {"graph": graph}
        begun |= begun.pop("explain")
        for chosen_per_ledger in (*SELECTIONS["mask"], "metrics"):
            del begun[chosen_per_ledger]
        path = folder / "settings.json"
        if path.exists():
            _check_same(path, begun)
        else:
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise OutputError(f"{folder} is there and holds no comparison: choose another --out")
            write_atomically(path, (json.dumps(begun, indent=1) + "\n").encode())

    def of(self, session: Session, explainer: AnyExplainer, selections: tuple[Selection, ...]) -> ExplainerRun:
        """Open, or begin, what one explainer says of one model."""
        return ExplainerRun(self.home(session), session, explainer, selections, self.settings)

    def home(self, session: Session) -> Path:
        """Return the folder of a model, the same however the model is called."""
        return self.folder / f"{quote(session.name, safe='')}-{session.hash[:8]}"

    def fitted(
        self, session: Session, recipe: Recipe, told: Callable[[float], None] = lambda loss: None
    ) -> AnyExplainer:
        """Fit an explainer on training facts, or take the fit that an earlier run made."""
        path = self.home(session) / f"{quote(recipe.name, safe='')}.safetensors"
        if path.exists():
            return recipe.make({"weights": str(path)})
        facts = spread_over(torch.from_numpy(np.array(session.graph.train)), self.settings.fit)
        how = self.settings
        return fit_explainer(session, facts, path, kind=recipe.kind, settings=how.explain, seed=how.seed, told=told)


def _check_same(path: Path, begun: Mapping[str, Any]) -> None:
    try:
        there = json.loads(path.read_text("utf-8"))
        assert isinstance(there, dict)
    except (OSError, ValueError, AssertionError):
        raise DataError(f"{path} is damaged: choose another --out, or delete the folder to start anew") from None
    for name in begun:
        if there.get(name) != begun[name]:
            raise MismatchError(
                f"{path.parent} holds a comparison with another {difference(name, there.get(name), begun[name])}: "
                "choose another --out, or delete it to start anew"
            )


class ExplainerRun:
    """One explainer on one model: a ledger for each way of choosing paths, and what every batch took."""

    def __init__(
        self,
        home: Path,
        session: Session,
        explainer: AnyExplainer,
        selections: tuple[Selection, ...],
        settings: CompareSettings,
    ) -> None:
        if isinstance(explainer, Fitted):
            explainer.check_fit(session)
        metrics: Metrics = "paper" if session.reads_facts else "removal"  # the paper's weigh messages
        ways: dict[str, ExplainSettings] = {
            select: replace(settings.explain, metrics=metrics, **SELECTIONS[select]) for select in selections
        }
        self._session, self._job = session, ExplainJob(explainer=explainer, ways=ways, seed=settings.seed)
        stem = quote(explainer.name, safe="")
        made_by = self._job.made_by(session)
        self._ledgers = {select: Ledger(home / f"{stem}.{select}.jsonl", made_by[select]) for select in selections}
        self._seconds = _SecondsFile(home / f"{stem}.seconds.json")
        self._waiting = home / f"{stem}.waiting"

    def done(self, queries: Tensor) -> set[Query]:
        """Return the queries (Q, 3) that are explained in every way."""
        names = [name_query(self._session.graph, query) for query in queries.tolist()]
        return {name for name in names if all(name in ledger.done for ledger in self._ledgers.values())}

    def run(
        self, queries: Tensor, executor: Executor | None = None, told: Callable[[int], None] = lambda more: None
    ) -> None:
        """Explain what is not done yet; `told` hears, once they are on the disk, how many more are."""
        done = self.done(queries)
        told(len(done))
        how: dict[str, Any] = {"done": done, "executor": executor, "waiting": self._waiting, "told": told}
        for result in run_batches(self._session, queries, self._job, **how):
            explained = result.explanations
            edges = sum(explanation.size.edges for explanation in explained if explanation.size)
            self._seconds.add(explained[0].query, len(explained), edges, _split(result))
            for select, ledger in self._ledgers.items():
                answer = result.ways[select]
                ledger.append([e for e in answer.explanations if e.query not in ledger.done])

    def found(self, queries: Tensor) -> dict[Selection, list[Explanation]]:
        """Return the explanations of queries (Q, 3), in their order."""
        names = [name_query(self._session.graph, query) for query in queries.tolist()]
        return {select: [ledger.done[name] for name in names] for select, ledger in self._ledgers.items()}

    def pace(self) -> Pace:
        """Return what a query took."""
        return self._seconds.pace(tuple(self._ledgers))


def _split(result: JobResult) -> dict[str, Elapsed]:
    """Tell what each way took, scoring included, and scoring alone."""
    took = {select: sum(answer.seconds.values(), Elapsed()) for select, answer in result.ways.items()}
    own = ("score edges", "propose")  # what an explainer does, and a proposer
    scored = [answer.seconds[name] for answer in result.ways.values() for name in own if name in answer.seconds]
    return took | {"scoring": scored[0] if scored else Elapsed()}


class _SecondsFile:
    """What every batch took, by its first query; rewritten as a whole, so that it is never half."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._batches: dict[str, Any] = {}
        if path.is_file():
            try:
                self._batches = dict(json.loads(path.read_text("utf-8")))
            except (OSError, ValueError, TypeError):
                raise DataError(f"{path} is damaged: delete the folder of the comparison to start anew") from None

    def add(self, first: Query, queries: int, edges: int, took: Mapping[str, Elapsed]) -> None:
        key, seconds = json.dumps(asdict(first)), {what: asdict(time) for what, time in took.items()}
        before = self._batches.get(key, {})
        if before.get("queries") == queries:  # the same batch once more, with paths chosen in another way
            seconds |= before["seconds"]
        self._batches[key] = {"queries": queries, "edges": edges, "seconds": seconds}
        write_atomically(self._path, (json.dumps(self._batches, indent=1) + "\n").encode())

    def pace(self, selections: tuple[str, ...]) -> Pace:
        def mean(of: str, clock: str) -> float:
            """Average over the batches that were timed for this; a selection may have been added later."""
            timed = [b for b in self._batches.values() if of in b["seconds"]]
            queries = sum(b["queries"] for b in timed)
            return sum(b["seconds"][of][clock] for b in timed) / queries if queries else float("nan")

        return Pace(
            mean("scoring", "clock"),
            {select: mean(select, "clock") for select in selections},
            mean("scoring", "cpu"),
            {select: mean(select, "cpu") for select in selections},
            [
                (b["edges"] / b["queries"], b["seconds"]["scoring"]["clock"] / b["queries"])
                for b in self._batches.values()
            ],
        )
