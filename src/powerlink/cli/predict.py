"""powerlink predict: the most plausible answers to a question."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from powerlink.cli.console import console, print_json, shown
from powerlink.cli.naming import opened
from powerlink.cli.options import DeviceOption, JsonOption, ModelArgument
from powerlink.report.wording import number, probability


def predict(
    model: ModelArgument,
    relation: Annotated[str, typer.Option(help="The relation asked about.")],
    head: Annotated[str | None, typer.Option(help="Predict tails of this head.")] = None,
    tail: Annotated[str | None, typer.Option(help="Predict heads of this tail.")] = None,
    top: Annotated[int, typer.Option(help="How many answers.", min=1)] = 10,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Complete (head, relation, ?) or (?, relation, tail).

    Answers that already stand in the data are marked as known. Probabilities are calibrated on validation facts, and
    are left out where there are none.

    Example: powerlink predict models/atlas --head France --relation in_continent --top 5
    """
    session = opened(model, device)
    from powerlink.models.prediction import predict as predict_best

    answers = predict_best(session, relation=relation, head=head, tail=tail, top=top)
    if json:
        print_json([asdict(answer) for answer in answers])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    calibrated = any(answer.probability is not None for answer in answers)
    for column in ("rank", "head", "relation", "tail", "score", *["probability"] * calibrated, ""):
        right = column in ("rank", "score", "probability")
        table.add_column(column, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for place, answer in enumerate(answers, start=1):
        names = map(shown, (answer.head, answer.relation, answer.tail))
        known = "known" if answer.known else ""
        chance = "" if answer.probability is None else probability(answer.probability)
        table.add_row(str(place), *names, number(answer.score), *[chance] * calibrated, known)
    console.print(table)
