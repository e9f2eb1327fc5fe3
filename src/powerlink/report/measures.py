"""What the numbers of an explanation are held against: which one leads, which hops count, how long a bar is."""

from __future__ import annotations

import math
from enum import Enum

from powerlink.explanation import ExplainedPath, Explanation, Fact
from powerlink.verify.selection import DECORATIVE


class Measure(Enum):
    """What the order of the paths follows; a path's first number is this one."""

    TOGETHER = "what their facts carry together"
    WITHOUT = "the fall of the score without them"
    OWN = "the explainer's own cost"


def leading(explanation: Explanation) -> Measure:
    """Return by what these paths were chosen; older reports knew the fall of the score and the mask alone."""
    select = explanation.made_by.settings.get("select") if explanation.made_by else None
    if select == "mask":
        return Measure.OWN
    measured = all(path.together is not None for path in explanation.paths)
    return Measure.TOGETHER if select == "carried" and measured else Measure.WITHOUT


def path_fall(explanation: Explanation, path: ExplainedPath) -> float:
    """Return how far the score falls without this path's facts; 0 where there is no score."""
    return 0.0 if explanation.score is None else explanation.score - path.score_without


def fact_fall(explanation: Explanation, path: ExplainedPath, fact: Fact) -> float:
    """Return how far the score falls without this fact; in older reports, without the path it is on."""
    return path_fall(explanation, path) if fact.effect is None else fact.effect


def slight_hops(explanation: Explanation, path: ExplainedPath) -> tuple[int, ...]:
    """Return which hops of a path of three or more, counted from 0, the model hardly uses; not all of them."""
    least = DECORATIVE * abs(path_fall(explanation, path))
    slight = [fact.effect is not None and abs(fact.effect) < least for fact in path.facts]
    if len(path.facts) < 3 or all(slight):
        return ()
    return tuple(i for i, fact in enumerate(path.facts) if slight[i] and fact.visible)


def work_apart(explanation: Explanation) -> bool:
    """Return whether no path of several facts carries together more than a decorative share of its fall."""
    several = [path for path in explanation.paths if len(path.facts) > 1]
    known = [(path.together, path_fall(explanation, path)) for path in several if path.together is not None]
    return len(known) == len(several) > 0 and all(joint < DECORATIVE * abs(fall) for joint, fall in known)


def odds_share(fall: float) -> float:
    """Return a fall of the logit as the share of the odds that goes with it, in [−1, 1]; negative where it rises.

    Bars and curves are as long as this. Logits have no largest value, so a scale of logits would have to follow the
    numbers it shows, and a small effect would look like a large one. A fall of f multiplies the odds by e^−f whatever
    the score was: the share 1 − e^−f is bounded, and a length means the same in every explanation of every model.
    """
    return math.copysign(-math.expm1(-abs(fall)), fall)
