"""powerlink rank: how good the model is that is being explained."""

from __future__ import annotations

from rich.table import Table

from powerlink.cli.console import console, counting, print_json, shown
from powerlink.cli.naming import opened
from powerlink.cli.options import DeviceOption, JsonOption, ModelArgument, SplitOption
from powerlink.errors import DataError


def rank(
    model: ModelArgument, split: SplitOption = "test", device: DeviceOption = "auto", json: JsonOption = False
) -> None:
    """Rank held-out facts: filtered MRR and Hits@1/3/10, heads and tails, ties at their mean.

    Example: powerlink rank models/atlas
    """
    session = opened(model, device)
    from powerlink.models.session import rank as rank_split

    if not len(session.graph.facts(split)):
        raise DataError(f"the graph of {model} has no {split} facts to rank")
    with counting("ranking", 2 * len(session.graph.facts(split))) as told:
        accuracy = rank_split(session, split, told=told)
    if json:
        print_json({"model": session.name, "graph": session.graph.name, "split": split, **accuracy.as_dict()})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("model", "graph", "split", "MRR", "Hits@1", "Hits@3", "Hits@10", "queries"):
        table.add_column(column, justify="left" if column in ("model", "graph", "split") else "right")
    figures = (accuracy.mrr, accuracy.hits_at_1, accuracy.hits_at_3, accuracy.hits_at_10)
    table.add_row(session.name, shown(session.graph.name), split, *(f"{f:.3f}" for f in figures), str(accuracy.queries))
    console.print(table)
