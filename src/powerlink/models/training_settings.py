"""How a model is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from powerlink.settings import check_settings, setting

Schedule = Literal["constant", "one-cycle"]
Precision = Literal["full", "mixed"]


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How a model is trained; saved beside it."""

    epochs: int = setting(200, "most passes over the data", least=1)
    batch_size: int = setting(256, "(head, relation) pairs per step", least=2)  # batch norm needs two
    lr: float = setting(0.003, "Adam's learning rate; of a one-cycle schedule, the highest", above=0)
    schedule: Schedule = setting("constant", "how the learning rate runs", among=get_args(Schedule))
    weight_decay: float = setting(0.0, "how strongly weights are drawn to zero", least=0)
    precision: Precision = setting(
        "full", "mixed: TF32 products and a bf16 ConvE on CUDA; no difference elsewhere", among=get_args(Precision)
    )
    label_smoothing: float = setting(0.1, "how much of every label is doubt", least=0, most=1)
    patience: int = setting(5, "evaluations without a better validation MRR before training stops", least=1)
    evaluate_every: int = setting(10, "epochs from one evaluation to the next", least=1)
    seed: int = setting(0, "everything random follows from it", least=0)

    def __post_init__(self) -> None:
        check_settings(self)
