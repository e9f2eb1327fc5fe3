"""Graphs of millions of facts: what it takes to build, train, open and explain, and how that grows.

Generated graphs whose neighbourhoods do not grow with them and whose facts can be learned (`planted_graph`), saved as
graph folders. Every stage runs in a process of its own, so that its peak memory is its own: build the graph and save
it; read it and train an epoch on drawn neighbourhoods and tails; open the model; explain test facts. Results go to
results/scale_DEVICE.json, with the slopes of log seconds against log facts.

    python benchmarks/scale.py [--facts 1e6,5e6,2e7] [--device cuda --machine "one H200 GPU"]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from generated_graph import planted_graph
from powerlink import ModelSettings, TrainingSettings, explain_many, load_graph, load_model
from powerlink.kg.storage import save_graph
from powerlink.models.checkpoint import versions
from powerlink.models.training import Trainer
from powerlink.run.train_folder import FolderTraining

RESULTS = Path(__file__).parent / "results"
RELATIONS = 16
Stage = dict[str, Any]


def build(folder: Path, facts: int) -> Stage:
    """Draw a graph and save it as a folder."""
    start = time.perf_counter()
    graph = planted_graph(facts, RELATIONS)
    drawn = time.perf_counter()
    save_graph(graph, folder / "graph")
    return {
        "facts": len(graph.train),
        "entities": graph.num_entities,
        "draw seconds": round(drawn - start, 2),
        "save seconds": round(time.perf_counter() - drawn, 2),
    }


def train(folder: Path, shape: ModelSettings, training: TrainingSettings, device: str) -> Stage:
    """Read the graph and train on it; the last epoch is validated, and the model ranked on test facts."""
    start = time.perf_counter()
    graph = load_graph(str(folder / "graph"))
    read = time.perf_counter()
    job = FolderTraining(folder / "model", graph, shape, training, device)
    indexed = time.perf_counter()
    epochs: list[float] = []
    job.trainer.train_epoch = timed(job.trainer.train_epoch, epochs)  # type: ignore[method-assign]
    plans: list[float] = []
    job.told = lambda plan: plans.append(plan.epoch_seconds or 0.0)
    for report in job.run():
        print(f"  epoch {report.epoch}: loss {report.loss:.5f}, {epochs[-1]:.1f} s", flush=True)
    return {
        "read seconds": round(read - start, 2),
        "index seconds": round(indexed - read, 2),
        "epoch seconds": round(min(epochs), 2),
        "epoch seconds told beforehand": round(plans[-1], 2),
        "validate, test, save seconds": round(time.perf_counter() - indexed - sum(epochs), 2),
        "told beforehand GiB": round(job.plan.memory / 2**30, 2),
        "pairs": job.trainer.targets.pairs.size(0),
        "edges of a step": edges_of_a_step(job.trainer),
        "test": job.accuracy["test"],
    }


def edges_of_a_step(trainer: Trainer) -> int:
    """Draw a step's neighbourhoods once more and count: what is around fewer entities is shared by more of a step."""
    assert trainer.sampled is not None
    pairs = torch.arange(trainer.targets.pairs.size(0), device=trainer.messages.device)
    with torch.no_grad():
        _, drawn = trainer.sampled(
            trainer.model, pairs[torch.randperm(len(pairs))][: trainer.settings.pairs_per_step], 0
        )
    return drawn.num_edges


def timed(run: Callable[[], float], seconds: list[float]) -> Callable[[], float]:
    """Note how long each run takes."""

    def noted() -> float:
        start = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - start)
        return result

    return noted


def explain(folder: Path, count: int, device: str) -> Stage:
    """Open the model and explain some test facts."""
    start = time.perf_counter()
    session = load_model(folder / "model", device)
    opened = time.perf_counter()
    drawn = np.random.default_rng(0).permutation(session.graph.test)[:count].copy()
    explanations = explain_many(session, torch.from_numpy(drawn))
    sizes = [explanation.size for explanation in explanations if explanation.size]
    return {
        "open seconds": round(opened - start, 2),
        "explain seconds": round(time.perf_counter() - opened, 2),
        "explained": len(explanations),
        "edges, mean": round(sum(size.edges for size in sizes) / max(len(sizes), 1)),
    }


def measured(stage: Callable[..., Stage], *arguments: Any) -> Stage:
    """Run a stage and add what memory it took at its highest."""
    start, cpu = time.perf_counter(), time.process_time()
    told = stage(*arguments)
    told["seconds"] = round(time.perf_counter() - start, 2)
    told["processor seconds"] = round(time.process_time() - cpu, 2)
    told["peak resident GiB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
    if torch.cuda.is_initialized():
        told["peak device GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    return told


def apart(stage: Callable[..., Stage], *arguments: Any) -> Stage:
    """Run a stage in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        told = pool.submit(measured, stage, *arguments).result()
    print(f"{stage.__name__}: {json.dumps(told)}", flush=True)
    return told


def slopes(rows: list[dict[str, Stage]]) -> dict[str, float]:
    """Fit log seconds against log facts, stage by stage."""
    facts = np.log([row["build"]["facts"] for row in rows])
    found = {}
    for stage in rows[0]:
        for name in rows[0][stage]:
            if name.endswith("seconds") and len(rows) > 1 and all(row[stage][name] > 0 for row in rows):
                line = np.polyfit(facts, np.log([row[stage][name] for row in rows]), 1)
                found[f"{stage}: {name}"] = round(float(line[0]), 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", default="1e6,5e6,2e7")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--encoder", default="compgcn")
    parser.add_argument("--decoder", default="distmult")
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--neighbours", type=int, default=5)
    parser.add_argument("--negatives", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--explain", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where graphs and models go; a temporary folder if it is not said")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    widths = (asked.dim,) * (asked.layers + 1)
    shape = ModelSettings(encoder=asked.encoder, decoder=asked.decoder, widths=widths)
    training = TrainingSettings(
        epochs=asked.epochs,
        evaluate_every=asked.epochs,
        lr=0.01,
        label_smoothing=0.0,
        neighbours=asked.neighbours,
        negatives=asked.negatives,
        batch_size=asked.batch_size,
        ranked_facts=1_000,
    )
    rows: list[dict[str, Stage]] = []
    path = asked.results / f"scale_{asked.device.split(':')[0]}.json"
    with tempfile.TemporaryDirectory(dir=asked.folder) as place:
        for facts in map(int, map(float, asked.facts.split(","))):
            folder = Path(place) / str(facts)
            print(f"{facts:,} facts", flush=True)
            row = {"build": apart(build, folder, facts)}
            row["train"] = apart(train, folder, shape, training, asked.device)
            row["explain"] = apart(explain, folder, asked.explain, asked.device)
            rows.append(row)
            how = {name: value for name, value in vars(asked).items() if name not in ("folder", "machine", "results")}
            found = {
                "command": " ".join(["python benchmarks/scale.py", *sys.argv[1:]]),
                "machine": asked.machine,
                "threads": torch.get_num_threads(),
                "date": date.today().isoformat(),
                "versions": dict(versions()),
                "settings": how,
                "sizes": rows,
                "slopes": slopes(rows),
            }
            path.write_text(json.dumps(found, indent=1) + "\n")  # after every size: what was measured is kept
            print(json.dumps(found["slopes"]), flush=True)


if __name__ == "__main__":
    main()
