"""What an explanation's numbers say in sentences, doubts included, the same in every form of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from powerlink.explanation import POST_TRAINING, Evidence, Explanation, Outcome, Status
from powerlink.report import wording
from powerlink.report.measures import Measure, fall_of, kind_of, leading, noun, work_apart

WHY = "Why"
HOW_MUCH = "How much hangs on these"

_DOUBTFUL = (Status.FAINT, Status.NO_EFFECT)
_COLLAPSE = math.log(2)  # a fall that halves the odds
_RISE = 0.005  # what two decimals show
_SHOWN_STEPS = 8


def lead(explanation: Explanation) -> str:
    """Say what goes with the evidence, and plainly where little does."""
    without, only = explanation.without_all, explanation.only_these
    said = []
    if explanation.score is not None and without is not None:
        said.append(_without_all(explanation, explanation.score, without))
    if explanation.score is not None and only is not None and explanation.score - only.score > _COLLAPSE:
        said.append(_only_these(explanation, explanation.score, only))
    if work_apart(explanation):
        these = "this" if len(explanation.evidence) == 1 else "these"
        said.append(f"The facts of {these} {noun(explanation)} work one by one, hardly together.")
    return " ".join(said)


def _without_all(explanation: Explanation, score: float, without: Outcome) -> str:
    change = wording.change(score, without.score)
    falls = without.score < score
    count = len(explanation.evidence)
    these = f"this {noun(explanation)}" if count == 1 else f"these {count} {noun(explanation)}"
    said = f"Without {these} the score {'falls' if falls else 'goes'} from {change.before} to {change.after}"
    if explanation.rank is None or without.rank is None:
        return f"{said}."
    before, after = wording.rank(explanation.rank), wording.rank(without.rank)
    if before != after:
        return f"{said}, and the rank goes from {before} to {after}."
    them = "it" if count == 1 else "them"
    return f"{said}, {'but' if falls else 'and'} the rank stays {before}: the rank does not hang on {them}."


def _only_these(explanation: Explanation, score: float, only: Outcome) -> str:
    said = f"With only these facts the score falls to {wording.change(score, only.score).after}"
    if explanation.rank is None or only.rank is None:
        return f"{said}: by themselves they do not carry it."
    before, after = wording.rank(explanation.rank), wording.rank(only.rank)
    if only.rank > explanation.rank:
        return f"{said}, and the rank goes from {before} to {after}: by themselves they do not carry the answer."
    moves = f"stays {before}" if before == after else f"goes from {before} to {after}"
    return f"{said}: by themselves they do not carry the score, though the rank {moves}."


def standing(explanation: Explanation) -> str:
    """Say the model's score and rank, and the probability where it is known; nothing without a score."""
    if explanation.score is None:
        return ""
    said = f"score {wording.number(explanation.score)}"
    if explanation.probability is not None:
        said += f" (probability {wording.probability(explanation.probability)})"
    if explanation.rank is not None:
        said += f", rank {wording.rank(explanation.rank)} {wording.ranked(explanation.query)}"
    return said


def status_sentence(status: Status) -> str:
    """Return a status and its meaning as a sentence; the plain success needs none."""
    if status is Status.EXPLAINED:
        return ""
    return f"{wording.status_name(status).capitalize()}: {status.meaning}."


def is_doubtful(status: Status) -> bool:
    """Return whether this status says that what was found carries nothing much."""
    return status in _DOUBTFUL


def foil(explanation: Explanation) -> str:
    """Say what the answer is held against; nothing where it is asked about by itself."""
    if explanation.query.foil is None:
        return ""
    return f"Rather than {wording.harmless(explanation.query.foil)}: every score is the difference of the two."


def reading(explanation: Explanation) -> str:
    """Say what "without" means where it is not that the model is asked again without a fact."""
    if explanation.made_by is None or not explanation.made_by.reading.startswith(POST_TRAINING):
        return ""
    return (
        "This model reads no facts when it is asked: “without” is what it would have learned of head and tail, fitted "
        "again without them."
    )


def remarks(explanation: Explanation) -> list[str]:
    """Return what a reader must know of before any path, a sentence each."""
    return [wording.sentence(wording.harmless(remark)) for remark in explanation.remarks]


def order(explanation: Explanation) -> str:
    """Say what the order of the evidence follows."""
    if leading(explanation) is Measure.TOGETHER and any((piece.together or 0.0) <= 0 for piece in explanation.evidence):
        return (
            "Fewest facts first, then by what they carry together; "
            "behind them, fewest facts first, those that carry nothing together, by the fall of the score."
        )
    return {
        Measure.TOGETHER: "Fewest facts first, then by what they carry together.",
        Measure.WITHOUT: "Ordered by the fall of the score, each on top of those before it.",
        Measure.OWN: "In the explainer's own order, the lowest cost first.",
    }[leading(explanation)]


def fact_notes(piece: Evidence) -> list[str]:
    """Say which hops the model does not see, and for how many paths this one stands."""
    notes = []
    if unseen := [i for i, fact in enumerate(piece.facts) if not fact.visible]:
        notes.append(f"{_places(piece, unseen)}: not seen by the model")
    if piece.witnesses > 1:
        such = f"one of {piece.witnesses:,} such {kind_of(piece)}s"
        notes.append(f"{such}: they differ only in {_part(piece)}s that change next to nothing")
    return notes


def against_note(explanation: Explanation, piece: Evidence) -> str:
    """Say where a path's facts carry something together and yet hold the score down; nothing where they do not."""
    together, rise = piece.together or 0.0, -fall_of(explanation, piece)
    if together <= 0 or rise < _RISE:
        return ""
    return "its facts count together, but without them the score rises: one of them speaks against the answer"


def slight_note(piece: Evidence, slight: Sequence[int]) -> str:
    """Say which facts the model sees and hardly uses; nothing where there is none."""
    return f"{_places(piece, slight)} change{'s' * (len(slight) == 1)} next to nothing" if slight else ""


def _part(piece: Evidence) -> str:
    return "hop" if piece.kind == "path" else "fact"


def _places(piece: Evidence, places: Sequence[int]) -> str:
    return f"{_part(piece)}{'s' * (len(places) > 1)} {', '.join(str(i + 1) for i in places)}"


def each_alone(piece: Evidence) -> list[str]:
    """Return the effects of a path's facts, hop by hop; none where they are not known or there is only one."""
    effects = [fact.effect for fact in piece.facts if fact.effect is not None]
    return [wording.amount(effect) for effect in effects] if len(effects) == len(piece.facts) > 1 else []


def deletion_row(explanation: Explanation) -> str:
    """Return the scores after removing one fact after another; of many, the first ones and the last."""
    steps = [wording.number(left) for left in explanation.deletion]
    if len(steps) > _SHOWN_STEPS + 1:
        steps[_SHOWN_STEPS:-1] = ["…"]
    return " · ".join(steps)


def deletion_mean(explanation: Explanation) -> str:
    """Say what the row of scores leaves out, and the curve's area; nothing where there is no curve."""
    area = explanation.deletion_area
    if area is None:
        return ""
    count = len(explanation.deletion)
    removed = "1 fact" if count == 1 else f"1, {'' if count == 2 else '2, … '}{count} facts"
    return f"without {removed}; deletion area {wording.amount(area)}"


def judged(explanation: Explanation) -> str:
    """Return how many candidates there were to choose from; nothing where none was judged."""
    if not explanation.considered:
        return ""
    kind = f"candidate {noun(explanation, 1)}" if explanation.evidence else "candidate"
    return f"{wording.counted(explanation.considered, kind)} judged on the model"


def width_meaning(explanation: Explanation) -> str:
    """Say what the widths of a drawing mean."""
    facts = [fact for piece in explanation.evidence for fact in piece.facts]
    what = "that fact alone" if all(fact.effect is not None for fact in facts) else "that fact's path"
    return f"Width: the score's fall without {what}"


def arrow_meaning(explanation: Explanation) -> str:
    """Say what the arrows of a drawing mean, and its dashes where there are any."""
    dashed = any(not fact.visible for piece in explanation.evidence for fact in piece.facts)
    return "Arrows point the way the facts do." + (" Dashed: not seen by the model." if dashed else "")
