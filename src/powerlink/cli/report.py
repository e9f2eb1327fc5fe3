"""powerlink report: explanations as a page people would rather look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from powerlink.cli.console import console, shown
from powerlink.cli.evaluate import read_of_model
from powerlink.cli.naming import check_there
from powerlink.cli.options import ForceOption, ModelArgument
from powerlink.models.description import read_description
from powerlink.report.wording import counted


def report(
    model: ModelArgument,
    explanations: Annotated[
        Path | None, typer.Argument(help="JSON Lines written by explain --out; without it, draw the learning curve.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The HTML page to write.")] = Path("report.html"),
    force: ForceOption = False,
) -> None:
    """Write one self-contained HTML page: cards, drawings, scores with and without, settings.

    It needs no network. Without explanations, draw the learning curve of the model's training into its folder.

    Example: powerlink report models/atlas explanations.jsonl --out report.html

    Example: powerlink report models/atlas
    """
    if explanations is None:
        read_description(Path(model))  # says so if it is no model folder
        from powerlink.report.learning_curve import write_learning_curve

        console.print(f"learning curve in {shown(write_learning_curve(Path(model)))}", soft_wrap=True)
        return
    check_there(model)
    from powerlink.report.show import format_of
    from powerlink.run.outputs import check_output

    form = format_of(out)
    check_output(out, form.is_ours, inputs=(explanations, Path(model)), force=force)
    found, asked = read_of_model(model, explanations)
    form.write(found, out, f"{asked.name} on {asked.graph}")
    console.print(f"{counted(len(found), 'explanation')} in {shown(out)}", soft_wrap=True)
