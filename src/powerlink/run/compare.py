"""Comparing explainers on the same queries of a model: who takes part, the loop, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from powerlink.errors import ExplainerError, MismatchError, OutputError, PowerlinkError, SettingsError
from powerlink.explainers.catalog import EXPLAINERS, Recipe, find_recipe, registered_elsewhere
from powerlink.explainers.protocol import Explainer, Fitted
from powerlink.explanation import Explanation
from powerlink.memory import ran_out_of_memory
from powerlink.models.subject import Subject, put_back_on_error
from powerlink.run.comparison_folder import Comparison, Selection
from powerlink.run.queries import Chosen
from powerlink.verify.comparison import Found, ModelComparison, Pace, compare_figures, compare_paths

EXAMPLES = 4
Maker = Callable[[], Explainer]  # called when it is the explainer's turn, since one may refuse
Told = Callable[[str, int], None]  # hears an explainer's name, and how many more of its queries are done


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
    comparison: Comparison, subject: Subject, recipes: Iterable[Recipe], weights: Sequence[Path] = ()
) -> dict[str, Maker]:
    """Return how each explainer is made for a model: fitted, with the weights that fit the model, or as it is."""
    made: dict[str, Maker] = {}
    for recipe in recipes:
        if not recipe.fitting:
            made[recipe.name] = recipe.make
        elif weights:
            made[recipe.name] = partial(with_weights, subject, recipe, weights)
        else:
            made[recipe.name] = partial(comparison.fitted, subject, recipe)
    return made


def with_weights(subject: Subject, recipe: Recipe, weights: Sequence[Path]) -> Explainer:
    """Make a fitted explainer with those of several files' weights that fit the model."""
    refusals = []
    for path in weights:
        explainer = recipe.make({"weights": str(path)})
        assert isinstance(explainer, Fitted)
        try:
            explainer.check_fit(subject)
        except MismatchError as error:
            refusals.append(error)
            continue
        return explainer
    raise refusals[0]


def compare_model(
    comparison: Comparison,
    subject: Subject,
    chosen: Chosen,
    explainers: Mapping[str, Maker],
    selections: tuple[Selection, ...] = ("mask", "carried"),
    *,
    label: str = "",
    told: Told = lambda explainer, more: None,
) -> ModelComparison:
    """Let every explainer explain the same queries, or go on where it was; one that cannot is named, not waited for."""
    found: dict[Selection, dict[str, list[Explanation]]] = {select: {} for select in selections}
    paces: dict[str, Pace] = {}
    refused: dict[str, str] = {}
    for name, make in explainers.items():
        told(name, 0)
        try:
            explainer = make()
        except OutputError:
            raise
        except PowerlinkError as error:
            refused[name] = str(error)
            continue
        run = comparison.of(subject, explainer, selections)
        told(name, len(run.done(chosen.queries)))
        try:
            with put_back_on_error(subject.settled):  # one that is refused may have changed what the others will ask
                for more in run.run(chosen.queries):
                    told(name, more)
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
        label or subject.name,
        subject.name,
        subject.hash,
        subject.graph.name,
        len(chosen.queries),
        _left_out(comparison, chosen),
        {select: compare_figures(of, seed) for select, of in found.items()},
        {select: compare_paths(of) for select, of in found.items()},
        paces,
        refused,
        _examples(next(iter(found.values()))),
    )


def _left_out(comparison: Comparison, chosen: Chosen) -> dict[str, int]:
    doubted = {"believed": "not believed", "first": "not ranked first", "predicted": "not predicted", "all": ""}[
        comparison.settings.which
    ]
    counts = {doubted: chosen.not_wanted} if doubted else {}
    if comparison.settings.max_nodes is not None:
        counts[f"more than {comparison.settings.max_nodes:,} nodes"] = chosen.too_large
    return counts


def _examples(found: Found) -> tuple[Mapping[str, Explanation], ...]:
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
