"""Writing a file so that nothing already written is lost."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from powerlink.errors import OutputError


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a kill or a full disk leaves either the old one or the new one, never half."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced, only written to
            path.write_bytes(data)
            return
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
