"""How a model is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from powerlink.settings import check_settings, setting

Schedule = Literal["constant", "one-cycle"]
Precision = Literal["full", "mixed"]
BATCH, SAMPLED_BATCH = 256, 4096  # where nothing is said; drawn tails have neighbourhoods, too, and a batch shares them


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How a model is trained; saved beside it."""

    epochs: int = setting(200, "most passes over the data", least=1)
    batch_size: int | None = setting(None, "(head, relation) pairs per step", least=2)  # batch norm needs two
    neighbours: int | None = setting(
        None, "incoming edges that a node hears in a step at most, drawn anew for each; 0: all", least=0
    )
    negatives: int | None = setting(None, "tails that a step is held against, drawn anew for each; 0: all", least=0)
    lr: float = setting(0.003, "Adam's learning rate; of a one-cycle schedule, the highest", above=0)
    schedule: Schedule = setting("constant", "how the learning rate runs", among=get_args(Schedule))
    weight_decay: float = setting(0.0, "how strongly weights are drawn to zero", least=0)
    precision: Precision = setting(
        "full", "mixed: TF32 products and a bf16 ConvE on CUDA; no difference elsewhere", among=get_args(Precision)
    )
    label_smoothing: float = setting(0.1, "how much of every label is doubt", least=0, most=1)
    patience: int = setting(5, "evaluations without a better validation MRR before training stops", least=1)
    evaluate_every: int = setting(10, "epochs from one evaluation to the next", least=1)
    ranked_facts: int | None = setting(None, "facts that are ranked at most, drawn where a split has more", least=1)
    seed: int = setting(0, "everything random follows from it", least=0)

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def sampled(self) -> bool:
        """Whether a step draws a part of the graph or of the tails."""
        return bool(self.neighbours or self.negatives)

    @property
    def pairs_per_step(self) -> int:
        """How many (head, relation) pairs a step takes, also where nothing was said."""
        return self.batch_size or (SAMPLED_BATCH if self.sampled else BATCH)
