"""powerlink fit: an explainer that learns once, for all queries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powerlink.cli.console import StoppedError, console, counting, errors, progress, shown
from powerlink.cli.derived_flags import with_flags
from powerlink.cli.naming import check_there, opened
from powerlink.cli.options import DeviceOption, ForceOption, ModelArgument, OnlyPredictedOption, SeedOption
from powerlink.cli.own_settings import SetOption, read_settings
from powerlink.errors import DataError, SettingsError
from powerlink.explain_settings import ExplainSettings, Split
from powerlink.report.wording import counted

if TYPE_CHECKING:
    from torch import Tensor

    from powerlink.explainers.protocol import Fitting
    from powerlink.models.session import Session


@with_flags({"Computation graph (as in explain)": ExplainSettings}, only=("max_length", "hops", "hub_limit", "core"))
def fit(
    model: ModelArgument,
    given: dict[str, Any],
    out: Annotated[Path, typer.Option(help="The file to make, for `powerlink explain --weights`.")],
    explainer: Annotated[str, typer.Option(help="Which one to fit.")] = "pg-explainer",
    split: Annotated[Split, typer.Option(help="Fit on the facts of this split, each without itself.")] = "train",
    limit: Annotated[int, typer.Option(help="Fit on at most so many, taken evenly from the split.", min=1)] = 200,
    only_predicted: OnlyPredictedOption = False,
    own: SetOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    force: ForceOption = False,
) -> None:
    """Fit an explainer on many queries of a model, once, so that it explains others in one pass.

    Example: powerlink fit models/atlas --explainer pg-explainer --limit 200 --out pg.safetensors

    Then:  powerlink explain models/atlas --split test --explainer pg-explainer --weights pg.safetensors
    """
    check_there(model)
    from powerlink.explainers.catalog import EXPLAINERS, find_recipe
    from powerlink.run.outputs import check_output, is_fit

    recipe = find_recipe(explainer)
    if recipe.fitting is None:
        able = " or ".join(name for name, other in EXPLAINERS.items() if other.fitting)
        raise SettingsError(f"{explainer} needs no fitting: explain with it at once (what is fitted is {able})")
    fitting = recipe.fitting(**read_settings(f"the fit of {explainer}", recipe.fitting, own or []))
    check_output(out, is_fit, inputs=(Path(model),), force=force)
    session = opened(model, device)
    queries = _queries(session, split, limit, only_predicted, seed)
    losses = _fit(session, queries, out, recipe.kind, fitting, ExplainSettings(**given), seed)
    if losses:
        console.print(f"fitted on {counted(len(queries), 'fact')}: loss {losses[0]:.4f} → {losses[-1]:.4f}")
    else:
        errors.print("without an epoch nothing was learned", style="dim")
    console.print(f"weights saved in {shown(out)}", soft_wrap=True)


def _queries(session: Session, split: Split, limit: int, only_predicted: bool, seed: int) -> Tensor:
    """Choose the facts to fit on."""
    import numpy as np
    import torch

    from powerlink.run.fitting import spread_over
    from powerlink.run.queries import choose_queries

    facts = torch.from_numpy(np.array(session.graph.facts(split)))
    if not len(facts):
        raise DataError(f"the model's graph has no {split} facts to fit on")
    if not only_predicted:
        return spread_over(facts, limit)
    # in an order of chance, so that the first that are predicted come from everywhere
    order = torch.randperm(len(facts), generator=torch.Generator().manual_seed(seed))
    with counting("asking the model", len(facts)) as asked:
        queries = choose_queries(session, facts[order], "predicted", limit=limit, told=asked).queries
    if not len(queries):
        raise DataError(f"the model predicts none of the {split} facts: fit without --only-predicted")
    return queries


def _fit(
    session: Session,
    queries: Tensor,
    out: Path,
    kind: type[Any],
    fitting: Fitting,
    settings: ExplainSettings,
    seed: int,
) -> list[float]:
    """Fit behind a progress bar; return every epoch's loss."""
    from powerlink.run.fitting import fit_explainer

    losses: list[float] = []
    try:
        with progress("loss {task.fields[loss]}") as bar:
            task = bar.add_task(f"fitting {kind.name}", total=fitting.epochs, loss="…")

            def told(loss: float) -> None:
                losses.append(loss)
                bar.update(task, completed=len(losses), loss=f"{loss:.4f}")

            fit_explainer(session, queries, out, kind=kind, fitting=fitting, settings=settings, seed=seed, told=told)
    except KeyboardInterrupt:
        raise StoppedError("nothing was written: a fit is saved when it is done") from None
    return losses
