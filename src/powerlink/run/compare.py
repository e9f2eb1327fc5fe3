"""Comparing explainers on the same queries of a model: who takes part, the loop, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from powerlink.errors import DataError, ExplainerError, MismatchError, OutputError, PowerlinkError, SettingsError
from powerlink.explainers.catalog import EXPLAINERS, Recipe, find_recipe, registered_elsewhere
from powerlink.explainers.protocol import AnyExplainer, Fitted
from powerlink.explanation import Explanation
from powerlink.memory import ran_out_of_memory
from powerlink.models.session import Session, put_back_on_error
from powerlink.report.compare import write_comparison
from powerlink.run.claim import claimed
from powerlink.run.comparison_folder import SHARED, CompareSettings, Comparison, Selection
from powerlink.run.executor import Executor
from powerlink.run.progress import Told, adding_up, nobody
from powerlink.run.queries import Chosen, choose_queries, distinct
from powerlink.verify.comparison import ByExplainer, ModelComparison, Pace, compare_figures, compare_paths

EXAMPLES = 4
Maker = Callable[[], AnyExplainer]  # called when it is the explainer's turn, since one may refuse
_DOUBTED = {"believed": "not believed", "first": "not ranked first", "predicted": "not predicted", "all": ""}


def find_recipes(names: Sequence[str] | None, *, can_fit: bool) -> list[Recipe]:
    """Return the explainers to compare; by default all there are, those that must be fitted only where they can be."""
    if names is not None:
        recipes = [find_recipe(name) for name in dict.fromkeys(names)]
        for recipe in recipes:
            if recipe.fitting and not can_fit:
                raise SettingsError(
                    f"{recipe.name} must be fitted before it can explain: give its file by --weights, "
                    "or let it be fitted on N training facts by --fit N"
                )
        return recipes
    found = list(EXPLAINERS.values())
    for name in registered_elsewhere():
        try:
            found.append(find_recipe(name))
        except ExplainerError:  # nobody asked for it; `powerlink explainers` says what is wrong with it
            continue
    return [recipe for recipe in found if can_fit or not recipe.fitting]


def makers(
    comparison: Comparison, session: Session, recipes: Iterable[Recipe], weights: Sequence[Path] = ()
) -> dict[str, Maker]:
    """Return how each explainer is made for a model: fitted, with the weights that fit the model, or as it is."""
    made: dict[str, Maker] = {}
    for recipe in recipes:
        if not recipe.fitting:
            made[recipe.name] = recipe.make
        elif weights:
            made[recipe.name] = partial(with_weights, session, recipe, weights)
        else:
            made[recipe.name] = partial(comparison.fitted, session, recipe)
    return made


def with_weights(session: Session, recipe: Recipe, weights: Sequence[Path]) -> AnyExplainer:
    """Make a fitted explainer with those of several files' weights that fit the model."""
    refusals = []
    for path in weights:
        explainer = recipe.make({"weights": str(path)})
        assert isinstance(explainer, Fitted)
        try:
            explainer.check_fit(session)
        except MismatchError as error:
            refusals.append(error)
            continue
        return explainer
    raise refusals[0]


def compare(
    sessions: Mapping[str, Session],
    out: str | Path,
    *,
    explainers: Sequence[str] | None = None,
    selections: Sequence[Selection] = ("mask", "carried"),
    settings: CompareSettings | None = None,
    limit: int | None = None,
    weights: Sequence[Path] = (),
    executor: Executor | None = None,
    told: Told = nobody,
) -> list[ModelComparison]:
    """Compare explainers on the same queries of models of one graph, by label; a folder keeps all, and a rerun goes on.

    Writes compare.md, compare.json and compare.html. `explainers` are names, by default all that need no fitting;
    `weights` are files of those that were fitted, else they are fitted here on `settings.fit` facts.
    """
    settings, out = settings or CompareSettings(), Path(out)
    if weights and settings.fit:
        raise SettingsError("give --weights or --fit, not both: either a fit is there, or it is to be made")
    recipes = find_recipes(explainers, can_fit=bool(weights or settings.fit))
    if explainers is None and not any(session.reads_facts for session in sessions.values()):
        recipes = [recipe for recipe in recipes if "messages" not in recipe.needs]  # there are none to weigh
    chosen = {label: choose_facts(session, settings, limit, told) for label, session in sessions.items()}
    with claimed(out, folder=True):
        comparison = Comparison(out, settings, next(iter(sessions.values())).graph.fingerprint)
        compared = [
            compare_model(
                comparison,
                session,
                chosen[label],
                makers(comparison, session, recipes, weights),
                tuple(selections),
                label=label,
                executor=executor,
                told=told,
            )
            for label, session in sessions.items()
        ]
        if not any(model.explainers for model in compared):
            raise ExplainerError("no explainer could take part: there is nothing to compare")
        write_comparison(compared, out, _made_with(settings, recipes, selections, limit))
    return compared


def choose_facts(session: Session, settings: CompareSettings, limit: int | None, told: Told = nobody) -> Chosen:
    """Choose the queries of a comparison among a split's facts."""
    facts = distinct(torch.from_numpy(np.array(session.graph.facts(settings.split))))
    if not len(facts):
        raise DataError(f"the models' graph has no {settings.split} facts to explain")
    chosen = choose_queries(
        session,
        facts,
        settings.which,
        limit=limit,
        max_nodes=settings.max_nodes,
        hops=settings.explain.hops,
        told=adding_up(told, "choosing queries", len(facts)),
    )
    if not len(chosen.queries):
        small = " whose computation graph is small enough" if chosen.too_large else ""
        raise DataError(
            f"{session.name} has no {settings.split} fact of the kind --which {settings.which}{small}: "
            "nothing can be compared"
        )
    return chosen


def _made_with(
    settings: CompareSettings, recipes: Sequence[Recipe], selections: Sequence[str], limit: int | None
) -> dict[str, Any]:
    common = {name: getattr(settings, name) for name in ("split", "which", "max_nodes", "fit", "seed")}
    theirs = {name: getattr(settings.explain, name) for name in SHARED}
    named = {"explainers": ", ".join(r.name for r in recipes), "select": ", ".join(selections), "limit": limit}
    return named | common | theirs


def compare_model(
    comparison: Comparison,
    session: Session,
    chosen: Chosen,
    explainers: Mapping[str, Maker],
    selections: tuple[Selection, ...] = ("mask", "carried"),
    *,
    label: str = "",
    executor: Executor | None = None,
    told: Told = nobody,
) -> ModelComparison:
    """Let every explainer explain the same queries, or go on where it was; one that cannot is named, not waited for."""
    found: dict[Selection, dict[str, list[Explanation]]] = {select: {} for select in selections}
    paces: dict[str, Pace] = {}
    refused: dict[str, str] = {}
    for name, make in explainers.items():
        more = adding_up(told, f"{label or session.name}: {name}", len(chosen.queries))
        more(0)
        try:
            explainer = make()
        except OutputError:
            raise
        except PowerlinkError as error:
            refused[name] = str(error)
            continue
        run = comparison.of(session, explainer, selections)
        try:
            with put_back_on_error(session.settled):  # one that is refused may have changed what the others will ask
                run.run(chosen.queries, executor, more)
        except ExplainerError as error:
            refused[name] = str(error)
            continue
        except Exception as error:  # a stranger's explainer must not stop the others
            if isinstance(error, PowerlinkError) or ran_out_of_memory(error):
                raise
            refused[name] = f"the explainer {name} broke off: {type(error).__name__}: {error}"
            continue
        paces[name] = run.pace()
        for select, explanations in run.found(chosen.queries).items():
            found[select][name] = explanations
    seed = comparison.settings.seed
    return ModelComparison(
        label or session.name,
        session.name,
        session.hash,
        session.graph.name,
        len(chosen.queries),
        _left_out(comparison, chosen),
        {select: compare_figures(of, seed) for select, of in found.items()},
        {select: compare_paths(of) for select, of in found.items()},
        paces,
        refused,
        _examples(next(iter(found.values()))),
    )


def _left_out(comparison: Comparison, chosen: Chosen) -> dict[str, int]:
    doubted = _DOUBTED[comparison.settings.which]
    counts = {doubted: chosen.not_wanted} if doubted else {}
    if comparison.settings.max_nodes is not None:
        counts[f"more than {comparison.settings.max_nodes:,} nodes"] = chosen.too_large
    return counts


def _examples(found: ByExplainer) -> tuple[Mapping[str, Explanation], ...]:
    """Take the first queries for which most explainers show a path, of different relations where there are such."""
    queries = [dict(zip(found, each, strict=True)) for each in zip(*found.values(), strict=True)]
    most = max((sum(bool(e.evidence) for e in query.values()) for query in queries), default=0)
    full = [query for query in queries if most and sum(bool(e.evidence) for e in query.values()) == most]
    seen: set[str] = set()
    fresh: list[Mapping[str, Explanation]] = []
    again: list[Mapping[str, Explanation]] = []
    for query in full:
        relation = next(iter(query.values())).query.relation
        (again if relation in seen else fresh).append(query)
        seen.add(relation)
    return tuple([*fresh, *again][:EXAMPLES])
