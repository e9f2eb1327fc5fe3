"""How fast training is: seconds per epoch, edges per second against the memory's own speed, peak memory.

python benchmarks/train.py --data-dir DIR --device cuda    # all nine models on FB15k-237, batch 1024
python benchmarks/train.py --data-dir DIR --device cpu     # steps only, beside a plain step in the same run

On a CPU every measurement has a process of its own, so that none finds memory that another has kept.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import plain_step
from powerlink import load_graph
from powerlink.kernels.host_memory import freed_memory_kept
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.models.checkpoint import versions
from powerlink.models.link_model import build_model
from powerlink.models.presets import PRESETS, Preset
from powerlink.models.ranking import Accuracy, rank_facts
from powerlink.models.training import Trainer

RESULTS = Path(__file__).parent / "results" / "speed"
CPU_OF_LINUX = Path("/proc/cpuinfo")
PEAK_OF_LINUX = Path("/proc/self/clear_refs")  # writing 5 here resets the peak that `status` beside it tells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--data", default="fb15k-237", help="a dataset that has presets")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3, help="epochs, or steps on a CPU, of which the median counts")
    parser.add_argument("--decoders", default="distmult,conve,transe", help="decoders, with commas between them")
    parser.add_argument("--out", type=Path, help="where the results go")
    args = parser.parse_args()
    device = torch.device(args.device)
    out = args.out or RESULTS / f"train_{device.type}.json"
    bandwidth = copy_bandwidth(device)
    report: dict[str, Any] = {
        "command": f"python benchmarks/train.py --data {args.data} --device {device.type} --batch {args.batch}",
        "machine": torch.cuda.get_device_name(device) if device.type == "cuda" else machine(),
        "date": date.today().isoformat(),
        "versions": versions(),
        "copy_gigabytes_per_second": round(bandwidth / 1e9, 1),
        "models": {},
    }
    asked = Asked(args.data, args.data_dir, device, args.batch, args.repeats)
    for name, preset in PRESETS.items():
        if preset.dataset == args.data and preset.model.decoder.name in args.decoders.split(","):
            row = on_gpu(name, asked) if device.type == "cuda" else on_cpu(name, asked)
            report["models"][name] = row | against_the_floor(row, preset, bandwidth)
            print(name, json.dumps(report["models"][name]), flush=True)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(report, indent=1) + "\n")


@dataclass(frozen=True)
class Asked:
    """What is measured, and how."""

    data: str
    data_dir: Path | None
    device: torch.device
    batch: int
    repeats: int

    @cached_property
    def graph(self) -> KnowledgeGraph:
        return load_graph(self.data, data_dir=self.data_dir)

    def trainer(self, name: str) -> Trainer:
        reset_peak_memory(self.device)
        preset, graph = PRESETS[name], self.graph
        network = build_model(preset.model, graph.num_entities, graph.num_relations)
        trainer = Trainer(network, graph, replace(preset.training, batch_size=self.batch, epochs=1000), self.device)
        trainer.model.train()
        return trainer

    def timed(self, work: Callable[[], Any]) -> float:
        return timed(work, self.repeats, self.device, warm_up=2)  # memory that is kept must first be had


def on_gpu(name: str, asked: Asked) -> dict[str, Any]:
    """Time whole epochs."""
    trainer = asked.trainer(name)
    seconds = asked.timed(lambda: _epoch(trainer))
    ranking = asked.timed(lambda: _rank(trainer))
    steps = -(-trainer.targets.pairs.size(0) // asked.batch)
    return {
        "steps_per_epoch": steps,
        "edges": trainer.messages.num_edges,
        "nodes": trainer.messages.num_nodes,
        "seconds_per_epoch": seconds,
        "ranking_test_seconds": ranking,
        "seconds_per_step": round(seconds / steps, 5),
        "peak_gib": round(peak_memory(asked.device) / 2**30, 2),
    }


def on_cpu(name: str, asked: Asked) -> dict[str, Any]:
    """Time steps, since an epoch takes minutes: ours, a plain one, and a plain one whose freed memory is kept."""
    ours = in_a_process(ours_on_cpu, name, asked)
    if ours is None:
        sys.exit(f"{name} does not fit into this machine's memory")
    return ours | {
        "plain": in_a_process(plain_on_cpu, name, asked, False),
        "plain_with_memory_kept": in_a_process(plain_on_cpu, name, asked, True),
    }


def in_a_process(measure: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any] | None:
    """Measure in a process of its own, so that no memory is left from before; None if the system had to kill it."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            return pool.submit(measure, *arguments).result()
        except BrokenProcessPool:
            return None


def ours_on_cpu(name: str, asked: Asked) -> dict[str, Any]:
    """Time our step and its message passing, there and back."""
    trainer = asked.trainer(name)
    pairs = _some_pairs(trainer, asked.batch)
    with freed_memory_kept():  # as training does
        step = asked.timed(lambda: trainer.step(pairs))
        peak = peak_memory(asked.device)
        encode = asked.timed(lambda: trainer.model.encode(trainer.messages).entity.square().sum().backward())
    return {
        "edges": trainer.messages.num_edges,
        "nodes": trainer.messages.num_nodes,
        "seconds_per_step": step,
        "encode_seconds": encode,
        "peak_gib": round(peak / 2**30, 2),
    }


def plain_on_cpu(name: str, asked: Asked, memory_kept: bool) -> dict[str, Any]:
    """Time the same of the plain step."""
    trainer = asked.trainer(name)
    pairs, model, graph = _some_pairs(trainer, asked.batch), trainer.model, trainer.messages
    with freed_memory_kept() if memory_kept else nullcontext():
        encode = asked.timed(lambda: plain_step.encode(model, graph).entity.square().sum().backward())
        step = asked.timed(lambda: plain_step.step(model, graph, trainer.targets, pairs, trainer.optimizer))
    return {"step": step, "encode": encode}


def against_the_floor(row: dict[str, Any], preset: Preset, bandwidth: float) -> dict[str, Any]:
    """Say what passing messages must at least move.

    Per layer and edge one source row in, forwards and backwards, and one row out per node; anything a cache keeps comes
    on top of the memory's speed.
    """
    inputs = preset.model.widths[:-1]
    floor = sum(4 * width * 2 * (row["edges"] + row["nodes"]) for width in inputs) / bandwidth
    return {
        "edges_per_second": round(2 * len(inputs) * row["edges"] / row["seconds_per_step"]),
        "message_floor_seconds": round(floor, 6),
    }


def timed(work: Callable[[], Any], repeats: int, device: torch.device, *, warm_up: int) -> float:
    """Return the median time of some runs, in seconds."""
    seconds = []
    for run in range(warm_up + repeats):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if run >= warm_up:
            seconds.append(time.perf_counter() - start)
    return round(statistics.median(seconds), 4)


def copy_bandwidth(device: torch.device) -> float:
    """Return the bytes per second of a large copy: read plus written."""
    source = torch.rand(2**28 if device.type == "cuda" else 2**25, device=device)
    target = torch.empty_like(source)
    seconds = timed(lambda: [target.copy_(source) for _ in range(10)], 5, device, warm_up=2) / 10
    return 2 * source.numel() * 4 / seconds


def machine() -> str:
    """Tell threads, cores and the processor, as far as it names itself."""
    told = CPU_OF_LINUX.read_text() if CPU_OF_LINUX.exists() else ""
    model = re.findall(r"^model name\s*: (.+)$", told, re.MULTILINE)[:1]
    processor = ", ".join([*model, torch.backends.cpu.get_cpu_capability()])
    return f"{torch.get_num_threads()} threads of a {os.cpu_count()}-core CPU ({processor})"


def reset_peak_memory(device: torch.device) -> None:
    """Forget earlier peaks, where the system can, and what a model before this one still holds."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif PEAK_OF_LINUX.exists():
        PEAK_OF_LINUX.write_text("5")


def peak_memory(device: torch.device) -> int:
    """Return the most bytes held since the last reset."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if PEAK_OF_LINUX.exists():
        status = PEAK_OF_LINUX.with_name("status").read_text()
        return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _epoch(trainer: Trainer) -> None:
    trainer.epoch += 1
    trainer.train_epoch()


def _rank(trainer: Trainer) -> Accuracy:
    trainer.model.eval()
    ranks = rank_facts(trainer.model, trainer.graph, trainer.messages, "test", known=trainer.known)
    return Accuracy.of(ranks)


def _some_pairs(trainer: Trainer, count: int) -> torch.Tensor:
    return torch.randperm(trainer.targets.pairs.size(0), generator=torch.Generator().manual_seed(0))[:count]


if __name__ == "__main__":
    main()
