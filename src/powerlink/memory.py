"""How much is worked on at once, so that memory suffices: of queries in a batch, of scenarios in a piece of its proof.

Both follow from what a user grants, or from the device: from what it has in all, not from what is free at the moment.
That would differ between a run and its rerun, and the last digits of a number depend on its batch.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch

# What is granted
SHARE_OF_A_GPU = 0.5  # of its memory, where nothing else is said: others may be on it, too
SHARE_OF_A_PIECE = 0.5  # of what is granted, beside what the batch itself holds

# What a thing takes, at most
BYTES_PER_EDGE = 1_500  # of a batch; learning takes about 530 of each kept edge on a GPU, other stages less
BYTES_PER_COPIED_EDGE = 600  # of a what-if graph, its nodes' vectors included, at width 100
BYTES_PER_LOGIT = 24  # while it is ranked
LOGITS_PER_SCORE = 6_000  # what a decoder may hold for one score, above all ConvE its feature maps
LOGITS_PER_NODE = 50  # what scoring a node takes, in logits that are merely ranked: both ends' vectors are gathered

# What is worked on at once, at most
EDGES_PER_BATCH = 1_200_000  # on a CPU: a batch stays within 2 GB
MOST_QUERIES = 32  # what a kill can cost at most
MOST_QUERIES_ON_A_GPU = 512  # where that many take seconds
EDGES_PER_PIECE, LOGITS_PER_PIECE = 2_000_000, 20_000_000  # on a CPU: 1.2 GB and half of that
EDGES_PER_PIECE_ON_A_GPU, LOGITS_PER_PIECE_ON_A_GPU = 32_000_000, 400_000_000  # busy only with much

# where Linux says how much a group of processes may take and takes: of cgroups 2 and 1
CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


@dataclass(frozen=True)
class Room:
    """How much of a proof is encoded and ranked at a time. A single scenario that is larger still runs alone."""

    edges: int = EDGES_PER_PIECE
    logits: int = LOGITS_PER_PIECE  # scenarios × entities
    whole: int | None = None  # edges of a graph that may be encoded at once; None: it is taken to fit

    def is_cramped_by(self, edges: int) -> bool:
        """Say whether a graph of so many edges must be encoded in pieces."""
        return self.whole is not None and edges > self.whole

    @classmethod
    def of(cls, device: torch.device, memory: int | None = None) -> Room:
        """Derive it from the device and from the `memory` in bytes that is granted in all."""
        most = cls(EDGES_PER_PIECE_ON_A_GPU, LOGITS_PER_PIECE_ON_A_GPU) if device.type == "cuda" else cls()
        granted = _granted(device, memory)
        if granted is None:
            return most
        share = int(SHARE_OF_A_PIECE * granted)
        edges, logits = share // BYTES_PER_COPIED_EDGE, share // BYTES_PER_LOGIT
        return cls(max(min(most.edges, edges), 1), max(min(most.logits, logits), 1))

    def cut(self, loads: list[int], logits_each: int) -> list[tuple[int, int]]:
        """Cut scenarios into runs first … last − 1 whose loads, in edges, and whose logits fit."""
        most = max(self.logits // max(logits_each, 1), 1)
        first, total, cuts = 0, 0, [0]
        for scenario, edges in enumerate(loads):
            if scenario > first and (total + edges > self.edges or scenario - first >= most):
                cuts.append(scenario)
                first, total = scenario, 0
            total += edges
        return list(pairwise([*cuts, len(loads)])) if loads else []


@dataclass(frozen=True)
class Budget:
    """How much goes into a batch, and into a piece of its proof."""

    edges: int = EDGES_PER_BATCH
    queries: int = MOST_QUERIES
    room: Room = Room()
    most: int | None = None  # edges that a single query may have; None: any number

    @classmethod
    def of(cls, device: torch.device, memory: int | None = None) -> Budget:
        """Derive it from the device and from the `memory` in bytes that is granted in all."""
        granted = _granted(device, memory)
        edges = EDGES_PER_BATCH if granted is None else max(granted // BYTES_PER_EDGE, 1)
        queries = MOST_QUERIES_ON_A_GPU if device.type == "cuda" else MOST_QUERIES
        return cls(edges, queries, Room.of(device, memory))


def _granted(device: torch.device, memory: int | None) -> int | None:
    """Return how many bytes may be taken; None where nobody says so, and usual sizes will do."""
    if memory is None and device.type == "cuda":
        return int(SHARE_OF_A_GPU * torch.cuda.get_device_properties(device).total_memory)
    return memory


def physical(device: torch.device) -> int:
    """Return how many bytes a device has, or the machine, or the part of it that a container may use."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 2**63
    with suppress(OSError, ValueError):
        machine = min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    return machine


def ran_out_of_memory(error: Exception) -> bool:
    """Tell a full memory from other faults; a CPU's allocator has no error of its own."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and "allocate memory" in str(error)
    )


def free_memory(device: torch.device) -> int:
    """Return how many bytes of a device's memory could be taken now: for plans alone, no number depends on it."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    left = [_from_meminfo()]
    for limit, used in CGROUP_FILES:
        with suppress(OSError, ValueError):  # no such file, or "max"
            reclaimable = _reclaimable(Path(used).parent / "memory.stat")
            left.append(int(Path(limit).read_text()) - int(Path(used).read_text()) + reclaimable)
    return max(min(left), 0)


def _from_meminfo() -> int:
    """Return what the kernel says is available; where it says nothing, all that could be."""
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    return 2**63 - 1


def _reclaimable(stat: Path) -> int:
    """Return how much of a control group's memory is files that the kernel would drop."""
    fields = dict(line.split(maxsplit=1) for line in stat.read_text().splitlines())
    return int(fields.get("inactive_file", 0))
