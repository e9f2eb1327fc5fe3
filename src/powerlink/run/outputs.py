"""Nothing of the user's is overwritten: an output that is one of the inputs, or that somebody else made, is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from safetensors import SafetensorError, safe_open

from powerlink.errors import OutputError


def check_output(
    out: Path, is_ours: Callable[[Path], bool], *, inputs: Iterable[Path | None] = (), force: bool = False
) -> None:
    """Refuse a file that the command reads, whatever is said, and one of somebody else's unless `force`."""
    if not out.is_file():
        return
    for given in inputs:
        if given is None:
            continue
        if out.samefile(given) if given.is_file() else given.is_dir() and out.resolve().is_relative_to(given.resolve()):
            where = "is" if given.is_file() else "is a file of"
            raise OutputError(f"{out} {where} {given}, which this command reads: choose another --out")
    if not force and out.stat().st_size and not is_ours(out):
        raise OutputError(f"{out} is there, and powerlink did not make it: choose another --out, or say --force")


def is_fit(path: Path) -> bool:
    """Say whether a file is what a fit of ours has learned."""
    try:
        with safe_open(path, framework="pt") as file:
            return "powerlink" in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False
