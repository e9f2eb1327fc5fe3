"""What all commands share: where they print, how they show progress, which device they use."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from powerlink.cli.options import Device
from powerlink.errors import DeviceError
from powerlink.report.wording import harmless, isolated

if TYPE_CHECKING:
    import torch

# Names are untrusted: plain text stays plain, whatever brackets or :codes: it holds.
console = Console(highlight=False, markup=False, emoji=False)
errors = Console(stderr=True, highlight=False, markup=False, emoji=False)


class StoppedError(Exception):
    """Ctrl-C; its text says what is safe and how to go on."""


@contextmanager
def kept_in(out: Path | None) -> Iterator[None]:
    """Say what is safe, and how to go on, when Ctrl-C is pressed."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"what was explained is safe in {out}; run the same command again to go on"
        raise StoppedError(kept if out else "nothing was written; with --out a rerun would go on") from None


def pick_device(device: Device) -> torch.device:
    """Turn a wish into a device, or say that there is none."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise DeviceError(
            "there is no CUDA device on this machine (or this torch was built without CUDA): use --device cpu"
        )
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


def print_json(value: Any) -> None:
    """Print a value as one JSON document on standard output."""
    document = json.dumps(value, ensure_ascii=False, indent=2)
    print_line(re.sub("[^ -~\n]", lambda found: found[0] if found[0].isprintable() else _escaped(found[0]), document))


def print_line(line: str) -> None:
    """Print a line for a machine: UTF-8, whatever the terminal speaks."""
    typer.echo(line.encode())


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1]


def shown(name: str | Path) -> str:
    """Return a name or a path as it may be printed: no control characters, no letters that turn the line around."""
    return isolated(harmless(str(name)))


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
        speed_estimate_period=600,  # epochs and queries are uneven; time left should not jump
        transient=True,
        disable=not errors.is_terminal,  # a log has no use for a bar, nor for the blank line it leaves
    )
    with bar:
        yield bar


@contextmanager
def telling() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar that is told what is going on, how many are done, and of how many; also at what rate."""
    with progress("{task.fields[rate]}") as bar:
        tasks: dict[str, tuple[TaskID, float, int]] = {}

        def told(what: str, done: int, of: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=of, rate=""), time.perf_counter(), done
            task, start, before = tasks[what]
            if done < before:  # the same again, with others
                start, before = time.perf_counter(), done
                tasks[what] = task, start, before
            rate = (done - before) / max(time.perf_counter() - start, 1e-9)
            bar.update(task, completed=done, total=of, rate=f"{rate:.2g}/s" if done > before else "")

        yield told


@contextmanager
def counting(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar that is told how many more are done."""
    with progress() as bar:
        task = bar.add_task(description, total=total)
        yield lambda more: bar.advance(task, more)
