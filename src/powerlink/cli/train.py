"""powerlink train: a model, from a knowledge graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from powerlink.cli.console import (
    Device,
    DeviceOption,
    ForceOption,
    SeedOption,
    StoppedError,
    console,
    errors,
    pick_device,
    progress,
    shown,
)
from powerlink.cli.datasets import DataDirOption
from powerlink.errors import SettingsError, UnknownNameError
from powerlink.kg import catalog
from powerlink.models import presets
from powerlink.models.checkpoint import check_ours, read_description
from powerlink.models.link_model import DEFAULT_LAYERS, DecoderName, EncoderName, ModelSettings
from powerlink.models.link_training import LinkTrainingSettings
from powerlink.models.training import Precision, Schedule, TrainingSettings
from powerlink.report.learning_curve import CURVE
from powerlink.report.wording import counted, duration
from powerlink.run.claim import claimed
from powerlink.run.train_folder import FolderTraining
from powerlink.run.train_links import read_linked_data, train_links

DataOption = Annotated[str, typer.Option(help="A name from `powerlink datasets`, a folder, or a file of triples.")]
SHAPE, TRAINING = ModelSettings(), TrainingSettings()
OutOption = Annotated[Path, typer.Option(help="The model folder to make; an unfinished one is gone on with.")]


def flag(help: str, default: object, **limits: Any) -> Any:
    """Make an option that shows a default without giving it: what was not said leaves a preset alone."""
    return typer.Option(help=f"{help} \\[default: {default}]", show_default=False, **limits)


def train(
    data: DataOption,
    out: OutOption,
    preset: Annotated[
        str | None, typer.Option(help="A model of the paper, see `powerlink presets`; other flags change its settings.")
    ] = None,
    encoder: Annotated[EncoderName | None, flag("How messages are passed.", SHAPE.encoder)] = None,
    decoder: Annotated[DecoderName | None, flag("How a triple is scored.", SHAPE.decoder)] = None,
    dim: Annotated[int | None, flag("Width of all vectors.", 100, min=1)] = None,
    layers: Annotated[int | None, flag("Message-passing layers.", "2; for rgcn 1", min=1)] = None,
    epochs: Annotated[int | None, flag("Most passes over the data.", TRAINING.epochs, min=1)] = None,
    batch_size: Annotated[int | None, flag("(head, relation) pairs per step.", TRAINING.batch_size, min=2)] = None,
    lr: Annotated[float | None, flag("Adam's learning rate; a schedule's highest.", TRAINING.lr, min=0)] = None,
    schedule: Annotated[
        Schedule | None,
        flag("How the learning rate runs; one-cycle rises, then falls to the end.", TRAINING.schedule),
    ] = None,
    weight_decay: Annotated[
        float | None, flag("How strongly weights are drawn to zero.", TRAINING.weight_decay, min=0)
    ] = None,
    label_smoothing: Annotated[
        float | None, flag("How much of every label is doubt.", TRAINING.label_smoothing, min=0, max=1)
    ] = None,
    precision: Annotated[
        Precision | None,
        flag("mixed is faster on a GPU, with shorter numbers; a CPU computes in full.", TRAINING.precision),
    ] = None,
    patience: Annotated[
        int | None, flag("Evaluations without progress before stopping.", TRAINING.patience, min=1)
    ] = None,
    links: Annotated[
        bool,
        typer.Option(
            "--links",
            help="Of a folder of typed nodes and edges: learn its links against its negatives, and let links carry no "
            "message.",
        ),
    ] = False,
    half: Annotated[
        bool, typer.Option("--half", help="Save the weights in half precision: half the size, the same ranks.")
    ] = False,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    data_dir: DataDirOption = None,
    force: ForceOption = False,
) -> None:
    """Train a link-prediction model and save it as a folder.

    Stops early when validation MRR no longer gets better. Run the same command again after a kill: it goes on where
    it was. --preset takes a model of the paper as a whole.

    Example: powerlink train --data atlas --encoder compgcn --decoder distmult --out models/atlas

    Example: powerlink train --data fb15k-237 --preset wgcn-conve --out models/wgcn-conve
    """
    flags = {
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": lr,
        "schedule": schedule,
        "weight_decay": weight_decay,
        "label_smoothing": label_smoothing,
        "precision": precision,
        "patience": patience,
    }
    if not force:
        check_ours(out)  # before the data is read, which may take a while
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    if links:
        _refuse(given.keys() - {"epochs", "lr"} | ({"preset"} if preset else set()))
    if preset is None:
        chosen = encoder or SHAPE.encoder
        widths = (dim or 100,) * ((layers or DEFAULT_LAYERS[chosen]) + 1)
        blocks = SHAPE.blocks
        while chosen == "rgcn" and widths[0] % blocks:
            blocks -= 1  # no flag sets them, and any --dim should do
        model = ModelSettings(encoder=chosen, decoder=decoder or SHAPE.decoder, widths=widths, blocks=blocks)
        training = TRAINING
    else:
        shape = {"--encoder": encoder, "--decoder": decoder, "--dim": dim, "--layers": layers}
        if refused := [flag for flag, value in shape.items() if value is not None]:
            raise SettingsError(f"--preset decides the model's shape: leave out {' and '.join(refused)}, or --preset")
        found = _preset(data, preset)
        model, training = found.model, found.training
    if links:
        _train_links(data, out, model, LinkTrainingSettings(**given, seed=seed), device, half=half, force=force)
        return
    chosen_training = replace(training, **given, seed=seed)
    train_with_progress(data, out, model, chosen_training, device, data_dir, seed, half=half, force=force)


def _refuse(names: set[str]) -> None:
    if names:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in sorted(names))
        raise SettingsError(f"--links trains on all links at once, and has no use for {flags}: leave out either")


def _train_links(
    data: str,
    out: Path,
    model: ModelSettings,
    training: LinkTrainingSettings,
    device: Device,
    *,
    half: bool,
    force: bool,
) -> None:
    """Train on links, showing loss and validation ROC-AUC as they come."""
    place, linked = pick_device(device), read_linked_data(data)
    for note in linked.notes:
        errors.print(f"note: {shown(note)}", style="dim")
    try:
        with progress("loss {task.fields[loss]}", "AUC {task.fields[auc]}") as bar:
            task = bar.add_task("epoch", total=training.epochs, loss="…", auc="…")

            def told(loss: float, auc: float) -> None:
                bar.update(task, advance=1, loss=f"{loss:.4f}", auc=f"{auc:.3f}")

            train_links(linked, out, model=model, training=training, device=place, half=half, force=force, told=told)
    except KeyboardInterrupt:
        raise StoppedError("nothing was written: such a model is saved when it is done") from None
    accuracy = read_description(out)["accuracy"]["link_auc"]
    told_auc = ", ".join(f"{split} {auc:.3f}" for split, auc in accuracy.items())
    console.print(f"ROC-AUC of links against negatives: {told_auc}")
    console.print(f"model saved in {shown(out)}", soft_wrap=True)


def _preset(data: str, name: str) -> presets.Preset:
    """Find a preset for what the data is called: its own name, or that of its folder or file."""
    try:
        return presets.preset(Path(data).expanduser().resolve().name.split(".")[0], name)
    except UnknownNameError as error:
        if error.closest:
            raise
        raise SettingsError(f"{error}; `powerlink presets` lists them") from None


def train_with_progress(
    data: str,
    out: Path,
    model: ModelSettings,
    training: TrainingSettings,
    device: Device,
    data_dir: Path | None,
    seed: int,
    *,
    half: bool = False,
    force: bool = False,
) -> None:
    """Train, showing epoch, loss and validation MRR as they come."""
    place = pick_device(device)
    graph = catalog.load(data, data_dir=data_dir, seed=seed)
    for note in graph.notes:
        errors.print(f"note: {shown(note)}", style="dim")
    console.print(
        f"{shown(graph.name)}: {graph.num_entities:,} entities, {counted(graph.num_relations, 'relation')}, "
        f"{counted(len(graph.train), 'training fact')}"
    )
    with claimed(out, folder=True):
        job = FolderTraining(out, graph, model, training, place, half=half, force=force)
        if job.finished:
            console.print(f"{shown(out)} is already trained with these settings", soft_wrap=True)
        elif job.resumed_at:
            console.print(f"going on after epoch {job.resumed_at}")
        try:
            with progress("loss {task.fields[loss]}", "MRR {task.fields[mrr]}", "{task.fields[pace]}") as bar:
                fields: dict[str, Any] = {"loss": "…", "mrr": "…", "pace": ""}
                task = bar.add_task("epoch", total=training.epochs, completed=job.resumed_at, **fields)
                for report in job.run():
                    pace = f"{duration(_seconds(job) / len(job.log))}/epoch"
                    bar.update(task, completed=report.epoch, loss=f"{report.loss:.4f}", pace=pace)
                    if report.validation:
                        bar.update(task, mrr=f"{report.validation.mrr:.3f} (best {report.best_mrr:.3f})")
        except KeyboardInterrupt:
            kept = f"after epoch {job.saved_at}" if job.saved_at else "from the start"
            raise StoppedError(f"run the same command again to go on {kept}") from None
    accuracy = job.accuracy.get("test") or job.accuracy.get("valid") or {}
    console.print(
        f"best at epoch {job.accuracy.get('epoch')}: "
        f"{'test' if 'test' in job.accuracy else 'validation'} MRR {accuracy.get('mrr', 0):.3f}, "
        f"Hits@1 {accuracy.get('hits@1', 0):.3f}, Hits@3 {accuracy.get('hits@3', 0):.3f}, "
        f"Hits@10 {accuracy.get('hits@10', 0):.3f}"
    )
    if job.log:
        console.print(f"{counted(len(job.log), 'epoch')} in {duration(_seconds(job))}")
    console.print(f"model saved in {shown(out)}", soft_wrap=True)
    if (out / CURVE).is_file():
        console.print(f"learning curve in {shown(out / CURVE)}", soft_wrap=True)


def _seconds(job: FolderTraining) -> float:
    return float(sum(line.get("seconds", 0) for line in job.log))  # logs of older versions do not say
