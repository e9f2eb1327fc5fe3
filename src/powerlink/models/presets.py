"""The paper's eighteen models: nine pairs of encoder and decoder on two datasets, as settings with a name.

Shapes and dropouts are the paper's, but for WGCN's self-loop and ConvE's input dropout where that makes a better model.
Training is ours: larger batches, a one-cycle schedule and fewer epochs. What that reaches is measured by
benchmarks/train_models.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from powerlink.errors import SettingsError, UnknownNameError
from powerlink.models.link_model import ModelSettings
from powerlink.models.training import TrainingSettings


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A model of the paper: what it is trained on, its shape, and how we train it."""

    dataset: str
    model: ModelSettings
    training: TrainingSettings
    paper_mrr: float  # filtered test MRR in the paper's table of models
    note: str  # where the settings leave the paper's

    @property
    def name(self) -> str:
        return f"{self.dataset}/{self.model.name}"


FB, WN = "fb15k-237", "wn18rr"
TRAINING = TrainingSettings(
    epochs=150,
    batch_size=1024,
    lr=0.004,
    schedule="one-cycle",
    precision="mixed",
    label_smoothing=0.1,
    evaluate_every=10,
    patience=1000,  # the schedule's last epochs are its best: none is to be saved
)

Row = tuple[str, str, float, tuple[int, ...], float, Mapping[str, Any], Mapping[str, Any]]
ROWS: tuple[Row, ...] = (
    # dataset, model, paper's MRR, widths, dropout on the encoder's output, rest of the shape, rest of the training
    (FB, "rgcn-transe", 0.210, (150, 150), 0.2, {"blocks": 5}, {"epochs": 80}),
    (FB, "rgcn-distmult", 0.380, (150, 150), 0.3, {"blocks": 5}, {}),
    (FB, "rgcn-conve", 0.430, (128, 128), 0.3, {"blocks": 8, "image": (8, 16), "input_dropout": 0.0}, {}),
    (FB, "wgcn-transe", 0.288, (100, 100, 100), 0.2, {"self_loop": True}, {"epochs": 100}),
    (FB, "wgcn-distmult", 0.272, (128, 128, 128), 0.2, {}, {"epochs": 100}),
    (FB, "wgcn-conve", 0.319, (128, 128, 128), 0.2, {"image": (16, 8), "self_loop": True, "input_dropout": 0.0}, {}),
    (FB, "compgcn-transe", 0.230, (200, 200), 0.2, {}, {"epochs": 60}),
    (FB, "compgcn-distmult", 0.343, (100, 150, 200), 0.3, {}, {}),
    (FB, "compgcn-conve", 0.352, (100, 200), 0.3, {"image": (10, 20), "input_dropout": 0.0}, {"epochs": 200}),
    (WN, "rgcn-transe", 0.182, (100, 100), 0.2, {"blocks": 5}, {"epochs": 50}),
    (WN, "rgcn-distmult", 0.331, (100, 100), 0.2, {"blocks": 5}, {"epochs": 100}),
    (WN, "rgcn-conve", 0.464, (100, 100), 0.2, {"blocks": 5, "image": (10, 10), "input_dropout": 0.0}, {"epochs": 300}),
    (WN, "wgcn-transe", 0.118, (128, 128, 128), 0.2, {"self_loop": True}, {"epochs": 50}),
    (WN, "wgcn-distmult", 0.320, (128, 128, 128), 0.2, {}, {"epochs": 100}),
    (
        WN,
        "wgcn-conve",
        0.449,
        (128, 128, 128),
        0.2,
        {"image": (16, 8), "self_loop": True, "input_dropout": 0.0},
        {"epochs": 300},
    ),
    (WN, "compgcn-transe", 0.206, (100, 100), 0.2, {"layer_dropout": 0.2, "layer_bias": True}, {"epochs": 50}),
    (WN, "compgcn-distmult", 0.431, (200, 200), 0.3, {}, {"epochs": 120}),
    (
        WN,
        "compgcn-conve",
        0.431,
        (200, 200),
        0.3,
        {
            "image": (10, 20),
            "filters": 250,
            "input_dropout": 0.0,
            "layer_dropout": 0.2,
            "layer_bias": True,
            "feature_dropout": 0.1,
            "hidden_dropout": 0.4,
        },
        {},
    ),
)


def _preset(row: Row) -> Preset:
    dataset, name, paper_mrr, widths, output_dropout, shape, training = row
    encoder, decoder = name.split("-")
    model: dict[str, Any] = {"encoder": encoder, "decoder": decoder, "widths": widths} | dict(shape)
    ours = replace(TRAINING, **training)
    epochs = 3000 if dataset == WN else 1000 if encoder == "wgcn" else 500
    batch = 512 if encoder == "wgcn" else 256
    return Preset(
        dataset=dataset,
        model=ModelSettings(output_dropout=output_dropout, **model),
        training=ours,
        paper_mrr=paper_mrr,
        note="; ".join(
            [
                f"{ours.schedule} schedule up to lr {ours.lr:g}, batch {ours.batch_size}, {ours.epochs} epochs",
                f"the paper: lr 0.001, batch {batch}, up to {epochs} epochs",
                *(["WGCN with a self-loop, the paper's without"] if shape.get("self_loop") else []),
                *(["no input dropout, the paper's 0.2"] if shape.get("input_dropout") == 0 else []),
            ]
        ),
    )


PRESETS: dict[str, Preset] = {preset.name: preset for preset in map(_preset, ROWS)}
DATASETS = tuple(dict.fromkeys(preset.dataset for preset in PRESETS.values()))


def preset(dataset: str, name: str) -> Preset:
    """Return the preset of a model for a dataset of the paper; `name` may say another dataset's, as dataset/model."""
    dataset, wanted = dataset.casefold(), name.casefold()
    if "/" not in wanted:
        if dataset not in DATASETS and any(known.endswith(f"/{wanted}") for known in PRESETS):
            raise SettingsError(
                f"{dataset} has no presets of its own; say whose to take: "
                f"{' or '.join(f'{known}/{wanted}' for known in DATASETS)}"
            )
        wanted = f"{dataset}/{wanted}"
    if wanted not in PRESETS:
        known = PRESETS if "/" in name or dataset not in DATASETS else _names_for(dataset)
        raise UnknownNameError("preset", name, known)
    return PRESETS[wanted]


def _names_for(dataset: str) -> list[str]:
    return [preset.model.name for preset in PRESETS.values() if preset.dataset == dataset]
