"""The paper's eighteen models: trained from their presets, shortest first, one file of results each.

python benchmarks/train_models.py --data-dir DIR --device cuda
python benchmarks/train_models.py --data-dir DIR --only fb15k-237/wgcn-conve --set lr=0.002 epochs=300

Stopped in any way, the same command goes on. Another configuration of a model is another try: the results list every
try with its validation MRR, and the test figures are those of the try that validation chose. Its model is kept as
MODELS/<dataset>_<model>; the others are deleted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from powerlink import ModelSettings, TrainingSettings, load_graph
from powerlink.atomic_file import write_atomically
from powerlink.errors import PowerlinkError, SettingsError, UnknownNameError, WorkerError
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.models.checkpoint import load_model, versions
from powerlink.models.presets import PRESETS, Preset
from powerlink.models.ranking import Accuracy, rank_facts
from powerlink.report.learning_curve import read_log
from powerlink.run.executor import Executor, Parcel
from powerlink.run.train_folder import FolderTraining
from powerlink.run.workforce import Kind, Workforce

RESULTS = Path(__file__).parent / "results" / "models"
INTERRUPTED = 130
LINE = "{:28} {:>9} {:>9} {:>9} {:>7} {:>8} {:>8}"


class OutOfTimeError(Exception):
    """The budget is spent; what was trained so far is saved."""


@dataclass(frozen=True)
class Try:
    """One configuration of one preset."""

    preset: Preset
    graph: KnowledgeGraph
    models: Path
    results: Path

    @property
    def configuration(self) -> dict[str, Any]:
        settings = {"model": self.preset.model.flat(), "training": asdict(self.preset.training)}
        plain: dict[str, Any] = json.loads(json.dumps(settings))
        return {"graph": self.graph.fingerprint, **plain}

    @property
    def command(self) -> str:
        """How to make just this one."""
        was, now = PRESETS[self.preset.name], self.preset
        changed = [
            f"{name}={_text(value)}"
            for before, after in ((was.model.flat(), now.model.flat()), (vars(was.training), vars(now.training)))
            for name, value in after.items()
            if before[name] != value
        ]
        return " ".join(
            ["python benchmarks/train_models.py --only", now.name, *(["--set", *changed] if changed else [])]
        )

    @property
    def home(self) -> Path:
        """Where the model is kept if it is the best of its tries."""
        return self.models / self.preset.name.replace("/", "_")

    @property
    def folder(self) -> Path:
        """Where it is trained: each configuration has its own, so that none is in another's way."""
        return self.folder_of(self.configuration)

    def folder_of(self, configuration: dict[str, Any]) -> Path:
        text = json.dumps(configuration, sort_keys=True)
        return self.models / "trying" / f"{self.home.name}.{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def file(self) -> Path:
        return self.results / f"{self.home.name}.json"

    @property
    def found(self) -> dict[str, Any]:
        """What earlier tries of this preset left."""
        return json.loads(self.file.read_text("utf-8")) if self.file.is_file() else {}

    @property
    def done(self) -> bool:
        return any(self._is(tried["configuration"]) for tried in self.found.get("tried", []))

    def _is(self, told: dict[str, Any]) -> bool:
        """Whether a configuration is this one; those of before listed the settings of other parts, too."""
        model, training = ModelSettings.described(told["model"]), TrainingSettings(**told["training"])
        return (told["graph"], model, training) == (self.graph.fingerprint, self.preset.model, self.preset.training)

    @property
    def cost(self) -> float:
        """How long this takes, in no unit: every pair against every entity, in every epoch."""
        facts = self.graph.train
        pairs = len(np.unique(facts[:, :2], axis=0)) + len(np.unique(facts[:, 1:], axis=0))
        by_decoder = {"distmult": 1.0, "conve": 2.0, "transe": 8.0}  # an absolute difference is no matrix product
        work = pairs * self.graph.num_entities * self.preset.model.widths[-1]
        return self.preset.training.epochs * work * by_decoder[self.preset.model.decoder.name]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder that holds the datasets, one folder each")
    parser.add_argument("--only", help="presets to train, with commas between them")
    parser.add_argument("--models", type=Path, default=Path("models/paper"), help="where models are kept")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where results are kept")
    parser.add_argument("--budget", type=float, help="seconds; no model is begun that would take longer")
    parser.add_argument("--executor", choices=get_args(Kind), default="serial", help="where models are trained")
    parser.add_argument("--workers", type=int, help="how many are trained at once")
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="settings to try")
    args = parser.parse_args(arguments)
    deadline = time.time() + args.budget if args.budget is not None else None
    try:
        presets = [_changed(preset, args.set) for preset in _chosen(args.only)]
        graphs = {name: load_graph(name, data_dir=args.data_dir) for name in {p.dataset for p in presets}}
        tries = [Try(preset, graphs[preset.dataset], args.models, args.results) for preset in presets]
        with Workforce(executor=args.executor, workers=args.workers).hire(args.device) as executor:
            return sweep(tries, args.device, deadline, executor)
    except PowerlinkError as error:
        print(f"train_models: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("train_models: stopped; run the same command again to go on", file=sys.stderr)
        return INTERRUPTED


@dataclass(frozen=True)
class Training:
    """Train a configuration, or say why not: there is no time for it, or it failed."""

    device: str
    deadline: float | None
    tries: list[Try]

    def run(self, session: None, job: Try, /) -> Literal["trained", "waits"] | PowerlinkError:
        if job.done:
            return "trained"
        expected = expected_seconds(job, self.tries, self.device)
        left = None if self.deadline is None else self.deadline - time.time()
        if left is not None and (left <= 0 or (expected is not None and expected > left)):
            return "waits"
        try:
            train(job, self.device, self.deadline)
        except OutOfTimeError:
            return "waits"
        except PowerlinkError as error:  # one that diverges does not keep the others waiting
            return error
        return "trained"

    def lost(self, session: None, job: Try, reason: str, /) -> PowerlinkError:
        return WorkerError(reason)


def sweep(tries: list[Try], device: str, deadline: float | None, executor: Executor) -> int:
    """Train what is not trained yet, shortest first; return the exit code."""
    print(LINE.format("preset", "valid MRR", "test MRR", "paper MRR", "epochs", "s/epoch", "seconds"), flush=True)
    failed, waiting = [], []
    tries = sorted(tries, key=lambda job: job.cost)
    parcels = [Parcel(job, -place) for place, job in enumerate(tries)]  # of equal size, but begun in this order
    for place, outcome in executor.map(Training(device, deadline, tries), parcels, None):
        job = tries[place]
        if outcome == "waits":
            waiting.append(job.preset.name)
        elif isinstance(outcome, PowerlinkError):
            failed.append(job.preset.name)
            print(f"{job.preset.name}: {outcome}", file=sys.stderr, flush=True)
        else:
            settle(job)
            print(told(job), flush=True)
    if waiting:
        print(f"no time left for {', '.join(waiting)}: run the same command again to go on")
    return 1 if failed else 0


def train(job: Try, device: str, deadline: float | None) -> None:
    """Train a configuration to its end and add it to the results."""
    preset = job.preset
    training = FolderTraining(job.folder, job.graph, preset.model, preset.training, device, half=True)
    for report in training.run():
        saved = training.saved_at == report.epoch
        if deadline is not None and saved and not report.stop and time.time() > deadline:
            raise OutOfTimeError
    log, accuracy = read_log(job.folder), training.accuracy
    total = sum(line["seconds"] for line in log)
    to_best = sum(line["seconds"] for line in log if line["epoch"] <= accuracy["epoch"])
    outcome = {
        "epochs": len(log),
        "best_epoch": accuracy["epoch"],
        "seconds": {"to_best": round(to_best, 2), "total": round(total, 2)},
        "seconds_per_epoch": round(total / len(log), 4),
        "device": device_name(device),
        "date": date.today().isoformat(),
    }
    tried = {"configuration": job.configuration, "valid_mrr": accuracy["valid"]["mrr"], **outcome}
    before = job.found
    best = {
        "preset": preset.name,
        "command": job.command,
        "configuration": job.configuration,
        "seed": preset.training.seed,
        **outcome,
        "valid": accuracy["valid"],
        "test": accuracy["test"],
        "test_tails": tails_only(job, device),
        "versions": versions(),
    }
    if before and before["valid"]["mrr"] >= accuracy["valid"]["mrr"]:
        best = before
    best = best | {"tried": [*before.get("tried", []), tried]}
    write_atomically(job.file, (json.dumps(best, indent=1) + "\n").encode())


def tails_only(job: Try, device: str) -> dict[str, float]:
    """Rank the test facts' tails alone, as some papers do: heads are the harder half."""
    session = load_model(job.folder, device)
    ranks = rank_facts(session.settled, job.graph, session.messages, "test")
    return Accuracy.of(ranks[: ranks.numel() // 2]).as_dict()


def settle(job: Try) -> None:
    """Keep the model of the best try and delete those of the others; done again, it does nothing."""
    found = job.found
    for tried in found["tried"]:
        folder = job.folder_of(tried["configuration"])
        if not folder.is_dir():
            continue
        if tried["configuration"] == found["configuration"]:
            shutil.rmtree(job.home, ignore_errors=True)
            folder.rename(job.home)
        else:
            shutil.rmtree(folder)


def expected_seconds(job: Try, tries: list[Try], device: str) -> float | None:
    """Guess the time a configuration still needs from what others took here; None before the first one."""
    here = device_name(device)
    rates = [
        tried["seconds"]["total"] / other.cost * other.preset.training.epochs / tried["epochs"]
        for other in tries
        for tried in other.found.get("tried", [])
        if tried["device"] == here
    ]
    own = [tried for tried in job.found.get("tried", []) if tried["device"] == here]
    epochs = job.preset.training.epochs
    if own:
        whole = own[-1]["seconds_per_epoch"] * epochs
    elif rates:
        whole = statistics.median(rates) * job.cost
    else:
        return None
    trained = len(read_log(job.folder)) if (job.folder / "resume.safetensors").is_file() else 0
    return whole * (epochs - trained) / epochs


def told(job: Try) -> str:
    """Return a line about the best try of a preset."""
    best = job.found
    return LINE.format(
        job.preset.name,
        f"{best['valid']['mrr']:.3f}",
        f"{best['test']['mrr']:.3f}",
        f"{job.preset.paper_mrr:.3f}",
        best["epochs"],
        f"{best['seconds_per_epoch']:.2f}",
        f"{best['seconds']['total']:.0f}",
    )


def device_name(device: str) -> str:
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} of {os.cpu_count()} CPU cores"


def _chosen(only: str | None) -> list[Preset]:
    names = list(PRESETS) if only is None else [name.strip() for name in only.casefold().split(",") if name.strip()]
    for name in names:
        if name not in PRESETS:
            raise UnknownNameError("preset", name, PRESETS)
    return [PRESETS[name] for name in dict.fromkeys(names)]


def _changed(preset: Preset, changes: list[str]) -> Preset:
    """Apply NAME=VALUE settings of the model or of its training."""
    asked: dict[str, dict[str, Any]] = {"training": {}, "model": {}}
    now = {"training": vars(preset.training), "model": preset.model.flat()}
    for change in changes:
        name, equals, text = change.partition("=")
        part = next((p for p in asked if name in now[p]), None)
        if not equals or part is None:
            raise UnknownNameError("setting (as NAME=VALUE)", name, [*now["training"], *now["model"]])
        asked[part][name] = _value(name, text, now[part][name])
    # all at once: widths may only be right together with blocks
    return replace(
        preset, training=replace(preset.training, **asked["training"]), model=replace(preset.model, **asked["model"])
    )


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _value(name: str, text: str, now: Any) -> Any:
    """Read a value of the kind that a setting has now; pairs and widths are written as 100,200."""
    try:
        if isinstance(now, bool):
            return {"true": True, "false": False}[text.casefold()]
        if isinstance(now, tuple) or now is None:
            return tuple(map(int, text.split(",")))
        return type(now)(text)
    except (ValueError, KeyError):
        raise SettingsError(f"--set {name}={text}: expected something like {name}={now}") from None


if __name__ == "__main__":
    sys.exit(main())
