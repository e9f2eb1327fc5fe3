"""Workers side by side: how throughput grows with them, what scheduling costs, and what random kills cost.

throughput   a job that only waits, and one that computes, on 1, 2 and 4 workers: parcels a second, beside one's
overhead     1,000 parcels that wait for 20 ms: time beyond that
explain      real explanations, one query a batch, serial and on two workers: wall time beside the stages' seconds
kills        explaining into a file while workers and drivers are killed at random: is it what a serial run writes?
gpu          several processes on one GPU against one

python benchmarks/spread.py --parts throughput,overhead,explain,kills
python benchmarks/spread.py --parts gpu --model DIR
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from powerlink import load_model
from powerlink.atomic_file import write_atomically
from powerlink.memory import Budget
from powerlink.models.checkpoint import versions
from powerlink.run.executor import Executor, Parcel
from powerlink.run.explain_many import explain_many, run_batches
from powerlink.run.job import ExplainJob
from powerlink.run.queries import choose_queries
from powerlink.run.workforce import Workforce

RESULTS = Path(__file__).parent / "results" / "spread.json"
KINDS = ("processes", "ray")


@dataclass(frozen=True)
class Waits:
    """A job that keeps no core busy."""

    def run(self, session: None, seconds: float, /) -> float:
        time.sleep(seconds)
        return seconds

    def lost(self, session: None, seconds: float, reason: str, /) -> float:
        raise AssertionError(reason)


@dataclass(frozen=True)
class Computes:
    """A job that keeps one core busy."""

    def run(self, session: None, rounds: int, /) -> float:
        numbers = torch.full((200, 200), 0.001)
        for _ in range(rounds):
            numbers = (numbers @ numbers).clamp(max=0.001)
        return float(numbers.sum())

    def lost(self, session: None, rounds: int, reason: str, /) -> float:
        raise AssertionError(reason)


def seconds_of(executor: Executor, job: Any, content: Any, parcels: int) -> float:
    """Time a job on workers that are there already."""
    done = list(executor.map(job, [Parcel(content, 1)] * 8 * 4, None))  # everybody is hired and warm
    start = time.perf_counter()
    done = list(executor.map(job, [Parcel(content, 1)] * parcels, None))
    took = time.perf_counter() - start
    assert len(done) == parcels
    return took


def throughput(repeats: int = 3) -> dict[str, Any]:
    """Return parcels a second, by kind of workers, kind of job and number of workers."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        for workers in (1, 2, 4):
            with Workforce(executor=kind, workers=workers).hire() as executor:
                for job, content, parcels in ((Waits(), 0.05, 80 * workers), (Computes(), 400, 40 * workers)):
                    rates = [parcels / seconds_of(executor, job, content, parcels) for _ in range(repeats)]
                    row = found.setdefault(f"{kind}, {type(job).__name__.lower()}", {})
                    row[workers] = statistics.median(rates)
                    print(kind, type(job).__name__, workers, f"{row[workers]:.1f} parcels/s", flush=True)
    return {name: {"rate": row, "per worker": {w: row[w] / w / row[1] for w in row}} for name, row in found.items()}


def overhead(workers: int = 2, parcels: int = 1000) -> dict[str, Any]:
    """Return how much longer many parcels take than the waiting in them, on workers that share it evenly."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        with Workforce(executor=kind, workers=workers).hire() as executor:
            for wait, repeats in ((0.02, 3), (0.1, 1)):
                took = [seconds_of(executor, Waits(), wait, parcels) for _ in range(repeats)]
                share = statistics.median(took) / (parcels * wait / workers) - 1
                found.setdefault(kind, {})[f"{wait * 1000:.0f} ms"] = share
                print(f"{kind}: {share:.1%} over {parcels} parcels of {wait} s", flush=True)
    for wait, repeats in ((0.02, 3), (0.1, 1)):
        took = [bare_ray(workers, parcels, wait) for _ in range(repeats)]
        share = statistics.median(took) / (parcels * wait / workers) - 1
        found.setdefault("ray alone, all calls at once", {})[f"{wait * 1000:.0f} ms"] = share
        print(f"ray alone: {share:.1%} over {parcels} calls of {wait} s", flush=True)
    return {"workers": workers, "parcels": parcels, "overhead": found}


def bare_ray(workers: int, parcels: int, wait: float) -> float:
    """Time the same waiting in Ray's own actors, told of all their calls beforehand."""
    import ray  # noqa: PLC0415 - an extra

    class Sleeper:
        def work(self, seconds: float) -> float:
            time.sleep(seconds)
            return seconds

    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    try:
        actors = [ray.remote(num_cpus=1)(Sleeper).remote() for _ in range(workers)]
        ray.get([actor.work.remote(0.0) for actor in actors for _ in range(16)])
        start = time.perf_counter()
        ray.get([actors[i % workers].work.remote(wait) for i in range(parcels)])
        return time.perf_counter() - start
    finally:
        ray.shutdown()


def trained(folder: Path) -> Path:
    """Train a small model of the atlas."""
    command = [sys.executable, "-c", "from powerlink.cli.main import main; main()", "train", "--data", "atlas"]
    parts = ["--encoder", "compgcn", "--decoder", "distmult", "--epochs", "20", "--out", str(folder)]
    subprocess.run([*command, *parts], check=True, capture_output=True)
    return folder


def explaining(folder: Path, queries: int = 1000) -> dict[str, Any]:
    """Return wall seconds of real explanations, a query a batch, serial and on two workers, files included."""
    session = load_model(trained(folder / "m"))
    facts = torch.from_numpy(np.array(session.graph.train))[:queries]
    found: dict[str, Any] = {"queries": len(facts)}
    for kind, settings in {"serial": {}, **{kind: {"executor": kind, "workers": 2} for kind in KINDS}}.items():
        with Workforce(**settings).hire() as executor:  # type: ignore[arg-type]
            explain_many(session, facts[:4], executor=executor)
            executor.budget = lambda job, session: Budget(queries=1)  # type: ignore[method-assign]
            start, busy = time.perf_counter(), 0.0
            for result in run_batches(
                session, facts, ExplainJob(), executor=executor, waiting=folder / f"{kind}.waiting"
            ):
                busy += sum(took.clock for took in result.seconds.values())
            found[kind] = {"wall": time.perf_counter() - start, "busy": busy}
        print(kind, found[kind], flush=True)
    return found


def kills(folder: Path, count: int, seed: int = 0) -> dict[str, Any]:
    """Kill workers and drivers at random times while a file is made; compare it with a serial run's."""
    model, draw = trained(folder / "m"), random.Random(seed)
    command = [sys.executable, "-c", "from powerlink.cli.main import main; main()", "explain", str(model)]
    command += ["--split", "train", "--limit", "1500", "--explainer", "gradient", "--seed", str(seed)]
    subprocess.run([*command, "--out", str(folder / "serial.jsonl")], check=True, capture_output=True)
    expected = (folder / "serial.jsonl").read_bytes()
    found = {"driver": 0, "worker": 0, "files": 0, "equal": 0, "restarts": 0}
    while found["driver"] + found["worker"] < count:
        kind = KINDS[found["files"] % 3 // 2]  # every third on Ray, whose start takes longer
        out = folder / f"{kind}-{found['files']}.jsonl"
        while True:
            extra = ["--executor", kind, "--workers", "2", "--out", str(out)]
            process = subprocess.Popen([*command, *extra], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            while process.poll() is None and found["driver"] + found["worker"] < count:
                time.sleep(draw.uniform(3.0, 9.0))
                if draw.random() < 0.4:
                    process.kill()
                    found["driver"] += process.wait() == -signal.SIGKILL
                elif victims := workers_of(process.pid):
                    os.kill(draw.choice(victims), signal.SIGKILL)
                    found["worker"] += 1
            _, said = process.communicate()
            if process.returncode == 0:
                break
            assert process.returncode == -signal.SIGKILL, said
            found["restarts"] += 1
        found["files"] += 1
        found["equal"] += out.read_bytes() == expected and not Path(f"{out}.waiting").exists()
        print(found, flush=True)
    return found


def workers_of(driver: int) -> list[int]:
    """Return the processes that work for a driver: its own, or those of its Ray cluster."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            title = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        if (parent == driver and "spawn_main" in title) or title.startswith("ray::Workbench"):
            found.append(int(entry.name))
    return found


def on_one_gpu(model: Path, count: int, repeats: int = 1) -> dict[str, Any]:
    """Return queries a second of several processes on one GPU, and of this one alone."""
    session = load_model(model, "cuda")
    facts = torch.from_numpy(np.array(session.graph.test))
    queries = choose_queries(session, facts, "believed", limit=count).queries
    found: dict[str, Any] = {"queries": len(queries), "model": session.name}
    for workers in (0, 1, 2, 4):
        settings: dict[str, Any] = {"executor": "processes", "workers": workers} if workers else {}
        job = ExplainJob(memory=2**34)  # as much for each: batches small enough that there are some for everybody
        with Workforce(**settings).hire("cuda") as executor:
            took = []
            for _ in range(repeats + 1):
                start = time.perf_counter()
                done = sum(len(result.explanations) for result in run_batches(session, queries, job, executor=executor))
                took.append(time.perf_counter() - start)
        found[str(workers)] = done / statistics.median(took[1:])
        print(f"{workers or 'no'} workers: {found[str(workers)]:.0f} queries/s, {took}", flush=True)
    return found


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="throughput,overhead,explain,kills")
    parser.add_argument("--kills", type=int, default=30, help="how many kills")
    parser.add_argument("--queries", type=int, default=1000, help="of the parts explain and gpu")
    parser.add_argument("--model", type=Path, help="of the part gpu")
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args(given)
    saved = json.loads(args.out.read_text("utf-8")) if args.out.is_file() else {}
    with tempfile.TemporaryDirectory() as home:
        parts: dict[str, Callable[[], dict[str, Any]]] = {
            "throughput": throughput,
            "overhead": overhead,
            "explain": lambda: explaining(Path(home), args.queries),
            "kills": lambda: kills(Path(home), args.kills),
            "gpu": lambda: on_one_gpu(args.model, args.queries),
        }
        for part in args.parts.split(","):
            origin = {"command": f"python benchmarks/spread.py --parts {part}", "machine": args.machine}
            found = parts[part]()
            saved[part] = {**origin, "date": date.today().isoformat(), "versions": dict(versions()), **found}
            write_atomically(args.out, (json.dumps(saved, indent=1) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
