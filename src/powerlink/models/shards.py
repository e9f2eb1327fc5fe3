"""Weights as safetensors files of a bounded size: one file if it fits, else shards with an index.

model.safetensors                   or
model-00001-of-00003.safetensors …  with model.safetensors.index.json, which says where each tensor is

A tensor larger than a shard is split by rows; its parts are called `name[first:last]`. Half precision is for matrices
and larger: vectors (biases, batch norm's statistics) are small, and variances leave float16's range.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from powerlink.atomic_file import replace_together, write_atomically
from powerlink.errors import ModelError
from powerlink.models.description import SINGLE

MOST_BYTES = 15 * 2**20
INDEX = "model.safetensors.index.json"
HALF_ERROR = 1e-3  # twice float16's rounding: more is overflow or underflow
_HEADER = 2**16  # room for a shard's own table of contents
_PART = re.compile(r"(.+)\[(\d+):(\d+)\]")
_NAME = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors")


def halved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors with the large ones in float16, save those it cannot hold."""
    return {name: _half(tensor) for name, tensor in tensors.items()}


def _half(tensor: Tensor) -> Tensor:
    if tensor.dtype != torch.float32 or tensor.dim() < 2:
        return tensor
    half = tensor.half()
    fits = (half.float() - tensor).norm() <= HALF_ERROR * tensor.norm()  # false for an infinite error too
    return half if fits else tensor


def save_weights(folder: Path, tensors: Mapping[str, Tensor], *, most: int = MOST_BYTES) -> dict[str, str]:
    """Write tensors in files of at most `most` bytes and return {file name: hash}; files of older weights stay.

    All are written beside their place before the first takes it. Whoever vouches for the hashes vouches for the set.
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    shards = list(_packed(plain, most - min(_HEADER, most // 2)))
    names = [f"model-{i:05}-of-{len(shards):05}.safetensors" for i in range(1, len(shards) + 1)]
    if len(shards) == 1:
        names = [SINGLE]
    written = {name: save(shard) for name, shard in zip(names, shards, strict=True)}
    replace_together({folder / name: data for name, data in written.items()})
    if len(shards) > 1:
        size = sum(tensor.nbytes for tensor in plain.values())
        places = {part: name for name, shard in zip(names, shards, strict=True) for part in shard}
        index = {"metadata": {"total_size": size}, "weight_map": places}
        write_atomically(folder / INDEX, (json.dumps(index, indent=2) + "\n").encode())
    return {name: _digest(data) for name, data in written.items()}


def remove_stale(folder: Path, names: Mapping[str, str]) -> None:
    """Remove the files of weights that are no longer described."""
    for path in folder.iterdir():
        weights = _NAME.fullmatch(path.name.removesuffix(".part")) and path.name not in names
        if weights or (path.name == INDEX and SINGLE in names):
            with suppress(OSError):  # it stays in the way of nothing
                path.unlink()


def load_weights(folder: Path, names: Mapping[str, str]) -> tuple[dict[str, Tensor], str | None]:
    """Read the tensors of some files, as float32, and the first file whose hash is another than the one given."""
    parts: dict[str, Tensor] = {}
    other = None
    for name, digest in names.items():
        if not _NAME.fullmatch(name):
            raise ModelError(
                f"{folder / 'model.json'} is damaged ({name!r} is no file of weights): copy the model again"
            )
        data = _read(folder / name)
        if _digest(data) != digest:
            other = other or name
        try:
            parts |= load(data)
        except SafetensorError as error:
            raise _damaged(folder / name, error) from error
    return {name: _whole(tensor) for name, tensor in _joined(folder, parts).items()}, other


def matches(folder: Path, names: Mapping[str, str]) -> bool:
    """Return whether the files are there with just these contents."""
    return all((folder / name).is_file() and _digest((folder / name).read_bytes()) == names[name] for name in names)


def overall(names: Mapping[str, str]) -> str:
    """Return one hash for a set of files: a single file's own, or the hash of all their hashes."""
    hashes = list(names.values())
    return hashes[0] if len(hashes) == 1 else _digest("".join(hashes).encode())


def _packed(tensors: Mapping[str, Tensor], room: int) -> Iterator[dict[str, Tensor]]:
    """Fill shards of at most `room` bytes in the tensors' order."""
    shard: dict[str, Tensor] = {}
    left = room
    for name, tensor in tensors.items():
        for key, part in _parts(name, tensor, left, room):
            if shard and part.nbytes > left:
                yield shard
                shard, left = {}, room
            shard[key] = part
            left = max(0, left - part.nbytes)  # a row larger than a shard has one to itself
    yield shard


def _parts(name: str, tensor: Tensor, left: int, room: int) -> Iterator[tuple[str, Tensor]]:
    """Cut what is larger than a shard by rows: as many as are left room for, then shard by shard."""
    if tensor.nbytes <= room:
        yield name, tensor
        return
    count = tensor.size(0)
    step = max(1, room * count // tensor.nbytes)
    cuts = sorted({0, *range(left * count // tensor.nbytes, count, step), count})
    for first, last in itertools.pairwise(cuts):
        yield f"{name}[{first}:{last}]", tensor[first:last].clone()  # a view would be saved as the whole


def _joined(folder: Path, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Put the rows of split tensors together again."""
    whole: dict[str, Tensor] = {}
    rows: dict[str, dict[int, Tensor]] = {}
    for key, tensor in parts.items():
        if found := _PART.fullmatch(key):
            rows.setdefault(found[1], {})[int(found[2])] = tensor
        else:
            whole[key] = tensor
    for name, pieces in rows.items():
        ordered = [pieces[first] for first in sorted(pieces)]
        try:
            whole[name] = torch.cat(ordered)
        except RuntimeError as error:
            raise ModelError(f"{folder}: the parts of {name!r} do not fit together; copy the model again") from error
    return whole


def _whole(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype == torch.float16 else tensor


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise ModelError(f"{path} is missing: {path.parent} is not a complete model folder")
    try:
        return path.read_bytes()
    except OSError as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> ModelError:
    return ModelError(f"{path} is truncated or damaged ({error}): train or copy the model again")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
