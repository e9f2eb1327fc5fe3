"""powerlink train: a model, from a knowledge graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from powerlink.cli.console import (
    Device,
    DeviceOption,
    SeedOption,
    StoppedError,
    console,
    errors,
    pick_device,
    progress,
    shown,
)
from powerlink.cli.datasets import DataDirOption
from powerlink.kg import catalog
from powerlink.models.link_model import DEFAULT_LAYERS, DecoderName, EncoderName, ModelSettings
from powerlink.models.training import TrainingSettings
from powerlink.report.wording import counted
from powerlink.run.train_folder import FolderTraining

DataOption = Annotated[str, typer.Option(help="A name from `powerlink datasets`, a folder, or a file of triples.")]
OutOption = Annotated[Path, typer.Option(help="The model folder to make; an unfinished one is gone on with.")]


def train(
    data: DataOption,
    out: OutOption,
    encoder: Annotated[EncoderName, typer.Option(help="How messages are passed.")] = "compgcn",
    decoder: Annotated[DecoderName, typer.Option(help="How a triple is scored.")] = "distmult",
    epochs: Annotated[int, typer.Option(help="Most passes over the data.", min=1)] = 200,
    dim: Annotated[int, typer.Option(help="Width of all vectors.", min=1)] = 100,
    layers: Annotated[
        int | None, typer.Option(help="Message-passing layers.", min=1, show_default="2; for rgcn 1")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="(head, relation) pairs per step.", min=2)] = 256,
    lr: Annotated[float, typer.Option(help="Adam's learning rate.", min=0)] = 0.003,
    patience: Annotated[int, typer.Option(help="Evaluations without progress before stopping.", min=1)] = 5,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    data_dir: DataDirOption = None,
) -> None:
    """Train a link-prediction model and save it as a folder.

    Stops early when validation MRR no longer gets better. Run the same command again after a kill: it goes on where
    it was.

    Example: powerlink train --data atlas --encoder compgcn --decoder distmult --out models/atlas
    """
    depth = layers or DEFAULT_LAYERS[encoder]
    model = ModelSettings(encoder=encoder, decoder=decoder, widths=(dim,) * (depth + 1))
    training = TrainingSettings(epochs=epochs, batch_size=batch_size, lr=lr, patience=patience, seed=seed)
    train_with_progress(data, out, model, training, device, data_dir, seed)


def train_with_progress(
    data: str,
    out: Path,
    model: ModelSettings,
    training: TrainingSettings,
    device: Device,
    data_dir: Path | None,
    seed: int,
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
    job = FolderTraining(out, graph, model, training, place)
    if job.finished:
        console.print(f"{shown(out)} is already trained with these settings", soft_wrap=True)
    elif job.resumed_at:
        console.print(f"going on after epoch {job.resumed_at}")
    try:
        with progress("loss {task.fields[loss]}", "valid MRR {task.fields[mrr]}") as bar:
            task = bar.add_task(model.name, total=training.epochs, loss="…", mrr="…")
            for report in job.run():
                bar.update(task, completed=report.epoch, loss=f"{report.loss:.4f}")
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
    console.print(f"model saved in {shown(out)}", soft_wrap=True)
