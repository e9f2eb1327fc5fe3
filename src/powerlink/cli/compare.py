"""powerlink compare: explainers side by side on the same queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import torch
import typer
from torch import Tensor

from powerlink.cli.console import (
    DeviceOption,
    SeedOption,
    StoppedError,
    console,
    counting,
    errors,
    progress,
    shown,
)
from powerlink.cli.derived_flags import with_flags
from powerlink.cli.naming import listed, load_models
from powerlink.cli.rank import SplitOption
from powerlink.errors import DataError, ExplainerError, SettingsError, UnknownNameError
from powerlink.explainers.catalog import Recipe
from powerlink.models.subject import Subject
from powerlink.pipeline import ExplainSettings
from powerlink.report.compare import render_tables, write_comparison
from powerlink.report.wording import harmless
from powerlink.run.claim import claimed
from powerlink.run.compare import compare_model, find_recipes, makers
from powerlink.run.comparison_folder import CompareSettings, Comparison, Selection
from powerlink.run.queries import Chosen, Which, choose_queries
from powerlink.verify.comparison import ModelComparison

SHARED = ("paths", "min_length", "max_length", "hops", "hub_limit", "core", "candidates")


@with_flags({"Explanation (as in explain)": ExplainSettings}, only=SHARED)
def compare(
    models: Annotated[list[Path], typer.Argument(help="Model folders, all of the same graph.", show_default=False)],
    given: dict[str, Any],
    out: Annotated[Path, typer.Option(help="The folder to make; run again after a kill and it goes on.")],
    explainers: Annotated[
        str | None,
        typer.Option(
            help="Names with commas between; differences are to the first. Default: all that need no fitting."
        ),
    ] = None,
    split: SplitOption = "test",
    which: Annotated[
        Which, typer.Option(help="Facts the model believes (score above 0), ranks first, or all of them.")
    ] = "believed",
    limit: Annotated[
        int | None, typer.Option(help="At most so many of them, from the start of the split.", min=1)
    ] = None,
    max_nodes: Annotated[
        int | None, typer.Option(help="Leave out, and count, queries with a larger computation graph.", min=1)
    ] = None,
    select: Annotated[
        str,
        typer.Option(
            help="How paths are chosen, with commas between. mask: the explainer's own order (the paper); carried: by "
            "what their facts carry together, among its own candidates; largest-drop: by the fall of the score; "
            "pooled: carried, with the candidates of slopes and low-degree added, as in explain."
        ),
    ] = "mask,carried",
    weights: Annotated[
        list[Path] | None, typer.Option(help="Of explainers that are fitted first: files of `powerlink fit`.")
    ] = None,
    fit: Annotated[int | None, typer.Option(help="Fit such explainers here, on so many training facts.", min=1)] = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Compare explainers on the same queries: fidelity, sparsity, HΔR, logit drops, time, and shared paths.

    Writes compare.md, compare.json and compare.html, and keeps all explanations beside them.

    Example: powerlink compare models/atlas --explainers power-link,page-link,gradient --limit 50 --out comparison
    """
    if weights and fit:
        raise SettingsError("give --weights or --fit, not both: either a fit is there, or it is to be made")
    selections = _selections(select)
    names = None if explainers is None else listed("--explainers", explainers)
    recipes = find_recipes(names, can_fit=bool(weights or fit))
    subjects = load_models(models, device)
    settings = CompareSettings(
        split=split, which=which, max_nodes=max_nodes, fit=fit, seed=seed, explain=ExplainSettings(**given)
    )
    chosen = {label: _choose(subject, settings, limit) for label, subject in subjects.items()}
    graph = next(iter(subjects.values())).graph
    with claimed(out, folder=True):
        comparison = Comparison(out, settings, graph.fingerprint)
        try:
            compared = [
                _compare(comparison, label, subject, chosen[label], recipes, selections, weights or [])
                for label, subject in subjects.items()
            ]
        except KeyboardInterrupt:
            raise StoppedError(f"what was explained is safe in {out}; run the same command again to go on") from None
        _tell(compared, out, _made_with(settings, recipes, selections, limit))


def _selections(text: str) -> tuple[Selection, ...]:
    names = listed("--select", text)
    for name in names:
        if name not in get_args(Selection):
            raise UnknownNameError("way to select paths", name, get_args(Selection))
    return tuple(s for s in get_args(Selection) if s in names)


def _choose(subject: Subject, settings: CompareSettings, limit: int | None) -> Chosen:
    facts = _distinct(subject.graph.facts(settings.split))
    if not len(facts):
        raise DataError(f"the models' graph has no {settings.split} facts to explain")
    hops, most = settings.explain.hops, settings.max_nodes
    with counting("choosing queries", len(facts)) as told:
        chosen = choose_queries(subject, facts, settings.which, limit=limit, max_nodes=most, hops=hops, told=told)
    if not len(chosen.queries):
        small = " whose computation graph is small enough" if chosen.too_large else ""
        raise DataError(
            f"{subject.name} has no {settings.split} fact of the kind --which {settings.which}{small}: "
            "nothing can be compared"
        )
    return chosen


def _distinct(facts: np.ndarray) -> Tensor:
    """Drop repeated facts, keeping the order."""
    return torch.tensor(list(dict.fromkeys(map(tuple, facts.tolist()))), dtype=torch.long).reshape(-1, 3)


def _compare(
    comparison: Comparison,
    label: str,
    subject: Subject,
    chosen: Chosen,
    recipes: Sequence[Recipe],
    selections: tuple[Selection, ...],
    weights: Sequence[Path],
) -> ModelComparison:
    """Compare the explainers of one model behind a progress bar."""
    with progress() as bar:
        task = bar.add_task(harmless(label), total=len(recipes) * len(chosen.queries))

        def told(explainer: str, more: int) -> None:
            bar.update(task, advance=more, description=f"{harmless(label)}: {harmless(explainer)}")

        explainers = makers(comparison, subject, recipes, weights)
        compared = compare_model(comparison, subject, chosen, explainers, selections, label=label, told=told)
    for sentence in compared.refused.values():
        errors.print(f"left out: {harmless(sentence)}", soft_wrap=True)
    return compared


def _made_with(
    settings: CompareSettings, recipes: Sequence[Recipe], selections: Sequence[str], limit: int | None
) -> dict[str, Any]:
    common = {name: getattr(settings, name) for name in ("split", "which", "max_nodes", "fit", "seed")}
    theirs = {name: getattr(settings.explain, name) for name in SHARED}
    named = {"explainers": ", ".join(r.name for r in recipes), "select": ", ".join(selections), "limit": limit}
    return named | common | theirs


def _tell(compared: Sequence[ModelComparison], out: Path, made_with: dict[str, Any]) -> None:
    """Print the tables and write the files; that an explainer was left out is no success."""
    if not any(model.explainers for model in compared):
        raise ExplainerError("no explainer could take part: there is nothing to compare")
    write_comparison(compared, out, made_with)
    for model in compared:
        console.print(render_tables(model))
        console.print()
    console.print(f"compare.md, compare.json and compare.html in {shown(out)}", soft_wrap=True)
    if any(model.refused for model in compared):
        raise typer.Exit(1)
