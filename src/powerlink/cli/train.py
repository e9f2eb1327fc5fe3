"""powerlink train: a model, from a knowledge graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from powerlink.cli.console import StoppedError, console, errors, pick_device, progress, shown
from powerlink.cli.datasets import DataDirOption
from powerlink.cli.derived_flags import with_flags
from powerlink.cli.options import Device, DeviceOption, ForceOption, SeedOption
from powerlink.errors import SettingsError, UnknownNameError
from powerlink.models.model_settings import DECODER, ENCODER, ModelSettings
from powerlink.models.part import DECODER_SETTINGS, ENCODER_SETTINGS
from powerlink.models.training_settings import TrainingSettings
from powerlink.report.wording import counted, duration
from powerlink.settings import settings_of

if TYPE_CHECKING:
    from powerlink.models.link_training import LinkTrainingSettings
    from powerlink.models.presets import Preset
    from powerlink.models.training_plan import TrainingPlan
    from powerlink.run.train_folder import FolderTraining

PANELS = {
    "Training": TrainingSettings,
    "Model": ModelSettings,
    **{f"Encoder {kind.name}": kind for kind in ENCODER_SETTINGS},
    **{f"Decoder {kind.name}": kind for kind in DECODER_SETTINGS},
}
ENCODERS, DECODERS = (", ".join(kind.name for kind in kinds) for kinds in (ENCODER_SETTINGS, DECODER_SETTINGS))
FIGURES = {"mrr": "MRR", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10"}
DataOption = Annotated[str, typer.Option(help="A name from `powerlink datasets`, a folder, or a file of triples.")]
OutOption = Annotated[Path, typer.Option(help="The model folder to make; an unfinished one is gone on with.")]
PresetOption = Annotated[
    str | None, typer.Option(help="A model of the paper, see `powerlink presets`; other flags change its settings.")
]
# What was not said leaves a preset alone: these show a default without giving it.
EncoderOption = Annotated[
    str | None,
    typer.Option(help=f"How messages are passed: {ENCODERS}. \\[default: {ENCODER}]"),
]
DecoderOption = Annotated[str | None, typer.Option(help=f"How a triple is scored: {DECODERS}. \\[default: {DECODER}]")]
DimOption = Annotated[int | None, typer.Option(help="Width of all vectors. \\[default: 100]", min=1)]
LayersOption = Annotated[int | None, typer.Option(help="Message-passing layers. \\[default: 2; for rgcn 1]", min=1)]
LinksOption = Annotated[
    bool,
    typer.Option(
        "--links",
        help="Of a folder of typed nodes and edges: learn its links against its negatives, and let links carry no "
        "message.",
    ),
]
HalfOption = Annotated[
    bool, typer.Option("--half", help="Save the weights in half precision: half the size, the same ranks.")
]


@with_flags(PANELS)
def train(
    given: dict[str, Any],
    data: DataOption,
    out: OutOption,
    preset: PresetOption = None,
    encoder: EncoderOption = None,
    decoder: DecoderOption = None,
    dim: DimOption = None,
    layers: LayersOption = None,
    links: LinksOption = False,
    half: HalfOption = False,
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
    from powerlink.models.link_training import LinkTrainingSettings

    _check_place(out, force)  # before the data is read, which may take a while
    how = {name: value for name, value in given.items() if name in settings_of(TrainingSettings)}
    if links:
        _refuse(how.keys() - settings_of(LinkTrainingSettings) | ({"preset"} if preset else set()))
    shape = {"--encoder": encoder, "--decoder": decoder, "--dim": dim, "--layers": layers}
    found = _preset_for(data, preset, shape) if preset else None
    model = found.model if found else _shape(encoder or ENCODER, decoder, dim or 100, layers)
    model = replace(model, **{name: value for name, value in given.items() if name not in how})
    if links:
        _train_links(data, out, model, LinkTrainingSettings(**how, seed=seed), device, half=half, force=force)
    else:
        training = replace(found.training if found else TrainingSettings(), **how, seed=seed)
        train_with_progress(data, out, model, training, device, data_dir, half=half, force=force)


def _check_place(out: Path, force: bool) -> None:
    from powerlink.models.checkpoint import check_ours

    if not force:
        check_ours(out)


def _shape(encoder: str, decoder: str | None, dim: int, layers: int | None) -> ModelSettings:
    """Return a model all of whose vectors are equally wide."""
    from powerlink.models.catalog import find_encoder

    usual = find_encoder(encoder).default_layers
    widths = (dim,) * ((usual if layers is None else layers) + 1)
    return ModelSettings(encoder=encoder, decoder=decoder or DECODER, widths=widths)


def _preset_for(data: str, name: str, shape: Mapping[str, object]) -> Preset:
    """Find a preset for what the data is called: its own name, or that of its folder or file."""
    from powerlink.models import presets

    if refused := [flag for flag, value in shape.items() if value is not None]:
        raise SettingsError(f"--preset decides the model's shape: leave out {' and '.join(refused)}, or --preset")
    try:
        return presets.preset(Path(data).expanduser().resolve().name.split(".")[0], name)
    except UnknownNameError as error:
        if error.closest:
            raise
        raise SettingsError(f"{error}; `powerlink presets` lists them") from None


def _refuse(names: set[str]) -> None:
    if names:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in sorted(names))
        raise SettingsError(f"--links trains on all links at once, and has no use for {flags}: leave out either")


def _train_links(
    data: str, out: Path, model: ModelSettings, training: LinkTrainingSettings, device: Device, **kept: bool
) -> None:
    """Train on links, showing loss and validation ROC-AUC as they come."""
    from powerlink.models.description import read_description
    from powerlink.run.train_links import read_linked_data, train_links

    place, linked = pick_device(device), read_linked_data(data)
    for note in linked.notes:
        errors.print(f"note: {shown(note)}", style="dim")
    try:
        with progress("loss {task.fields[loss]}", "AUC {task.fields[auc]}") as bar:
            task = bar.add_task("epoch", total=training.epochs, loss="…", auc="…")

            def told(loss: float, auc: float) -> None:
                bar.update(task, advance=1, loss=f"{loss:.4f}", auc=f"{auc:.3f}")

            train_links(linked, out, model=model, training=training, device=place, told=told, **kept)
    except KeyboardInterrupt:
        raise StoppedError("nothing was written: such a model is saved when it is done") from None
    accuracy = read_description(out)["accuracy"]["link_auc"]
    told_auc = ", ".join(f"{split} {auc:.3f}" for split, auc in accuracy.items())
    console.print(f"ROC-AUC of links against negatives: {told_auc}")
    console.print(f"model saved in {shown(out)}", soft_wrap=True)


def train_with_progress(
    data: str,
    out: Path,
    model: ModelSettings,
    training: TrainingSettings,
    device: Device,
    data_dir: Path | None = None,
    **kept: bool,
) -> None:
    """Train, showing epoch, loss and validation MRR as they come."""
    from powerlink.kg import catalog
    from powerlink.run.claim import claimed
    from powerlink.run.train_folder import FolderTraining

    place = pick_device(device)
    graph = catalog.load(data, data_dir=data_dir, seed=training.seed)
    for note in graph.notes:
        errors.print(f"note: {shown(note)}", style="dim")
    console.print(
        f"{shown(graph.name)}: {graph.num_entities:,} entities, {counted(graph.num_relations, 'relation')}, "
        f"{counted(len(graph.train), 'training fact')}"
    )
    with claimed(out, folder=True):
        job = FolderTraining(out, graph, model, training, place, **kept)
        if job.finished:
            console.print(f"{shown(out)} is already trained with these settings", soft_wrap=True)
        elif job.resumed_at:
            console.print(f"going on after epoch {job.resumed_at}")
        job.told = _tell_plan
        _run(job)
    _tell(job)


def _tell_plan(plan: TrainingPlan) -> None:
    """Say what the training takes, before its first step, and how long, after its first ones."""
    if plan.epoch_seconds is not None:
        most = duration(plan.epoch_seconds * plan.settings.epochs)
        console.print(f"an epoch takes about {duration(plan.epoch_seconds)}, all {plan.settings.epochs} about {most}")
        return
    console.print(f"training {plan}")
    if plan.why:
        console.print(f"training on {plan.way}: {plan.why} (--neighbours 0 --negatives 0 takes all)")
    elif plan.settings.sampled:
        console.print(f"training on {plan.way}")


def _run(job: FolderTraining) -> None:
    try:
        with progress("loss {task.fields[loss]}", "MRR {task.fields[mrr]}", "{task.fields[pace]}") as bar:
            fields: dict[str, Any] = {"loss": "…", "mrr": "…", "pace": ""}
            task = bar.add_task("epoch", total=job.training.epochs, completed=job.resumed_at, **fields)
            for report in job.run():
                pace = f"{duration(_seconds(job) / len(job.log))}/epoch"
                bar.update(task, completed=report.epoch, loss=f"{report.loss:.4f}", pace=pace)
                if report.validation:
                    bar.update(task, mrr=f"{report.validation.mrr:.3f} (best {report.best_mrr:.3f})")
    except KeyboardInterrupt:
        kept = f"after epoch {job.saved_at}" if job.saved_at else "from the start"
        raise StoppedError(f"run the same command again to go on {kept}") from None


def _tell(job: FolderTraining) -> None:
    """Say how well the model ranks, and where it is."""
    from powerlink.report.learning_curve import CURVE

    split, accuracy = "test", job.accuracy.get("test")
    if accuracy is None:
        split, accuracy = "validation", job.accuracy.get("valid") or {}
    figures = ", ".join(f"{told} {accuracy.get(key, 0):.3f}" for key, told in FIGURES.items())
    of = accuracy.get("drawn_from", 0) // 2
    drawn = f" ({accuracy['queries'] // 2:,} of {of:,} facts, drawn by the seed)" if of else ""
    console.print(f"best at epoch {job.accuracy.get('epoch')}: {split} {figures}{drawn}")
    if job.log:
        console.print(f"{counted(len(job.log), 'epoch')} in {duration(_seconds(job))}")
    console.print(f"model saved in {shown(job.folder)}", soft_wrap=True)
    if (job.folder / CURVE).is_file():
        console.print(f"learning curve in {shown(job.folder / CURVE)}", soft_wrap=True)


def _seconds(job: FolderTraining) -> float:
    return float(sum(line.get("seconds", 0) for line in job.log))  # logs of older versions do not say
