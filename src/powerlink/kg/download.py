"""Fetch the files of a data set into a folder that appears only once all of them are whole and right."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

from powerlink.errors import DataError, OutputError

_CHUNK = 1 << 16
_TIMEOUT = 30.0  # seconds without an answer


@dataclass(frozen=True)
class RemoteFile:
    """One file to fetch: where it is, what it is called here, and what it must be."""

    url: str
    name: str
    size: int  # bytes
    sha256: str


def cache_folder() -> Path:
    """Return the folder for downloads: `powerlink` in `$XDG_CACHE_HOME`, or in `~/.cache`."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path there is to be ignored.
    return (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / "powerlink"


def download(files: Sequence[RemoteFile], folder: Path, *, console: Console | None = None) -> None:
    """Fetch the files, check them, and only then give `folder` its name."""
    console = console or Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True) as name:
            unfinished = Path(name)
            with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
                task = progress.add_task(folder.name, total=sum(file.size for file in files))
                for file in files:
                    _fetch(file, unfinished / file.name, progress, task)
            unfinished.chmod(0o755)  # temporary folders are private; a cache need not be
            try:
                unfinished.rename(folder)
            except OSError:
                if not folder.is_dir():  # otherwise another run was faster, and its files passed the same checks
                    raise
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror or error}") from None


def _fetch(file: RemoteFile, target: Path, progress: Progress, task: TaskID) -> None:
    digest, received = hashlib.sha256(), 0
    with target.open("wb") as out:
        for chunk in _chunks(file):
            digest.update(chunk)
            received += len(chunk)
            if received > file.size:  # not the file that was asked for: no reason to fetch the rest
                break
            out.write(chunk)
            progress.advance(task, len(chunk))
    if received != file.size:
        came = f"only {received:,} bytes came" if received < file.size else "more bytes came"
        raise DataError(f"{file.url} is not the file expected: {came} instead of {file.size:,}; it was thrown away")
    if digest.hexdigest() != file.sha256:
        raise DataError(f"{file.url} is not the file expected: its sha256 is {digest.hexdigest()}; it was thrown away")


def _chunks(file: RemoteFile) -> Iterator[bytes]:
    """Yield the bytes behind the address; any failure of the network is one sentence."""
    try:
        with urllib.request.urlopen(file.url, timeout=_TIMEOUT) as answer:
            while chunk := answer.read(_CHUNK):
                yield chunk
    except urllib.error.HTTPError as error:
        error.close()
        raise DataError(f"{file.url} cannot be downloaded: the server answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        raise DataError(f"{file.url} cannot be downloaded: {reason}") from None
    except (http.client.HTTPException, OSError) as error:
        raise DataError(f"{file.url} cannot be downloaded: the connection broke ({error})") from None
