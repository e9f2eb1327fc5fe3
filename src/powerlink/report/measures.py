"""What the numbers of an explanation are held against: which one leads, which hops count, how long a bar is."""

from __future__ import annotations

import math
from enum import Enum

from powerlink.explanation import Evidence, Explanation, Fact
from powerlink.verify.choice import DECORATIVE


class Measure(Enum):
    """What the order of the evidence follows; a piece's first number is this one."""

    TOGETHER = "what their facts carry together"
    WITHOUT = "the fall of the score without them"
    OWN = "the explainer's own cost"


def kind_of(piece: Evidence) -> str:
    """Return what a piece of evidence is called: a set of one is a fact."""
    return "fact" if piece.kind == "set" and len(piece.facts) == 1 else piece.kind


def noun(explanation: Explanation, count: int | None = None) -> str:
    """Return what the evidence is to be called: paths, sets, single facts, or pieces where there are several kinds."""
    kinds = {kind_of(piece) for piece in explanation.evidence}
    name = kinds.pop() if len(kinds) == 1 else "piece"
    return name if (len(explanation.evidence) if count is None else count) == 1 else f"{name}s"


def leading(explanation: Explanation) -> Measure:
    """Return by what this evidence was chosen; older reports knew the fall of the score and the mask alone."""
    select = explanation.made_by.settings.get("select") if explanation.made_by else None
    if select == "mask":
        return Measure.OWN
    measured = all(piece.together is not None for piece in explanation.evidence)
    return Measure.TOGETHER if select == "carried" and measured else Measure.WITHOUT


def known_measures(explanation: Explanation, piece: Evidence) -> list[Measure]:
    """Return the numbers that are told of a piece, the leading one first; the explainer's own only where it leads."""
    first = leading(explanation)
    known = {
        Measure.TOGETHER: piece.together is not None,
        Measure.WITHOUT: explanation.score is not None,
        Measure.OWN: first is Measure.OWN,
    }
    return sorted(filter(known.get, known), key=lambda measure: measure is not first)


def fall_of(explanation: Explanation, piece: Evidence) -> float:
    """Return how far the score falls without these facts; 0 where there is no score."""
    return 0.0 if explanation.score is None else explanation.score - piece.score_without


def fact_fall(explanation: Explanation, piece: Evidence, fact: Fact) -> float:
    """Return how far the score falls without this fact; in older reports, without the piece it is part of."""
    return fall_of(explanation, piece) if fact.effect is None else fact.effect


def slight_hops(explanation: Explanation, piece: Evidence) -> tuple[int, ...]:
    """Return which of three or more facts, counted from 0, the model hardly uses; not all of them."""
    least = DECORATIVE * abs(fall_of(explanation, piece))
    slight = [fact.effect is not None and abs(fact.effect) < least for fact in piece.facts]
    if len(piece.facts) < 3 or all(slight):
        return ()
    return tuple(i for i, fact in enumerate(piece.facts) if slight[i] and fact.visible)


def work_apart(explanation: Explanation) -> bool:
    """Return whether no piece of several facts carries together more than a decorative share of its fall."""
    several = [piece for piece in explanation.evidence if len(piece.facts) > 1]
    known = [(piece.together, fall_of(explanation, piece)) for piece in several if piece.together is not None]
    return len(known) == len(several) > 0 and all(joint < DECORATIVE * abs(fall) for joint, fall in known)


def odds_share(fall: float) -> float:
    """Return a fall of the logit as the share of the odds that goes with it, in [−1, 1]; negative where it rises.

    Bars and curves are as long as this. Logits have no largest value, so a scale of logits would have to follow the
    numbers it shows, and a small effect would look like a large one. A fall of f multiplies the odds by e^−f whatever
    the score was: the share 1 − e^−f is bounded, and a length means the same in every explanation of every model.
    """
    return math.copysign(-math.expm1(-abs(fall)), fall)
