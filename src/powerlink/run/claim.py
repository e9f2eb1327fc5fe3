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


TRIES = 10  # a holder may take its empty folder away while we open it, but not for ever


@contextmanager
def claimed(path: Path, *, folder: bool = False) -> Iterator[None]:
    """Hold a file or folder for this run; the system lets go of it when the process ends, however it ends.

    It is made if it is not there, and so are the folders above it; a new folder that stays empty is taken away again.
    What cannot be made or locked (missing rights, some network drives, Windows) is not held: whoever writes there says
    what is wrong.
    """
    new = not path.exists()
    held = _hold(path, folder=folder)
    try:
        yield
    finally:
        if held is not None:
            if folder and new:
                with suppress(OSError):
                    path.rmdir()  # refused if there is anything in it
            os.close(held)  # last: nobody else is let in while it may be taken away


def _hold(path: Path, *, folder: bool) -> int | None:
    """Open and lock it, or return None where that cannot be done."""
    for _ in range(TRIES):
        if (held := _open(path, folder=folder)) is None:
            return None
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(held), os.stat(path)):
                return held
        except BlockingIOError:
            os.close(held)
            raise OutputError(
                f"another run is writing {path}: wait until it is done, or choose another --out"
            ) from None
        except FileNotFoundError:
            pass  # its last holder took it away just now: make it again
        except OSError:
            os.close(held)
            return None
        os.close(held)
    return None


def _open(path: Path, *, folder: bool) -> int | None:
    if fcntl is None or (path.exists() and not (path.is_dir() if folder else path.is_file())):
        return None  # to open a pipe is to wait for its other end
    with suppress(OSError):
        (path if folder else path.parent).mkdir(parents=True, exist_ok=True)
        # network drives lock only files that are open for writing
        return os.open(path, os.O_RDONLY if folder else os.O_RDWR | os.O_CREAT, 0o666)
    return None
