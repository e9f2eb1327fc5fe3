"""powerlink train: a model, from a knowledge graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from powerlink.cli.console import Device, DeviceOption, SeedOption, console, errors, pick_device, progress, stopped
from powerlink.cli.datasets import DataDirOption
from powerlink.kg import catalog
from powerlink.models.link_model import PAPER_LAYERS, DecoderName, EncoderName, ModelSettings
from powerlink.models.training import TrainingSettings
from powerlink.report.wording import harmless
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
    layers: Annotated[int | None, typer.Option(help="Message-passing layers [default: 1, WGCN 2].", min=1)] = None,
    batch_size: Annotated[int, typer.Option(help="(head, relation) pairs per step.", min=1)] = 256,
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
    depth = layers or PAPER_LAYERS[encoder]
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
        errors.print(f"note: {harmless(note)}", markup=False, style="dim")
    console.print(
        f"{harmless(graph.name)}: {graph.num_entities:,} entities, {graph.num_relations:,} relations, "
        f"{len(graph.train):,} training facts",
        markup=False,
    )
    job = FolderTraining(out, graph, model, training, place)
    if job.finished:
        console.print(f"{out} is already trained with these settings", markup=False)
    elif job.resumed_at:
        console.print(f"going on after epoch {job.resumed_at}", markup=False)
    try:
        with progress("loss {task.fields[loss]}", "valid MRR {task.fields[mrr]}") as bar:
            task = bar.add_task(model.name, total=training.epochs, loss="…", mrr="…")
            for report in job.run():
                bar.update(task, completed=report.epoch, loss=f"{report.loss:.4f}")
                if report.validation:
                    bar.update(task, mrr=f"{report.validation.mrr:.3f} (best {report.best_mrr:.3f})")
    except KeyboardInterrupt:
        raise stopped(f"run the same command again to go on; {out} keeps the best model so far") from None
    accuracy = job.accuracy.get("test") or job.accuracy.get("valid") or {}
    console.print(
        f"best at epoch {job.accuracy.get('epoch')}: "
        f"{'test' if 'test' in job.accuracy else 'validation'} MRR {accuracy.get('mrr', 0):.3f}, "
        f"Hits@1 {accuracy.get('hits@1', 0):.3f}, Hits@3 {accuracy.get('hits@3', 0):.3f}, "
        f"Hits@10 {accuracy.get('hits@10', 0):.3f}",
        markup=False,
    )
    console.print(f"model saved in {out}", markup=False)
