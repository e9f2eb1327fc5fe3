"""What opening a model computes, kept beside it and mapped into memory: a large model opens at once.

MODEL/mapped/graph-….safetensors    the facts, and the message graph's columns
MODEL/mapped/entities-….arrow       the names, and relations-….arrow; see kg/mapped_names.py
MODEL/mapped/model-….safetensors    the weights in one piece, and the whole graph's encoding
MODEL/mapped/seal.json              written last: what these belong to, and how every file looked when all was checked

The first opening checks everything, and then writes this where it can. A later one believes it if graph, model and
versions are those that are told, and every file, the model's own as well as these, is unchanged: by its size, times and
inode, or where those differ, as in a copy, by its checksum. Else the first opening is repeated. Processes that open the
same model share the pages; whoever changes a tensor gets a page of its own. It may be deleted at any time.
"""

from __future__ import annotations

import json
import os
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from powerlink.atomic_file import write_atomically
from powerlink.errors import OutputError, PowerlinkError
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kg.knowledge_graph import SPLITS, KnowledgeGraph
from powerlink.kg.mapped_names import map_names, write_names
from powerlink.kg.storage import read_graph_description
from powerlink.models.calibration import Calibration
from powerlink.models.protocol import Embeddings
from powerlink.models.session import Session

VERSION = 1  # of this, and of what encoders make of weights: one more wherever either changes
FEWEST_FACTS = 100_000  # smaller graphs are computed in no time
SEAL = "mapped/seal.json"
STILL = 50_000_000  # ns that a file must have been left alone: a later change then shows in its times
_PIECE = 2**24  # bytes that are summed at a time
_ALIGNED, _GAP = 64, "gap before the one after "  # bytes; the names of what fills up to them
_COLUMNS = ("source", "target", "relation", "norm", "fact", "reverse", "row")
_KINDS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}

Look = list[int]  # size, times and inode of a file


@dataclass(frozen=True, eq=False)
class Mapped:
    """A model's parts as they lie on the disk; each page is read when it is first needed."""

    graph: KnowledgeGraph
    messages: MessageGraph
    weights: Mapping[str, Tensor]
    whole: Embeddings
    calibration: Calibration | None


def looks_of(folder: Path, description: Mapping[str, Any]) -> dict[str, Look]:
    """Say how the model's own files look, before they are read; those that are not there are left out."""
    return {name: look for name in _own_files(description) if (look := _look(folder / name))}


def find_mapped(
    folder: Path, description: Mapping[str, Any], versions: Mapping[str, str], device: torch.device | str
) -> Mapped | None:
    """Map what an earlier opening left; None where there is nothing that can be believed."""
    try:
        seal = json.loads((folder / SEAL).read_text("utf-8"))
        graph = read_graph_description(folder / "graph")
        if any(seal[name] != value for name, value in _identity(description, versions).items()):
            return None
        names = _names(description)
        every = [*_own_files(description), *names]
        looks = {name: _look_if_unchanged(folder / name, *seal["files"][name]) for name in every}
        if graph["fingerprint"] != description["graph"]["fingerprint"] or None in looks.values():
            return None
        if any(looks[name] != look for name, (look, _) in seal["files"].items()):
            sums = {name: crc for name, (_, crc) in seal["files"].items()}
            _write_seal(folder, seal, {name: (look, sums[name]) for name, look in looks.items()})
        return _mapped(graph, seal["calibration"], [folder / name for name in names], device)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError, PowerlinkError):
        return None  # the first opening says what is wrong, if anything is


def keep_mapped(
    folder: Path,
    description: Mapping[str, Any],
    versions: Mapping[str, str],
    session: Session,
    seen: Mapping[str, Look],
) -> None:
    """Write what the next opening will map, where the folder can be written and the graph is large enough.

    `seen` is how the model's files looked before they were read and found to be right.
    """
    if len(session.graph.train) < FEWEST_FACTS or not description["finished"] or not os.access(folder, os.W_OK):
        return
    graph, messages, whole = session.graph, session.messages, session.whole
    facts = {split: torch.from_numpy(graph.facts(split).copy()) for split in SPLITS}
    columns = {name: getattr(messages, name) for name in _COLUMNS}
    weights = {f"weights.{name}": tensor for name, tensor in cast(nn.Module, session.model).state_dict().items()}
    encoded = {f"whole.{f.name}": getattr(whole, f.name) for f in fields(whole) if getattr(whole, f.name) is not None}
    writers: list[Callable[[Path], None]] = [
        lambda path: _write(path, facts | columns),
        lambda path: write_names(graph.entities, path),
        lambda path: write_names(graph.relations, path),
        lambda path: _write(path, weights | encoded),
    ]
    names = _names(description)
    with suppress(OSError, OutputError, KeyError):  # a kind of number nobody maps; a full disk; no right to write
        (folder / "mapped").mkdir(exist_ok=True)
        for name, write in zip(names, writers, strict=True):
            _replace(folder / name, write)
        for path in (folder / "mapped").iterdir():
            if f"mapped/{path.name}" not in names:
                path.unlink()
        calibration = session.calibration
        seal = _identity(description, versions) | {"calibration": calibration and asdict(calibration)}
        every = [*_own_files(description), *names]
        time.sleep(STILL / 1e9)
        before = {name: _look(folder / name) for name in every}
        sums = {name: _checksum(folder / name) for name in every}
        if before == {name: _look(folder / name) for name in every} and before.items() >= seen.items():
            _write_seal(folder, seal, {name: (before[name], sums[name]) for name in every})


def _identity(description: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, Any]:
    """Return what decides all that is kept."""
    model = {name: description[name] for name in ("weights", "files", "model")}
    return {"version": VERSION, "versions": dict(versions), "graph": description["graph"]["fingerprint"], "of": model}


def _own_files(description: Mapping[str, Any]) -> list[str]:
    return [*(f"graph/{stem}.parquet" for stem in (*SPLITS, "entities", "relations")), *description["files"]]


def _names(description: Mapping[str, Any]) -> tuple[str, ...]:
    graph, model = description["graph"]["fingerprint"], description["weights"]
    arrows = (f"mapped/{stem}-{graph}.arrow" for stem in ("entities", "relations"))
    return (f"mapped/graph-{graph}.safetensors", *arrows, f"mapped/model-{model}.safetensors")


def _mapped(
    told: Mapping[str, Any], calibration: Mapping[str, Any] | None, files: Sequence[Path], device: torch.device | str
) -> Mapped:
    graph, entities, relations, model = files
    columns, made = _load(graph), _load(model)
    facts = {split: columns.pop(split).numpy() for split in SPLITS}
    for array in facts.values():
        array.setflags(write=False)
    kg = KnowledgeGraph.checked(
        told["fingerprint"],
        name=str(told["name"]),
        entities=map_names("entity", entities),
        relations=map_names("relation", relations),
        notes=tuple(map(str, told["notes"])),
        **facts,
    )
    column: dict[str, Any] = {name: tensor.to(device) for name, tensor in columns.items()}
    row, entity = column.pop("row"), torch.arange(kg.num_entities, device=device)
    messages = MessageGraph(num_relations=kg.num_relations, entity=entity, **column)
    vars(messages)["row"] = row  # else it would be counted
    weights, whole = (
        {name.removeprefix(kind): tensor for name, tensor in made.items() if name.startswith(kind)}
        for kind in ("weights.", "whole.")
    )
    encoded = Embeddings(**{name: tensor.to(device) for name, tensor in whole.items()})
    return Mapped(kg, messages, weights, encoded, Calibration(**calibration) if calibration else None)


def _load(path: Path) -> dict[str, Tensor]:
    with safe_open(path, framework="pt") as file:  # its tensors are views of the mapped file
        return {name: file.get_tensor(name) for name in file.keys() if not name.startswith(_GAP)}  # noqa: SIM118


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors, one after the other: safetensors' own way copies all of them first.

    Each begins where torch's own memory does, at a multiple of 64 bytes: elsewhere the last digit of a sum may differ.
    """
    header: dict[str, Any] = {}
    plain: list[Tensor] = []
    end = 0
    for name, tensor in tensors.items():
        gap = torch.zeros(-tensor.nbytes % _ALIGNED, dtype=torch.uint8)
        for part, called in ((tensor, name), (gap, f"{_GAP}{name}")):
            offsets = [end, end := end + part.nbytes]
            header[called] = {"dtype": _KINDS[part.dtype], "shape": list(part.shape), "data_offsets": offsets}
            plain.append(part.detach().cpu().contiguous())
    told = json.dumps(header).encode()
    told += b" " * (-(8 + len(told)) % _ALIGNED)
    with path.open("wb") as file:
        file.write(len(told).to_bytes(8, "little") + told)
        for part in plain:
            file.write(part.flatten().view(torch.uint8).numpy().data)


def _replace(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file beside its place, and put it there once it is on the disk; one that somebody maps stays theirs."""
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")  # others may write the same
    try:
        write(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _write_seal(folder: Path, seal: Mapping[str, Any], files: Mapping[str, Any]) -> None:
    with suppress(OutputError):
        write_atomically(folder / SEAL, (json.dumps({**seal, "files": files}, indent=1) + "\n").encode())


def _look(path: Path) -> Look | None:
    try:
        told = path.stat()
    except OSError:
        return None
    return [told.st_size, told.st_mtime_ns, told.st_ctime_ns, told.st_ino]


def _look_if_unchanged(path: Path, sealed: Look, checksum: int) -> Look | None:
    """Say how a file looks, if it holds what it held; None if not. Only what looks different is read."""
    look = _look(path)
    if look is None or look == sealed:
        return look
    return look if look[0] == sealed[0] and _checksum(path) == checksum else None


def _checksum(path: Path) -> int:
    total = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            total = zlib.crc32(piece, total)
    return total
