"""powerlink fit: an explainer that learns once, for all queries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from powerlink.cli.console import (
    DeviceOption,
    ForceOption,
    SeedOption,
    StoppedError,
    console,
    counting,
    errors,
    pick_device,
    progress,
    shown,
)
from powerlink.cli.derived_flags import with_flags
from powerlink.cli.own_settings import SetOption, read_settings
from powerlink.cli.rank import ModelArgument
from powerlink.errors import DataError, SettingsError
from powerlink.explainers.catalog import EXPLAINERS, find_recipe
from powerlink.kg.knowledge_graph import Split
from powerlink.models.checkpoint import load_model
from powerlink.pipeline import ExplainSettings
from powerlink.report.wording import counted
from powerlink.run.fitting import fit_explainer, spread_over
from powerlink.run.outputs import check_output, is_fit
from powerlink.run.queries import choose_queries


@with_flags({"Computation graph (as in explain)": ExplainSettings}, only=("max_length", "hops", "hub_limit", "core"))
def fit(
    model: ModelArgument,
    given: dict[str, Any],
    out: Annotated[Path, typer.Option(help="The file to make, for `powerlink explain --weights`.")],
    explainer: Annotated[str, typer.Option(help="Which one to fit.")] = "pg-explainer",
    split: Annotated[Split, typer.Option(help="Fit on the facts of this split, each without itself.")] = "train",
    limit: Annotated[int, typer.Option(help="Fit on at most so many, taken evenly from the split.", min=1)] = 200,
    only_predicted: Annotated[
        bool, typer.Option("--only-predicted", help="Only triples the model predicts: score above 0, or rank 1.")
    ] = False,
    own: SetOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    force: ForceOption = False,
) -> None:
    """Fit an explainer on many queries of a model, once, so that it explains others in one pass.

    Example: powerlink fit models/atlas --explainer pg-explainer --limit 200 --out pg.safetensors

    Then:  powerlink explain models/atlas --split test --explainer pg-explainer --weights pg.safetensors
    """
    recipe = find_recipe(explainer)
    if recipe.fitting is None:
        able = " or ".join(name for name, other in EXPLAINERS.items() if other.fitting)
        raise SettingsError(f"{explainer} needs no fitting: explain with it at once (what is fitted is {able})")
    fitting = recipe.fitting(**read_settings(f"the fit of {explainer}", recipe.fitting, own or []))
    check_output(out, is_fit, inputs=(model,), force=force)
    subject = load_model(model, pick_device(device))
    facts = torch.from_numpy(np.array(subject.graph.facts(split)))
    if not len(facts):
        raise DataError(f"the model's graph has no {split} facts to fit on")
    if only_predicted:  # in an order of chance, so that the first that are believed come from everywhere
        order = torch.randperm(len(facts), generator=torch.Generator().manual_seed(seed))
        with counting("asking the model", len(facts)) as asked:
            queries = choose_queries(subject, facts[order], "predicted", limit=limit, told=asked).queries
    else:
        queries = spread_over(facts, limit)
    if not len(queries):
        raise DataError(f"the model predicts none of the {split} facts: fit without --only-predicted")
    losses: list[float] = []
    try:
        with progress("loss {task.fields[loss]}") as bar:
            task = bar.add_task(f"fitting {explainer}", total=fitting.epochs, loss="…")

            def told(loss: float) -> None:
                losses.append(loss)
                bar.update(task, completed=len(losses), loss=f"{loss:.4f}")

            settings = ExplainSettings(**given)
            fit_explainer(
                subject, queries, out, kind=recipe.kind, fitting=fitting, settings=settings, seed=seed, told=told
            )
    except KeyboardInterrupt:
        raise StoppedError("nothing was written: a fit is saved when it is done") from None
    if losses:
        console.print(f"fitted on {counted(len(queries), 'fact')}: loss {losses[0]:.4f} → {losses[-1]:.4f}")
    else:
        errors.print("without an epoch nothing was learned", style="dim")
    console.print(f"weights saved in {shown(out)}", soft_wrap=True)
