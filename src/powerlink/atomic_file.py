"""Writing a file so that nothing already written is lost."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from powerlink.errors import OutputError


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a kill or a full disk leaves either the old one or the new one, never half."""
    replace_together({path: data})


def replace_together(files: Mapping[Path, bytes]) -> None:
    """Write files atomically each, and all of them beside their places before the first takes its own."""
    parts = {path: path.with_name(path.name + ".part") for path in files}
    path = Path()
    try:
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced, only written to
                path.write_bytes(data)
                continue
            with parts[path].open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for path, part in parts.items():
            if part.exists():
                part.replace(path)
    except OSError as error:
        for part in parts.values():
            with suppress(OSError):
                part.unlink(missing_ok=True)
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
