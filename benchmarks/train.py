"""How fast training is: seconds per epoch, edges per second against the memory's own speed, peak memory.

python benchmarks/train.py --data-dir DIR --device cuda    # all nine models on FB15k-237, batch 1024
python benchmarks/train.py --data-dir DIR --device cpu     # steps only, beside a plain step in the same run

On a CPU every model has a process of its own, in which the plain step comes first: memory that ours keeps would help it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import date
from functools import cache
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
from powerlink.models.presets import PRESETS
from powerlink.models.ranking import Accuracy, rank_facts
from powerlink.models.training import Trainer

RESULTS = Path(__file__).parent / "results" / "speed"
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
    chosen = [p for p in PRESETS.values() if p.dataset == args.data and p.model.decoder in args.decoders.split(",")]
    asked = (args.data, args.data_dir, device, args.batch, args.repeats, bandwidth)
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1 if device.type == "cpu" else None) as pool:
        for preset in chosen:
            row = pool.submit(measure, preset.name, *asked).result()
            report["models"][preset.name] = row
            print(preset.name, json.dumps(row), flush=True)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(report, indent=1) + "\n")


def measure(
    name: str, data: str, data_dir: Path | None, device: torch.device, batch: int, repeats: int, bandwidth: float
) -> dict[str, Any]:
    """Time one model: whole epochs on a GPU; on a CPU, where an epoch takes minutes, steps."""
    preset, graph = PRESETS[name], loaded(data, data_dir)
    settings = replace(preset.training, batch_size=batch, epochs=1000)
    reset_peak_memory(device)
    network = build_model(preset.model, graph.num_entities, graph.num_relations)
    trainer = Trainer(network, graph, settings, device)
    trainer.model.train()
    steps = -(-trainer.targets.pairs.size(0) // batch)
    row: dict[str, Any] = {"steps_per_epoch": steps, "edges": trainer.messages.num_edges}
    if device.type == "cuda":
        seconds = timed(lambda: _epoch(trainer), repeats, device, warm_up=1)
        row["seconds_per_epoch"] = seconds
        step = seconds / steps
        row["ranking_test_seconds"] = timed(lambda: _rank(trainer), repeats, device, warm_up=1)
    else:
        pairs = torch.randperm(trainer.targets.pairs.size(0), generator=torch.Generator().manual_seed(0))[:batch]
        plain = timed(lambda: _plain(trainer, pairs), repeats, device, warm_up=1)
        plain_encode = timed(lambda: _plain_there_and_back(trainer), repeats, device, warm_up=1)
        reset_peak_memory(device)
        with freed_memory_kept():  # as training does
            step = timed(lambda: trainer.step(pairs), repeats, device, warm_up=2)
            row["peak_gib"] = round(peak_memory(device) / 2**30, 2)
            encode = timed(lambda: _there_and_back(trainer), repeats, device, warm_up=1)
            plain_kept = timed(lambda: _plain(trainer, pairs), repeats, device, warm_up=1)
            plain_encode_kept = timed(lambda: _plain_there_and_back(trainer), repeats, device, warm_up=1)
        row |= {
            "encode_seconds": encode,
            "plain": {"step": plain, "encode": plain_encode},
            "plain_with_memory_kept": {"step": plain_kept, "encode": plain_encode_kept},
        }
    # What passing messages must at least move: per layer and edge one source row in, forwards and backwards, and one
    # row out per node; anything a cache keeps comes on top of the memory's speed.
    widths = preset.model.widths
    floor = sum(4 * width * 2 * (trainer.messages.num_edges + graph.num_entities) for width in widths[:-1]) / bandwidth
    row["seconds_per_step"] = round(step, 5)
    row["edges_per_second"] = round(2 * (len(widths) - 1) * trainer.messages.num_edges / step)
    row["message_floor_seconds"] = round(floor, 6)
    row.setdefault("peak_gib", round(peak_memory(device) / 2**30, 2))
    return row


@cache
def loaded(data: str, data_dir: Path | None) -> KnowledgeGraph:
    return load_graph(data, data_dir=data_dir)


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
    return f"{torch.get_num_threads()} threads of a {os.cpu_count()}-core CPU"


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


def _plain(trainer: Trainer, pairs: torch.Tensor) -> None:
    plain_step.step(trainer.model, trainer.messages, trainer.targets, pairs, trainer.optimizer)


def _there_and_back(trainer: Trainer) -> None:
    trainer.model.encode(trainer.messages).entity.square().sum().backward()


def _plain_there_and_back(trainer: Trainer) -> None:
    plain_step.encode(trainer.model, trainer.messages).entity.square().sum().backward()


if __name__ == "__main__":
    main()
