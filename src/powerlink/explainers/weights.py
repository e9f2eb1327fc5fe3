"""What a fitted explainer has learned, as one file: tensors in safetensors, and in its header what they belong to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from powerlink.errors import DataError, MismatchError
from powerlink.models.checkpoint import save_tensors, versions
from powerlink.models.session import Session

FORMAT = "1"


@dataclass(frozen=True, eq=False)
class Weights:
    """A fitted explainer's tensors, and where they come from."""

    path: str
    tensors: Mapping[str, Tensor]
    model: str  # e.g. "compgcn-distmult"
    model_hash: str  # empty for a model that was never saved
    hash: str  # of the tensors

    def check_model(self, session: Session) -> None:
        """Refuse a model these weights were not fitted on."""
        if self.model_hash != session.hash:
            raise MismatchError(
                f"{self.path} was fitted on another model ({self.model} {self.model_hash or 'never saved'}, "
                f"not {session.name} {session.hash or 'never saved'}): fit it on this one with `powerlink fit`"
            )


def save_weights(
    path: Path, explainer: str, settings: Mapping[str, Any], tensors: Mapping[str, Tensor], session: Session
) -> None:
    """Write what a fit has learned, atomically."""
    origin = {"model": session.name, "model_hash": session.hash, "graph": session.graph.fingerprint}
    header = {"powerlink": FORMAT, "explainer": explainer, "settings": json.dumps(dict(settings)), **origin}
    save_tensors(path, tensors, {**header, "versions": json.dumps(versions())})


def load_weights(path: str | Path, explainer: str, shapes: Mapping[str, int]) -> Weights:
    """Read such a file back, refusing anything but this explainer's finite tensors of these numbers of dimensions."""
    path = Path(path)
    if not path.is_file():
        raise DataError(
            f"there is no file {path}: make one with `powerlink fit MODEL --explainer {explainer} --out {path}`"
        )
    try:
        tensors = load_file(path)
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path} is damaged, or no file of weights: make it anew with `powerlink fit`") from error
    if header.get("explainer") != explainer or header.get("powerlink") != FORMAT:
        what = header.get("explainer", "nothing powerlink knows")
        raise DataError(f"{path} holds weights of {what}, not of {explainer} in a form this version reads")
    if {name: tensor.dim() for name, tensor in tensors.items()} != dict(shapes):
        raise DataError(f"{path} lacks a part of {explainer}'s weights: make it anew with `powerlink fit`")
    if not all(tensor.isfinite().all() for tensor in tensors.values()):
        raise DataError(f"{path} holds NaN or infinite weights: make it anew with `powerlink fit`, with a smaller lr")
    return Weights(str(path), tensors, header.get("model", ""), header.get("model_hash", ""), _hash(tensors))


def _hash(tensors: Mapping[str, Tensor]) -> str:
    """Hash names and numbers; not the file, whose header comes in any order."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode() + tensors[name].contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
