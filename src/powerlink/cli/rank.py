"""powerlink rank: how good the model is that is being explained."""

from __future__ import annotations

from rich.table import Table

from powerlink.cli.console import console, counting, pick_device, print_json, shown
from powerlink.cli.options import DeviceOption, JsonOption, ModelArgument, SplitOption
from powerlink.errors import DataError
from powerlink.models.subject import rank as rank_split
from powerlink.sources import open_model


def rank(
    model: ModelArgument, split: SplitOption = "test", device: DeviceOption = "auto", json: JsonOption = False
) -> None:
    """Rank held-out facts: filtered MRR and Hits@1/3/10, heads and tails, ties at their mean.

    Example: powerlink rank models/atlas
    """
    subject = open_model(model, pick_device(device))
    if not len(subject.graph.facts(split)):
        raise DataError(f"the graph of {model} has no {split} facts to rank")
    with counting("ranking", 2 * len(subject.graph.facts(split))) as told:
        accuracy = rank_split(subject, split, told=told)
    if json:
        print_json({"model": subject.name, "graph": subject.graph.name, "split": split, **accuracy.as_dict()})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("model", "graph", "split", "MRR", "Hits@1", "Hits@3", "Hits@10", "queries"):
        table.add_column(column, justify="left" if column in ("model", "graph", "split") else "right")
    figures = (accuracy.mrr, accuracy.hits_at_1, accuracy.hits_at_3, accuracy.hits_at_10)
    table.add_row(subject.name, shown(subject.graph.name), split, *(f"{f:.3f}" for f in figures), str(accuracy.queries))
    console.print(table)
