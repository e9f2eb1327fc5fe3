"""powerlink datasets: the knowledge graphs known by name, and where they are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from powerlink.cli.console import JsonOption, console, print_json
from powerlink.kg import catalog

DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder that holds datasets, one folder each.", envvar="POWERLINK_DATA", show_default=False),
]


def datasets(data_dir: DataDirOption = None, json: JsonOption = False) -> None:
    """List the knowledge graphs known by name, and where they are.

    Any folder with train/valid/test files, or a single file of triples, works as --data too.
    """
    entries = catalog.datasets(data_dir=data_dir)
    if json:
        print_json([asdict(entry) for entry in entries])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "what it is", "entities", "relations", "facts", "where"):
        table.add_column(column, justify="right" if column in ("entities", "relations", "facts") else "left")
    for entry in entries:
        table.add_row(
            entry.name, entry.title, f"{entry.entities:,}", f"{entry.relations:,}", f"{entry.facts:,}", entry.where
        )
    console.print(table)
