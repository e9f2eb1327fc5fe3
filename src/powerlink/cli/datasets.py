"""powerlink datasets: the knowledge graphs known by name, and where they are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from powerlink.cli.console import console, print_json, shown
from powerlink.cli.options import JsonOption

DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder that holds datasets, one folder each.", envvar="POWERLINK_DATA", show_default=False),
]


def datasets(data_dir: DataDirOption = None, json: JsonOption = False) -> None:
    """List the knowledge graphs known by name, and where they are.

    Any folder with train/valid/test files, or a single file of triples, works as --data too.

    Example: powerlink datasets --data-dir ~/datasets
    """
    from powerlink.kg import catalog

    entries = catalog.datasets(data_dir=data_dir)
    if json:
        print_json([asdict(entry) for entry in entries])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("name", no_wrap=True)
    for column in ("entities", "relations", "facts"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("where", overflow="fold")
    absent = [entry for entry in entries if entry.status == "to be placed"]
    for entry in entries:
        where = "not here; see below" if entry in absent else shown(entry.where)
        table.add_row(entry.name, f"{entry.entities:,}", f"{entry.relations:,}", f"{entry.facts:,}", where)
    console.print(table)
    for entry in absent:
        console.print(f"\n{entry.name}: {shown(entry.where)}")
