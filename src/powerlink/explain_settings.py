"""What may be asked of every explanation, and the words it is asked in.

Nothing of this computes, so this module loads nothing that does: a command line tells its flags at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from powerlink.errors import SettingsError
from powerlink.settings import check_settings, setting

Cost = Literal["inverse", "log", "log-degree"]
Select = Literal["carried", "largest-drop", "mask"]
AlsoConsider = Literal["cheap", "slopes", "none"]
Selection = Literal["mask", "carried", "largest-drop", "pooled"]  # of a comparison
Metrics = Literal["removal", "paper"]
Combining = Literal["concat", "euclidean", "none"]  # none: no scorer, a number of its own for every edge
Split = Literal["train", "valid", "test"]  # of a graph
Noise = Literal["quiet", "plain", "loud"]  # of a planted graph
Which = Literal["believed", "first", "predicted", "all"]
Match = Literal["touches", "is"]
EXPLAINER = "slopes"  # who explains, unless said otherwise
MOST_FACTS = 10  # of a piece of evidence: what k facts carry together takes 2^k − 1 questions
DEPTH = 10  # paths that are held against known reasons: how far the mean reciprocal rank looks
# What all explainers of a comparison share
SHARED = ("paths", "min_length", "max_length", "hops", "hub_limit", "core", "candidates")


@dataclass(frozen=True, kw_only=True)
class ExplainSettings:
    """What is asked of every explanation, whichever explainer makes it."""

    paths: int = setting(5, "how many paths to show at most")
    min_length: int = setting(1, "fewest hops of a path")
    max_length: int = setting(3, "most hops of a path")
    hops: int | None = setting(
        None, "how far around head and tail to look; by default as far as the model sees", least=1
    )
    hub_limit: int = setting(200, "leave out nodes with more incoming edges than this; 0: no limit", least=0)
    core: int = setting(2, "leave out nodes with fewer distinct neighbours than this", least=0)
    candidates: int = setting(40, "how many paths each explainer proposes")
    select: Select = setting(
        "carried",
        "choose paths by what their facts carry together, by the largest fall of the score when they are removed, or "
        "in the mask's own order (the paper)",
        among=get_args(Select),
    )
    also_consider: AlsoConsider = setting(
        "cheap",
        "who else proposes candidates, unless mask selects; cheap: slopes and low-degree, which learn nothing",
        among=get_args(AlsoConsider),
    )
    cost: Cost | None = setting(
        None, "a path search minimises the sum of 1/score, −log score, or that + log in-degree", among=get_args(Cost)
    )
    metrics: Metrics = setting(
        "removal", "paper: measure the paper's own figures as well, F+, F−, Sparsity and HΔR", among=get_args(Metrics)
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if not 1 <= self.min_length <= self.max_length:
            raise SettingsError(
                f"path lengths must satisfy 1 ≤ min_length ≤ max_length, not {self.min_length} and {self.max_length}"
            )
        if self.max_length > MOST_FACTS:
            raise SettingsError(
                f"max_length must be at most {MOST_FACTS}, not {self.max_length}: "
                "a path of k facts asks the model 2^k − 1 questions"
            )
        if self.paths < 1 or self.candidates < self.paths:
            raise SettingsError(
                f"paths must be at least 1, and candidates at least as many, not {self.paths} and {self.candidates}"
            )
