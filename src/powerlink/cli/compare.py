"""powerlink compare: explainers side by side on the same queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import typer

from powerlink.cli.console import console, errors, kept_in, pick_device, shown, telling
from powerlink.cli.derived_flags import taken, with_flags
from powerlink.cli.naming import listed, open_models
from powerlink.cli.options import (
    AllWeightsOption,
    DeviceOption,
    FitOption,
    FolderOption,
    LimitOption,
    MaxNodesOption,
    ModelsArgument,
    NamesOption,
    SeedOption,
    SelectionsOption,
    SplitOption,
    WhichOption,
)
from powerlink.errors import UnknownNameError
from powerlink.explain_settings import SHARED, ExplainSettings, Selection
from powerlink.report.wording import harmless
from powerlink.run.workforce import Workforce
from powerlink.settings import settings_of

if TYPE_CHECKING:
    from powerlink.verify.comparison import ModelComparison


@with_flags(
    {"Explanation (as in explain)": ExplainSettings, "Workers": Workforce}, only=(*SHARED, *settings_of(Workforce))
)
def compare(
    models: ModelsArgument,
    given: dict[str, Any],
    out: FolderOption,
    explainers: NamesOption = None,
    split: SplitOption = "test",
    which: WhichOption = "believed",
    limit: LimitOption = None,
    max_nodes: MaxNodesOption = None,
    select: SelectionsOption = "mask,carried",
    weights: AllWeightsOption = None,
    fit: FitOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Compare explainers on the same queries: fidelity, sparsity, HΔR, logit drops, time, and shared paths.

    Writes compare.md, compare.json and compare.html, and keeps all explanations beside them.

    Example: powerlink compare models/atlas --explainers power-link,page-link,gradient --limit 50 --out comparison
    """
    workforce = taken(given, Workforce)
    names = None if explainers is None else listed("--explainers", explainers)
    selections, sessions = _selections(select), open_models(models, device)
    from powerlink.run.compare import compare as compare_all
    from powerlink.run.comparison_folder import CompareSettings

    settings = CompareSettings(
        split=split, which=which, max_nodes=max_nodes, fit=fit, seed=seed, explain=ExplainSettings(**given)
    )
    how: dict[str, Any] = {"explainers": names, "selections": selections, "limit": limit, "weights": weights or []}
    with kept_in(out), telling() as told, workforce.hire(pick_device(device)) as executor:
        compared = compare_all(sessions, out, settings=settings, executor=executor, told=told, **how)
    _tell(compared, out)


def _selections(text: str) -> tuple[Selection, ...]:
    names = listed("--select", text)
    for name in names:
        if name not in get_args(Selection):
            raise UnknownNameError("way to select paths", name, get_args(Selection))
    return tuple(s for s in get_args(Selection) if s in names)


def _tell(compared: Sequence[ModelComparison], out: Path) -> None:
    """Print the tables; that an explainer was left out is no success."""
    from powerlink.report.compare import render_tables

    for model in compared:
        for sentence in model.refused.values():
            errors.print(f"left out: {harmless(sentence)}", soft_wrap=True)
        console.print(render_tables(model))
        console.print()
    console.print(f"compare.md, compare.json and compare.html in {shown(out)}", soft_wrap=True)
    if any(model.refused for model in compared):
        raise typer.Exit(1)
