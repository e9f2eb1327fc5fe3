"""One writer at a time: a second run into the same place is refused before it has touched anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from powerlink.errors import OutputError

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]


@contextmanager
def claimed(path: Path, *, folder: bool = False) -> Iterator[None]:
    """Hold a file or folder for this run; the system lets go of it when the process ends, however it ends.

    It is made if it is not there; a folder that stays empty is taken away again. What cannot be made or locked (missing
    rights, some network drives) is not held: whoever writes there says so.
    """
    new = not path.exists()
    held = _open(path, folder=folder)
    try:
        if held is not None:
            _lock(held, path)
        yield
    finally:
        if held is not None:
            os.close(held)
        if folder and new:
            with suppress(OSError):
                path.rmdir()  # refused if there is anything in it


def _open(path: Path, *, folder: bool) -> int | None:
    if fcntl is None or (path.exists() and not (path.is_dir() if folder else path.is_file())):
        return None  # to open a pipe is to wait for its other end
    with suppress(OSError):
        (path if folder else path.parent).mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDONLY if folder else os.O_RDONLY | os.O_CREAT, 0o666)
    return None


def _lock(held: int, path: Path) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutputError(f"another run is writing {path}: wait until it is done, or choose another --out") from None
    except OSError:
        pass
