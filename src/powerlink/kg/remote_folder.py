"""A folder that lies elsewhere, behind a URL that pyarrow or fsspec knows, is copied here once."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from powerlink.errors import ModelError
from powerlink.kg.download import cache_folder


def fetched_folder(url: str, vouches: str = "model.json") -> Path:
    """Return a local copy of the folder at a URL; a new one when the file that vouches for it has changed."""
    try:
        system, path = _file_system(url)
        with system.open_input_stream(f"{path}/{vouches}") as file:
            now = hashlib.sha256(url.encode() + file.read()).hexdigest()[:16]
        folder = cache_folder() / "models" / now
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            part = Path(tempfile.mkdtemp(prefix=f".{now}-", dir=folder.parent))
            try:
                fs.copy_files(path, str(part), source_filesystem=system, destination_filesystem=fs.LocalFileSystem())
                if not folder.is_dir():  # else another process was faster
                    os.replace(part, folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except FileNotFoundError:
        raise ModelError(f"{url} holds no {vouches}: it is not a model folder") from None
    except (OSError, pa.ArrowException, ValueError, ImportError) as error:
        raise ModelError(f"{url} cannot be read: {str(error).splitlines()[0]}") from error
    return folder


def _file_system(url: str) -> tuple[fs.FileSystem, str]:
    try:
        return fs.FileSystem.from_uri(url)  # type: ignore[no-any-return]
    except pa.ArrowInvalid:  # not one of its own
        import fsspec  # noqa: PLC0415 - comes with torch; its drivers are the user's

        system, path = fsspec.core.url_to_fs(url)
        return fs.PyFileSystem(fs.FSSpecHandler(system)), path
