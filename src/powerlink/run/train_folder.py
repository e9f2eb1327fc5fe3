"""Training into a model folder: the best weights are always on disk, and a killed training goes on where it was."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from powerlink.atomic_file import write_atomically
from powerlink.errors import DataError, MismatchError, ModelError
from powerlink.kernels.fused import on_device
from powerlink.kernels.plain_torch import plain_torch
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.models.calibration import Calibration, calibrate
from powerlink.models.checkpoint import (
    load_model,
    load_resume,
    read_description,
    read_settings,
    save_model,
    save_resume,
    start_folder,
)
from powerlink.models.link_model import ModelSettings, build_model
from powerlink.models.session import Session
from powerlink.models.shards import load_weights, matches
from powerlink.models.training import EpochReport, Trainer, TrainingSettings
from powerlink.models.training_plan import TrainingPlan, plan_training, settled
from powerlink.report.learning_curve import LOG, write_learning_curve
from powerlink.run.claim import claimed

CHOSEN = ("neighbours", "negatives", "batch_size")  # by the plan where nothing is said


class FolderTraining:
    """One training and its folder. `run` yields a report per epoch; afterwards `accuracy` holds the final figures.

    `half` saves the weights in half precision, and the test figures are those of the weights as saved.
    """

    def __init__(
        self,
        folder: Path,
        graph: KnowledgeGraph,
        model: ModelSettings,
        training: TrainingSettings,
        device: torch.device | str = "cpu",
        *,
        half: bool = False,
        force: bool = False,
    ) -> None:
        if graph.num_entities < 2:
            raise DataError(f"{graph.name} has no two entities: there is nothing to predict")
        self.folder = folder
        self.graph = graph
        self.model = model
        self.training = training
        self.half = half
        self.accuracy: dict[str, Any] = {}
        self.log: list[dict[str, Any]] = []  # a line per epoch, as in training.jsonl
        self.told: Callable[[TrainingPlan], None] | None = None  # hears the plan, and again when steps were timed
        self.resumed_at = self.saved_at = 0  # the epoch a restart went on behind, and the one the next would
        self.finished = self._already_finished()
        if self.finished:
            return
        state = load_resume(folder)
        if state is not None:
            self._check_same(json.loads(state[2]))
        self.plan = plan_training(model, graph, self.training, device)
        self.training = self.plan.settings
        self.identity = json.dumps(
            {"model": asdict(model), "training": asdict(self.training), "graph": graph.fingerprint, "half": half},
            sort_keys=True,
        )
        network = build_model(model, graph.num_entities, graph.num_relations, training.seed)
        self.trainer = Trainer(network, graph, self.training, device)
        if state is not None:
            self.trainer.restore(*state[:2])
        self.resumed_at = self.saved_at = self.trainer.epoch
        start_folder(folder, graph, force=force)

    def run(self) -> Iterator[EpochReport]:
        """Train to the end, keeping the folder current."""
        if self.finished:
            return
        self.log = self._log_up_to(self.trainer.epoch)
        # A kill while the best weights were being replaced: the next evaluated ones must take their place.
        lost = self.resumed_at > 0 and not matches(self.folder, read_description(self.folder)["files"])
        if self.told is not None:
            self.told(self.plan)
            self.trainer.told = self._hear_pace
        reports = self.trainer.run()
        try:
            start = time.perf_counter()
            for report in reports:
                rate = float(self.trainer.optimizer.param_groups[0]["lr"])  # of the epoch's last step
                self.log.append(_log_line(report, time.perf_counter() - start, rate))
                if report.validation is not None:
                    if report.improved or lost:
                        self._save({"valid": report.validation.as_dict(), "epoch": report.epoch}, finished=False)
                        lost = False
                    self._write_log()
                    # last, so that what it vouches for is already there
                    save_resume(self.folder, *self.trainer.state(), self.identity)
                    self.saved_at = report.epoch
                yield report
                start = time.perf_counter()
        except KeyboardInterrupt:
            if self.saved_at:
                write_learning_curve(self.folder)
            raise
        self._finish()

    def _hear_pace(self, seconds: float) -> None:
        self.plan = replace(self.plan, epoch_seconds=seconds)
        if self.told is not None:
            self.told(self.plan)

    def _finish(self) -> None:
        """Judge the best weights, as they are saved, on the test split and close the folder."""
        trainer = self.trainer
        description = read_description(self.folder)
        tensors, other = load_weights(self.folder, description["files"])
        if other is not None:
            raise ModelError(f"{self.folder / other} was changed by someone else: delete {self.folder} to train anew")
        trainer.model.load_state_dict(tensors)
        trainer.model.eval()
        accuracy = dict(description["accuracy"])
        with torch.no_grad(), on_device(trainer.messages.device):
            embeddings = trainer.model.encode(trainer.messages)
            if len(self.graph.test):
                accuracy["test"] = trainer.accuracy_of("test", embeddings).as_dict()
            calibration = calibrate(trainer.model, self.graph, embeddings, trainer.known)
        write_learning_curve(self.folder)
        self._save(accuracy, finished=True, calibration=calibration)
        (self.folder / "resume.safetensors").unlink(missing_ok=True)
        self.finished = True

    def _write_log(self) -> None:
        lines = "".join(json.dumps(line) + "\n" for line in self.log)
        write_atomically(self.folder / LOG, lines.encode())

    def _save(self, accuracy: dict[str, Any], *, finished: bool, calibration: Calibration | None = None) -> None:
        self.accuracy = accuracy
        save_model(
            self.folder,
            self.trainer.model,
            self.graph,
            self.training,
            accuracy,
            finished=finished,
            half=self.half,
            calibration=calibration,
        )

    def _already_finished(self) -> bool:
        if not (self.folder / "model.json").is_file():
            return False
        description = read_description(self.folder)
        there = {
            "model": description["model"],
            "training": description["training"],
            "graph": description["graph"]["fingerprint"],
            "half": description.get("half", False),
        }
        self._check_same(there)
        self.accuracy = description["accuracy"]
        return bool(description["finished"])

    def _check_same(self, there: dict[str, Any]) -> None:
        """Refuse to go on with, or to overwrite, a training that was set up differently; adopt what it chose itself."""
        if there["graph"] != self.graph.fingerprint:
            raise MismatchError(f"{self.folder} holds a model of another graph: choose another --out, or delete it")
        # What an older version did not know of, it did as the default does.
        model, training = read_settings(self.folder, there)
        training = settled(training)
        chosen = {name: getattr(training, name) for name in CHOSEN if getattr(self.training, name) is None}
        self.training = replace(self.training, **chosen)
        for earlier, asked in ((model.flat(), self.model.flat()), (vars(training), vars(self.training))):
            for name, value in asked.items():
                if earlier.get(name) != value:
                    raise MismatchError(
                        f"{self.folder} holds a model trained with {name} {earlier.get(name)}, not {value}: "
                        "choose another --out, or delete it"
                    )
        if there.get("half", False) != self.half:
            kept = "full" if self.half else "half"
            raise MismatchError(
                f"{self.folder} keeps its weights in {kept} precision: choose another --out, or delete it"
            )

    def _log_up_to(self, epoch: int) -> list[dict[str, Any]]:
        """Return the log's lines of epochs that are not going to be run again."""
        path = self.folder / LOG
        if not epoch or not path.is_file():
            return []
        try:
            lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            return [line for line in lines if line["epoch"] <= epoch]
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise ModelError(f"{path} is damaged ({error}): delete it to go on without its lines") from error


def train(
    graph: KnowledgeGraph,
    out: str | Path,
    *,
    model: ModelSettings | None = None,
    training: TrainingSettings | None = None,
    device: torch.device | str = "cpu",
    half: bool = False,
    force: bool = False,
    told: Callable[[TrainingPlan], None] | None = None,
) -> Session:
    """Train a model into a folder, or finish what is there, and return it ready to be asked.

    A folder in which somebody else keeps weights or a graph is refused unless `force`. `told` hears before the first
    step what the training needs, and again, with an epoch's seconds, once the first steps were timed.
    """
    settings = model or ModelSettings(), training or TrainingSettings()
    with claimed(Path(out), folder=True), plain_torch(device), torch.enable_grad():
        job = FolderTraining(Path(out), graph, *settings, device, half=half, force=force)
        job.told = told
        for _ in job.run():
            pass
    return load_model(out, device)


def _log_line(report: EpochReport, seconds: float, rate: float) -> dict[str, Any]:
    line: dict[str, Any] = {"epoch": report.epoch, "loss": report.loss, "best_mrr": report.best_mrr, "lr": rate}
    line["seconds"] = round(seconds, 4)  # of training and validation, not of writing
    if report.validation is not None:
        line["valid"] = report.validation.as_dict()
    return line
