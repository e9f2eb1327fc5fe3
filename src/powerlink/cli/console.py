"""What all commands share: where they print, how they show progress, which device they use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from powerlink.errors import DeviceError

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

Device = Literal["auto", "cpu", "cuda"]
DeviceOption = Annotated[Device, typer.Option(help="Where to compute; auto takes a GPU if there is one.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text for people.")]
SeedOption = Annotated[int, typer.Option(help="Everything random follows from this number.")]


def pick_device(device: Device) -> torch.device:
    """Turn a wish into a device, or say that there is none."""
    if device == "cuda" and not torch.cuda.is_available():
        raise DeviceError(
            "there is no CUDA device on this machine (or this torch was built without CUDA): use --device cpu"
        )
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


def print_json(value: Any) -> None:
    """Print a value as one JSON document on standard output."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


@contextmanager
def progress(*columns: str) -> Iterator[Progress]:
    """Show a progress bar on standard error, so that standard output stays clean; extra columns are field templates."""
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *(TextColumn(column) for column in columns),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
    )
    with bar:
        yield bar


def stopped(what_is_kept: str) -> typer.Exit:
    """Answer Ctrl-C: say what is safe and how to go on."""
    errors.print(f"stopped: {what_is_kept}", markup=False)
    return typer.Exit(130)
