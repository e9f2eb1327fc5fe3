"""What a model folder says of itself in model.json; told, as is a folder that is not there, without loading torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from powerlink.errors import ModelError

SINGLE = "model.safetensors"  # the file of weights, where they fit into one
FORMAT = 3
READABLE = (1, 2, 3)  # 1: a single file, whose hash is the model's; before 3 the settings of all parts in one
KEYS = {"model": dict, "training": dict, "graph": dict, "accuracy": dict, "finished": bool, "weights": str}


def scheme_of(source: str | Path) -> tuple[str | None, str]:
    """Split SCHEME:REST; a path that is there is a path, whatever its name."""
    scheme, colon, rest = str(source).partition(":")
    if not colon or Path(source).exists() or not scheme.isidentifier() or len(scheme) == 1:  # C:\ is a drive
        return None, str(source)
    return scheme, rest


def read_description(folder: Path) -> dict[str, Any]:
    """Read model.json, checking that this version of powerlink understands it."""
    path = folder / "model.json"
    if not folder.is_dir():
        raise ModelError(f"there is no model folder {folder}: train one with `powerlink train --out {folder}`")
    if not path.is_file():
        raise ModelError(f"{folder} holds no model.json: it is not a model folder, or its training never got to save")
    try:
        description = json.loads(path.read_text("utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise ModelError(f"{path} is damaged ({error}): train or copy the model again") from error
    if not isinstance(description, dict) or "format" not in description:
        raise ModelError(f"{path} does not describe a model: train or copy the model again")
    if description["format"] not in READABLE:
        raise ModelError(
            f"{path} has format {description['format']}; "
            f"this version of powerlink reads {', '.join(map(str, READABLE))}"
        )
    for key, kind in KEYS.items():
        if not isinstance(description.get(key), kind):
            raise ModelError(f"{path} is damaged (it lacks a proper {key!r}): train or copy the model again")
    for key in ("name", "fingerprint"):
        if not isinstance(description["graph"].get(key), str):
            raise ModelError(f"{path} is damaged (its graph lacks a proper {key!r}): train or copy the model again")
    if description["format"] == 1:
        description["files"] = {SINGLE: description["weights"]}
    files = description.get("files")
    if not (isinstance(files, dict) and files and all(isinstance(digest, str) for digest in files.values())):
        raise ModelError(f"{path} is damaged (it lacks a proper 'files'): train or copy the model again")
    return description
