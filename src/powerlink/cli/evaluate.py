"""powerlink evaluate: how good are these explanations?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from powerlink.cli.console import console, errors, print_json, telling
from powerlink.cli.naming import check_there, opened
from powerlink.cli.options import DeviceOption, FileArgument, JsonOption, ModelArgument, SeedOption
from powerlink.errors import DataError, MismatchError
from powerlink.report.wording import harmless

if TYPE_CHECKING:
    from powerlink.explanation import Explanation
    from powerlink.sources import Identity
    from powerlink.verify.metrics import Figure

TITLES = {
    "powerlink": "Facts removed, ranks among all entities, filtered (what to believe)",
    "paper": "The paper's protocol (soft masks; ranks inside the computation graph)",
}


def evaluate(
    model: ModelArgument,
    explanations: FileArgument,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Summarise explanations: F+, F−, Sparsity and HΔR:m, in the paper's protocol and in ours.

    Every figure has its 95 % interval. The paper's are measured now where `--metrics paper` was not given.

    Example: powerlink evaluate models/atlas explanations.jsonl
    """
    found, _ = read_of_model(model, explanations)
    from powerlink.report.text import render_summary
    from powerlink.run.remake import with_paper_figures
    from powerlink.verify.metrics import evaluate as evaluate_all

    if any(explanation.paper is None and explanation.considered for explanation in found):
        with telling() as told:
            found, refused = with_paper_figures(opened(model, device), found, told)
        for sentence in refused:
            errors.print(f"note: {harmless(sentence)}", style="dim", soft_wrap=True)
    evaluation = evaluate_all(found, seed)
    if json:
        print_json(asdict(evaluation))
        return
    for protocol in dict.fromkeys(figure.protocol for figure in evaluation.figures):
        console.print(TITLES[protocol])
        console.print(_table(figure for figure in evaluation.figures if figure.protocol == protocol))
        console.print()
    console.print(render_summary(found))


def _table(figures: Iterable[Figure]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric")
    for column in ("mean", "95 % interval", "queries"):
        table.add_column(column, justify="right")
    for figure in figures:
        interval = f"{figure.low:.3f} … {figure.high:.3f}"
        table.add_row(figure.metric, f"{figure.mean:.3f}", interval, str(figure.queries))
    return table


def read_of_model(model: str, path: Path) -> tuple[list[Explanation], Identity]:
    """Read explanations, refusing those of another model or graph; also return which model it is."""
    check_there(model)
    from powerlink.report.schema import read_explanations
    from powerlink.sources import identity_of

    asked = identity_of(model)
    found = read_explanations(path)
    if not found:
        raise DataError(f"{path} holds no explanations")
    for explanation in found:
        made_by = explanation.made_by
        if made_by is not None and (made_by.model_hash, made_by.graph) != (asked.hash, asked.fingerprint):
            raise MismatchError(f"{path} holds explanations of another model than {model}, or of another graph")
    return found, asked
