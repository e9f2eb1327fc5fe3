"""The paper's eighteen models: nine pairs of encoder and decoder on two datasets, as settings with a name.

Shapes and dropouts are the paper's, changed where a better model came of it. Training is ours: larger batches, a
one-cycle schedule and fewer epochs. What that reaches is measured by benchmarks/train_models.py.
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

Changes = Mapping[str, Any]
BIASED = {"layer_dropout": 0.2, "layer_bias": True}
MORE_FILTERS = {"filters": 250, "feature_dropout": 0.1, "hidden_dropout": 0.4}
Row = tuple[str, str, float, tuple[int, ...], float, Changes]
PAPER: tuple[Row, ...] = (
    # dataset, model, test MRR, widths, dropout on the encoder's output, rest of the shape
    (FB, "rgcn-transe", 0.210, (150, 150), 0.2, {}),
    (FB, "rgcn-distmult", 0.380, (150, 150), 0.3, {}),
    (FB, "rgcn-conve", 0.430, (128, 128), 0.3, {"blocks": 8, "image": (8, 16)}),
    (FB, "wgcn-transe", 0.288, (100, 100, 100), 0.2, {}),
    (FB, "wgcn-distmult", 0.272, (128, 128, 128), 0.2, {}),
    (FB, "wgcn-conve", 0.319, (128, 128, 128), 0.2, {"image": (16, 8)}),
    (FB, "compgcn-transe", 0.230, (200, 200), 0.2, {}),
    (FB, "compgcn-distmult", 0.343, (100, 150, 200), 0.3, {}),
    (FB, "compgcn-conve", 0.352, (100, 200), 0.3, {"image": (10, 20)}),
    (WN, "rgcn-transe", 0.182, (100, 100), 0.2, {}),
    (WN, "rgcn-distmult", 0.331, (100, 100), 0.2, {}),
    (WN, "rgcn-conve", 0.464, (100, 100), 0.2, {"image": (10, 10)}),
    (WN, "wgcn-transe", 0.118, (128, 128, 128), 0.2, {}),
    (WN, "wgcn-distmult", 0.320, (128, 128, 128), 0.2, {}),
    (WN, "wgcn-conve", 0.449, (128, 128, 128), 0.2, {"image": (16, 8)}),
    (WN, "compgcn-transe", 0.206, (100, 100), 0.2, BIASED),
    (WN, "compgcn-distmult", 0.431, (200, 200), 0.3, {}),
    (WN, "compgcn-conve", 0.431, (200, 200), 0.3, {"image": (10, 20), **BIASED, **MORE_FILTERS}),
)

STILL = {"output_dropout": 0.0, "layer_dropout": 0.0}
SMOOTH = {"self_loop": True, "degree_norm": True}  # WGCN's vectors then differ by more than their node's degree
DISTINCT = {**SMOOTH, "first_relation_weight": 0.1}  # and begin as their own, not as their neighbours' mean
OURS: dict[str, tuple[Changes, Changes]] = {
    # where a better model came of it: changes of the shape, changes of the training
    f"{FB}/rgcn-transe": ({}, {"epochs": 80}),
    f"{FB}/rgcn-distmult": ({"widths": (300, 300), "output_dropout": 0.4}, {"weight_decay": 0.02}),
    f"{FB}/rgcn-conve": (
        {"widths": (192, 192), "image": (12, 16), "output_dropout": 0.2, "input_dropout": 0.0},
        {"epochs": 120, "weight_decay": 0.1},
    ),
    f"{FB}/wgcn-transe": ({**DISTINCT, "output_dropout": 0.0}, {"epochs": 60}),
    f"{FB}/wgcn-distmult": (DISTINCT, {"epochs": 100}),
    f"{FB}/wgcn-conve": ({**SMOOTH, "output_dropout": 0.1, "input_dropout": 0.0}, {"weight_decay": 0.1}),
    f"{FB}/compgcn-transe": ({}, {"epochs": 60}),
    f"{FB}/compgcn-distmult": (
        {"widths": (256, 256, 256), "output_dropout": 0.4, "layer_dropout": 0.2},
        {"epochs": 220, "lr": 0.003},
    ),
    f"{FB}/compgcn-conve": (
        {"widths": (256, 256), "image": (16, 16), "input_dropout": 0.0},
        {"epochs": 180, "weight_decay": 0.1},
    ),
    f"{WN}/rgcn-transe": (STILL, {"epochs": 60}),
    f"{WN}/rgcn-distmult": ({}, {"epochs": 100}),
    f"{WN}/rgcn-conve": (
        {"widths": (200, 200), "image": (10, 20), "input_dropout": 0.0},
        {"epochs": 180, "batch_size": 512, "lr": 0.003, "weight_decay": 0.1},
    ),
    f"{WN}/wgcn-transe": ({**DISTINCT, "output_dropout": 0.0}, {"epochs": 60}),
    f"{WN}/wgcn-distmult": (DISTINCT, {"epochs": 100}),
    f"{WN}/wgcn-conve": (
        {**DISTINCT, "widths": (256, 256, 256), "image": (16, 16), **STILL, "input_dropout": 0.0},
        {"epochs": 180, "weight_decay": 0.1},
    ),
    f"{WN}/compgcn-transe": ({"widths": (150, 150), **STILL}, {"epochs": 80, "lr": 0.008}),
    f"{WN}/compgcn-distmult": ({}, {"epochs": 120}),
    f"{WN}/compgcn-conve": ({"input_dropout": 0.0, "interleave": False}, {}),
}


def _preset(row: Row) -> Preset:
    dataset, name, paper_mrr, widths, output_dropout, shape = row
    encoder, decoder = name.split("-")
    paper = ModelSettings(encoder=encoder, decoder=decoder, widths=widths, output_dropout=output_dropout, **shape)
    changes, training = OURS.get(f"{dataset}/{name}", ({}, {}))
    ours = replace(TRAINING, **training)
    epochs = 3000 if dataset == WN else 1000 if encoder == "wgcn" else 500
    batch = 512 if encoder == "wgcn" else 256
    return Preset(
        dataset=dataset,
        model=replace(paper, **changes),
        training=ours,
        paper_mrr=paper_mrr,
        note="; ".join(
            [
                f"{ours.schedule} schedule up to lr {ours.lr:g}, batch {ours.batch_size}, {ours.epochs} epochs",
                *([f"weight decay {ours.weight_decay:g}"] if ours.weight_decay else []),
                f"the paper: lr 0.001, batch {batch}, up to {epochs} epochs",
                *(f"{key} {_shown(value)} for {_shown(paper.flat()[key])}" for key, value in changes.items()),
            ]
        ),
    )


def _shown(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)


PRESETS: dict[str, Preset] = {preset.name: preset for preset in map(_preset, PAPER)}
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
        ours = [preset.model.name for preset in PRESETS.values() if preset.dataset == dataset]
        raise UnknownNameError("preset", name, PRESETS if "/" in name or not ours else ours)
    return PRESETS[wanted]
