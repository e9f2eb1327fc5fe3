"""What a process may still take for explaining under a ceiling, from what is there already.

All of it is counted, not measured: a rerun must cut the same batches. The constants were measured
(`benchmarks/memory_ceiling.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from pyarrow import ArrowException, parquet

from powerlink.errors import DeviceError
from powerlink.kernels.host_memory import freed_memory_returned
from powerlink.memory import BYTES_PER_COPIED_EDGE, BYTES_PER_EDGE, BYTES_PER_LOGIT, SHARE_OF_A_PIECE, Budget, physical
from powerlink.models.mapped import SEAL
from powerlink.models.session import Session

# torch, pyarrow and the rest, with what they keep for themselves; a torch built for CUDA brings its libraries along
LIBRARIES = (700 if torch.version.cuda else 500) * 2**20
OPTIMISER = 160 * 2**20  # what torch loads beside that when a mask is learned
BYTES_PER_HELD_EDGE = 110  # of the message graph, and how a whole encoding arranges it
BYTES_PER_HELD_FACT = 48
BYTES_PER_NAME = 350
BYTES_PER_OPENED_EDGE = 300  # on top, while the message graph is built and encoded
BYTES_PER_WALKED_EDGE = 60  # while a query's neighbourhood is looked for in the whole graph
LEAST = 160 * 2**20  # beside that: the calibration, a piece of the proof, a small computation graph
SHARE_OF_THE_MACHINE = 0.8  # where no ceiling is said: a query that takes more is cut down, not killed


def budget_for(session: Session, memory: int | None, *, learns: bool = False) -> Budget:
    """Return what fits beside the session into `memory` bytes in all; without it, usual sizes within the machine.

    `learns`: the explainer learns a mask.
    """
    device = session.messages.device
    held = held_by(session)
    there = held + (OPTIMISER if learns else 0)
    ceiling = int(SHARE_OF_THE_MACHINE * physical(device)) if memory is None else memory
    if memory is not None:
        _check(memory, there, max(there + _least(session), held + _opening(session)))
    left = max(ceiling - there, 1)
    if left * SHARE_OF_A_PIECE < session.messages.num_edges * BYTES_PER_COPIED_EDGE:
        left = max(left - _between_layers(session), 1)
    budget = Budget.of(device, None if memory is None else left)
    whole = int(SHARE_OF_A_PIECE * left) // BYTES_PER_COPIED_EDGE
    return replace(budget, most=left // BYTES_PER_EDGE, room=replace(budget.room, whole=whole))


def held_by(session: Session) -> int:
    """Count the bytes that a process with this session holds before it explains anything."""
    graph, model = session.graph, session.settled
    known, whole = session.known.held_out, session.whole
    numbers = [known.pairs, known.row, known.tail, whole.entity, whole.relation]
    if isinstance(model, torch.nn.Module):
        numbers += [*model.parameters(), *model.buffers()]
    there = sum(tensor.numel() * tensor.element_size() for tensor in numbers)
    there += BYTES_PER_HELD_EDGE * session.messages.num_edges
    if session.messages.device.type == "cuda":
        return there  # on the device itself
    names = graph.num_entities + graph.num_relations
    return there + LIBRARIES + BYTES_PER_HELD_FACT * len(graph.all_facts) + BYTES_PER_NAME * names


def check_opening(folder: Path, device: torch.device, memory: int | None) -> None:
    """Refuse, before it is opened, a model folder that takes more than there may be; other folders are let pass."""
    if memory is None:
        return
    try:
        counts = {
            name: parquet.read_metadata(folder / "graph" / f"{name}.parquet").num_rows
            for name in ("train", "valid", "test", "entities", "relations")
        }
        weights = sum(path.stat().st_size for path in folder.glob("model*.safetensors"))
    except (OSError, ArrowException):
        return  # whoever opens it says what is wrong with it
    facts, edges = counts["train"] + counts["valid"] + counts["test"], 2 * counts["train"]
    there = BYTES_PER_HELD_EDGE * edges + 2 * weights
    if device.type != "cuda":  # names and facts stay on the host
        there += LIBRARIES + BYTES_PER_HELD_FACT * facts + BYTES_PER_NAME * (counts["entities"] + counts["relations"])
    building = 0 if (folder / SEAL).is_file() else BYTES_PER_OPENED_EDGE * edges
    _check(memory, there, there + max(LEAST, building))


def _check(memory: int, there: int, least: int) -> None:
    if memory < least:
        told = (
            f"{memory / 2**30:.3g} GiB of memory are too little: the model and its graph take {there / 2**30:.1f} GiB"
        )
        raise DeviceError(
            f"{told}, and {least / 2**30:.1f} GiB are needed in all: say --memory {_upwards(least)}, or more"
        )


def _upwards(count: int) -> float:
    """Return a number of bytes in GiB, rounded up to what is easily said."""
    return math.ceil(10 * count / 2**30) / 10


@contextmanager
def allocator_bound(device: torch.device, memory: int | None) -> Iterator[None]:
    """Let CUDA's allocator refuse what a ceiling does not allow, and the host's keep nothing that was freed."""
    if memory is None:
        yield
        return
    if device.type != "cuda":
        with freed_memory_returned():
            yield
        return
    torch.cuda.set_per_process_memory_fraction(min(memory / physical(device), 1.0), device)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)


def _least(session: Session) -> int:
    """Count what is needed beside the session to explain anything at all."""
    messages = session.messages
    return LEAST + BYTES_PER_WALKED_EDGE * messages.num_edges + BYTES_PER_LOGIT * messages.num_nodes


def _opening(session: Session) -> int:
    """Count what opening it took for a while."""
    built = not session.mapped and session.messages.device.type == "cpu"
    return BYTES_PER_OPENED_EDGE * session.messages.num_edges if built else 0


def _between_layers(session: Session) -> int:
    """Count what a graph's vectors between the layers take, in float32 and in float64."""
    return 12 * session.whole.entity.numel() * max(session.settled.num_layers - 1, 0)
