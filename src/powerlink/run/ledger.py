"""A file of explanations that survives Ctrl-C and kill -9: complete lines are kept, and a rerun goes on behind them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from powerlink.errors import DataError, MismatchError, OutputError
from powerlink.explanation import Explanation, MadeBy, Query
from powerlink.report.schema import read_complete, to_json

LINE_START = b'{"schema":'


class Ledger:
    """Appends explanations to a JSON Lines file, batch by batch, each batch synced to the disk."""

    def __init__(self, path: Path, made_by: MadeBy) -> None:
        self.path = path
        self.done: dict[Query, Explanation] = {}
        if path.exists() and not path.is_file():
            raise OutputError(f"cannot write {path}: it is no regular file")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab"):
                pass
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
        kept, end = read_complete(path)
        for explanation in kept:
            _check_same_origin(path, explanation.made_by, made_by)
            self.done[explanation.query] = explanation
        _cut_half_line(path, end)

    def append(self, explanations: Sequence[Explanation]) -> None:
        """Add explanations for good: when this returns they are on the disk."""
        rest = memoryview("".join(to_json(e) + "\n" for e in explanations).encode())
        try:
            # unbuffered, so that nothing is left to be written after a failure was told
            with self.path.open("ab", buffering=0) as file:
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(
                f"cannot write {self.path}: {error.strerror or error}; "
                f"the {len(self.done)} explanations before are safe, and a rerun goes on behind them"
            ) from error
        self.done |= {e.query: e for e in explanations}


def _cut_half_line(path: Path, end: int) -> None:
    """Cut off the half line that a killed run left behind the complete ones; a stranger's text is not ours to cut."""
    with path.open("rb") as file:
        file.seek(end)
        half = file.read(len(LINE_START))
    if not LINE_START.startswith(half):
        raise DataError(f"{path} ends with something that is no explanation: choose another --out")
    os.truncate(path, end)


def _check_same_origin(path: Path, there: MadeBy | None, now: MadeBy) -> None:
    """Refuse to mix explanations of different models, graphs or settings in one file."""
    if there is None:
        return
    for name in (f.name for f in fields(MadeBy) if f.name != "versions"):
        old, new = getattr(there, name), getattr(now, name)
        if old != new:
            raise MismatchError(
                f"{path} was made with another {difference(name, old, new)}: "
                "choose another --out, or delete it to start anew"
            )


def difference(name: str, old: Any, new: Any) -> str:
    """Say how two values of a name differ: `steps (50, now 5)`."""
    if isinstance(old, dict) and isinstance(new, dict):
        key = next(key for key in {**old, **new} if old.get(key) != new.get(key))
        return f"{key} ({old.get(key)}, now {new.get(key)})"
    return f"{name.removesuffix('_hash')} ({old}, now {new})"
