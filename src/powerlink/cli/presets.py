"""powerlink presets: the paper's models, with the settings they are trained with."""

from __future__ import annotations

from dataclasses import asdict

from rich.table import Table

from powerlink.cli.console import console, print_json
from powerlink.cli.options import JsonOption


def presets(json: JsonOption = False) -> None:
    """List the paper's models, ready to be trained with `powerlink train --preset`.

    The MRR is the paper's own, filtered, on the test facts. Where our settings leave the paper's is in --json.

    Example: powerlink presets
    """
    from powerlink.models.presets import PRESETS

    if json:
        print_json([{"name": preset.name, **asdict(preset)} for preset in PRESETS.values()])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("dataset", "model"):
        table.add_column(column, no_wrap=True)
    for column in ("layers", "widths", "epochs", "paper's MRR"):
        table.add_column(column, justify="right", no_wrap=True)
    for preset in PRESETS.values():
        widths = preset.model.widths
        table.add_row(
            preset.dataset,
            preset.model.name,
            str(len(widths) - 1),
            "/".join(map(str, widths)),
            str(preset.training.epochs),
            f"{preset.paper_mrr:.3f}",
        )
    console.print(table)
    first = next(iter(PRESETS.values()))
    console.print(
        f"\npowerlink train --data {first.dataset} --preset {first.model.name} --out models/{first.model.name}",
        soft_wrap=True,
    )
