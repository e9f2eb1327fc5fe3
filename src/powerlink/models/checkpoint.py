"""A model as a folder: its weights, its settings, and the graph it was trained on.

model.safetensors   the best weights; above 15 MiB in shards with an index, see shards.py
model.json          settings, graph fingerprint, accuracy, versions, and the hashes of the weights it vouches for
graph/              the knowledge graph, so that `explain` needs nothing else
training.jsonl      one line per epoch
learning_curve.png  the same as a picture
resume.safetensors  while training: what a restart needs (removed when training ends)
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor
from torch.overrides import TorchFunctionMode

from powerlink.atomic_file import write_atomically
from powerlink.errors import DataError, MismatchError, ModelError, OutputError, SettingsError
from powerlink.kernels.plain_torch import plain_torch
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.kg.storage import holds_graph_files_alone, load_graph, save_graph
from powerlink.models.calibration import Calibration
from powerlink.models.description import FORMAT
from powerlink.models.description import read_description as read_description  # noqa: PLC0414 - where it is looked for
from powerlink.models.link_model import EncoderDecoder, ModelSettings
from powerlink.models.mapped import find_mapped, keep_mapped, looks_of
from powerlink.models.session import Session
from powerlink.models.shards import INDEX, halved, load_weights, overall, remove_stale, save_weights
from powerlink.models.training import TrainingSettings


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors as safetensors, atomically."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, save(plain, metadata=dict(metadata or {})))


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors back, or say in one sentence why not."""
    if not path.is_file():
        raise ModelError(f"{path} is missing: {path.parent} is not a complete model folder")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} is truncated or damaged ({error}): train or copy the model again") from error


def check_ours(folder: Path) -> None:
    """Refuse a folder where somebody else keeps weights or a graph: a training would replace them.

    A training of ours that was killed has a graph that can be read, or the beginning of one.
    """
    if (folder / "model.json").is_file():
        return  # whoever reads it says what is wrong with it
    graph = folder / "graph"
    begun = not graph.exists() or holds_graph_files_alone(graph)
    whole = False
    with contextlib.suppress(DataError):
        load_graph(graph)
        whole = True
    weights = sorted(path.name for path in folder.glob("model*.safetensors*"))
    if (weights and not whole) or not begun:
        theirs = folder / (weights[0] if weights else "graph")
        raise OutputError(f"{theirs} is there, and powerlink did not make it: choose another --out, or say --force")


def start_folder(folder: Path, graph: KnowledgeGraph, *, force: bool = False) -> None:
    """Put the graph into a model folder, unless it is there already; a stranger's folder is refused unless `force`."""
    if folder.is_file():
        raise OutputError(f"cannot write {folder}: it is a file, and a model is a folder")
    if not force:
        check_ours(folder)
    with contextlib.suppress(DataError):  # no graph there yet, or half of one
        if load_graph(folder / "graph").fingerprint == graph.fingerprint:
            return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_graph(graph, folder / "graph")
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error


def save_model(
    folder: Path,
    model: EncoderDecoder,
    graph: KnowledgeGraph,
    training: TrainingSettings,
    accuracy: Mapping[str, Any],
    *,
    finished: bool,
    half: bool = False,
    calibration: Calibration | None = None,
) -> None:
    """Write weights, then the description that vouches for them, and then clear away the weights before."""
    tensors = model.state_dict()
    files = save_weights(folder, halved(tensors) if half else tensors)
    description = {
        "format": FORMAT,
        "model": asdict(model.settings),
        "training": asdict(training),
        "graph": {"name": graph.name, "fingerprint": graph.fingerprint},
        "accuracy": accuracy,
        "calibration": asdict(calibration) if calibration else None,
        "finished": finished,
        "weights": overall(files),
        "files": files,
        "half": half,
        "versions": versions(),
    }
    write_atomically(folder / "model.json", (json.dumps(description, indent=2) + "\n").encode())
    remove_stale(folder, files)


@plain_torch()
def load_model(folder: str | Path, device: torch.device | str = "cpu") -> Session:
    """Read a model folder, ready to be asked, refusing anything that does not fit together.

    What an earlier opening checked and kept is mapped into memory, see mapped.py; else all is read, checked and kept.
    """
    folder = Path(folder)
    description = read_description(folder)
    calibration = read_calibration(folder, description)
    settings, _ = read_settings(folder, description)
    named: dict[str, Any] = {"name": settings.name, "hash": description["weights"], "calibration": calibration}
    named["source"] = str(folder.absolute())
    if kept := find_mapped(folder, description, versions(), device):
        model = _filled(settings, kept.graph, kept.weights).to(device).eval()
        session = Session.of(kept.graph, model, device, **named, messages=kept.messages, whole=kept.whole)
        vars(session)["calibration"] = calibration or kept.calibration
        return session
    seen = looks_of(folder, description)
    graph, model = _read_whole(folder, description, settings)
    session = Session.of(graph, model.to(device).eval(), device, **named)
    keep_mapped(folder, description, versions(), session, seen)
    return session


def _read_whole(
    folder: Path, description: Mapping[str, Any], settings: ModelSettings
) -> tuple[KnowledgeGraph, EncoderDecoder]:
    """Read a folder's graph and weights, and check all of both."""
    graph = load_graph(folder / "graph")
    expected = description["graph"]["fingerprint"]
    if graph.fingerprint != expected:
        raise MismatchError(
            f"{folder} was trained on another graph: model.json names {expected}, "
            f"but {folder / 'graph'} is {graph.fingerprint}"
        )
    files = description["files"]
    tensors, other = load_weights(folder, files)
    path = folder / (next(iter(files)) if len(files) == 1 else INDEX)
    broken = next((name for name, tensor in tensors.items() if not tensor.float().isfinite().all()), None)
    if broken is not None:
        raise ModelError(f"{path}: the weights {broken!r} hold NaN or infinite numbers; train the model again")
    try:
        model = _filled(settings, graph, tensors)
    except (RuntimeError, TypeError, ValueError) as error:
        raise MismatchError(f"{path} does not fit the model and graph that model.json describes") from error
    if other is not None or description["weights"] != overall(files):
        strange = folder / (other or next(iter(files)))
        raise MismatchError(
            f"{strange} holds other weights than model.json describes: copy the model again, "
            "or run its training again if it was stopped"
        )
    return graph, model


class _Unfilled(TorchFunctionMode):
    """Leave new tensors as they come: what would be drawn for them is replaced anyway, and takes seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        drawn = func in (Tensor.normal_, Tensor.uniform_)
        return args[0] if drawn else func(*args, **(kwargs or {}))


def _filled(settings: ModelSettings, graph: KnowledgeGraph, weights: Mapping[str, Tensor]) -> EncoderDecoder:
    """Make a model that has these weights for its own."""
    with _Unfilled():
        model = EncoderDecoder(settings, graph.num_entities, graph.num_relations)
    kinds = {name: tensor.dtype for name, tensor in model.state_dict().items()}
    model.load_state_dict({name: tensor.to(kinds.get(name)) for name, tensor in weights.items()}, assign=True)
    return model


def read_settings(folder: Path, description: Mapping[str, Any]) -> tuple[ModelSettings, TrainingSettings]:
    """Rebuild the settings a model folder describes."""
    try:
        return ModelSettings.described(description["model"]), TrainingSettings(**description["training"])
    except (TypeError, ValueError, KeyError, AttributeError, SettingsError) as error:
        raise ModelError(f"{folder / 'model.json'} describes a model this version does not know ({error})") from error


def read_calibration(folder: Path, description: Mapping[str, Any]) -> Calibration | None:
    """Return what a model folder says its scores are worth; None where it does not, as older ones."""
    told = description.get("calibration")
    try:
        return None if told is None else Calibration(**told)
    except (TypeError, SettingsError) as error:
        path = folder / "model.json"
        raise ModelError(
            f"{path} is damaged (it lacks a proper 'calibration'): train or copy the model again"
        ) from error


def save_resume(folder: Path, tensors: Mapping[str, Tensor], counters: Mapping[str, float], identity: str) -> None:
    """Write what a restart of the training needs, in one file so that all of it belongs together."""
    metadata = {"counters": json.dumps(dict(counters)), "identity": identity}
    save_tensors(folder / "resume.safetensors", tensors, metadata)


def load_resume(folder: Path) -> tuple[dict[str, Tensor], dict[str, float], str] | None:
    """Read an unfinished training's state, its counters and what it is a training of; None when there is none."""
    path = folder / "resume.safetensors"
    if not path.is_file():
        return None
    try:
        tensors = load_tensors(path)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
        counters: dict[str, float] = json.loads(metadata["counters"])
        return tensors, counters, metadata["identity"]
    except (ModelError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} is truncated or damaged: delete {folder} to start the training anew") from error


@cache
def versions() -> Mapping[str, str]:
    """Name the versions that decide numbers."""
    try:
        own = version("powerlink")
    except PackageNotFoundError:  # run from a source tree that was never installed
        own = "source tree"
    return {"powerlink": own, "torch": torch.__version__}
