"""What the HTML templates read: an explanation as words, shares of a bar, and a drawing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from powerlink.explanation import ExplainedPath, Explanation, Fact, MadeBy, Outcome, Status
from powerlink.report import svg, wording
from powerlink.report.wording import counted, harmless

View = dict[str, Any]


def card(explanation: Explanation) -> View:
    """Return one explanation as its card shows it."""
    query, score, chance = explanation.query, explanation.score, explanation.probability
    scale = _Scale(explanation)
    return {
        "head": harmless(query.head),
        "relation": harmless(query.relation),
        "tail": harmless(query.tail),
        "score": None if score is None else wording.number(score),
        "probability": None if chance is None else wording.probability(chance),
        "rank": None if explanation.rank is None else wording.rank(explanation.rank),
        "ranked": wording.ranked(query),
        "status": wording.status_name(explanation.status),
        "explained": wording.is_explained(explanation.status),
        "note": None if explanation.status is Status.EXPLAINED else f"{_sentence(explanation.status.meaning)}.",
        "lead": _lead(explanation),
        "paths": [_path(path, scale) for path in explanation.paths],
        "together": _together(explanation, scale),
        "drawing": svg.view(explanation) if explanation.paths else None,
        "caption": _caption(explanation),
        "details": _details(explanation),
    }


def spoken(facts: Sequence[Fact]) -> str:
    """Return a path as its facts, each the way it is stored, for those who listen."""
    return "; ".join(" ".join(map(harmless, (fact.head, fact.relation, fact.tail))) for fact in facts)


def made_by_rows(made_by: MadeBy) -> list[View]:
    """Return what is needed to make the same explanation again."""
    return [
        _row("explainer", made_by.explainer),
        *(_row(name.replace("_", " "), value) for name, value in made_by.settings.items()),
        _row("seed", made_by.seed),
        _row("graph", made_by.graph),
        _row("model", made_by.model),
        _row("model hash", made_by.model_hash),
        *(_row(name, value) for name, value in made_by.versions.items()),
    ]


class _Scale:
    """Where scores lie on the bars of one explanation; a longer bar is always more plausible."""

    def __init__(self, explanation: Explanation) -> None:
        self.now, self.rank = explanation.score, explanation.rank
        outcomes = (explanation.without_all, explanation.only_these, *explanation.without_top.values())
        scores = [path.score_without for path in explanation.paths]
        scores += [outcome.score for outcome in outcomes if outcome is not None]
        scores += [] if self.now is None else [self.now]
        self.low = min(scores, default=0.0)
        self.high = max(scores, default=0.0)
        # Below zero no length is natural: begin a little under the lowest score, so that its bar can be seen.
        self.low = 0.0 if self.low >= 0 else self.low - 0.15 * (self.high - self.low or 1.0)

    def share(self, score: float) -> float:
        width = self.high - self.low
        return round(100 * (score - self.low) / width, 1) if width > 0 else 0.0

    def view(self, outcome: Outcome) -> View | None:
        """Return a bar from what is kept of the score to what was there before; None where nothing was."""
        if self.now is None:
            return None
        change = wording.change(self.now, outcome.score)
        here, before = self.share(outcome.score), self.share(self.now)
        ranks = [rank for rank in (self.rank, outcome.rank) if rank is not None]
        return {
            "before": change.before,
            "after": change.after,
            "difference": change.difference,
            "falls": outcome.score < self.now,
            "rank": " → ".join(map(wording.rank, ranks)) if outcome.rank is not None else None,
            "kept": min(here, before),
            "moved": round(abs(before - here), 1),
            "zero": self.share(0.0) if self.low < 0 < self.high else None,
        }


def _path(path: ExplainedPath, scale: _Scale) -> View:
    unseen = [str(i) for i, fact in enumerate(path.facts, start=1) if not fact.visible]
    return {
        "start": harmless(path.facts[0].source) if path.facts else "",
        "hops": [
            {
                "relation": harmless(fact.relation),
                "inverse": fact.inverse,
                "visible": fact.visible,
                "target": harmless(fact.target),
            }
            for fact in path.facts
        ],
        "spoken": spoken(path.facts),
        "unseen": f"hop{'s' * (len(unseen) > 1)} {', '.join(unseen)}: not seen by the model" if unseen else None,
        "without": scale.view(Outcome(path.score_without, path.rank_without)),
        "proposed_by": harmless(path.proposed_by) if path.proposed_by else None,
    }


def _together(explanation: Explanation, scale: _Scale) -> list[View]:
    """Return what removing the paths one after another does, then all of them, then all else."""
    rows: list[tuple[str, Outcome | None]] = [
        ("without path 1" if m == 1 else f"without paths 1–{m}", outcome)
        for m, outcome in sorted(explanation.without_top.items())
        if m < len(explanation.paths)
    ]
    rows += [("without all of these", explanation.without_all), ("with only these", explanation.only_these)]
    return [
        {"label": label, "outcome": scale.view(outcome)}
        for label, outcome in rows
        if outcome is not None and scale.now is not None
    ]


def _lead(explanation: Explanation) -> str:
    sentences = []
    without = explanation.without_all
    if without is not None and explanation.score is not None:
        change = wording.change(explanation.score, without.score)
        verb = "falls" if without.score < explanation.score else "goes"
        paths = "this path" if len(explanation.paths) == 1 else f"these {len(explanation.paths)} paths"
        sentence = f"Without {paths} the score {verb} from {change.before} to {change.after}"
        if explanation.rank is not None and without.rank is not None:
            before, after = wording.rank(explanation.rank), wording.rank(without.rank)
            moves = f"stays {before}" if before == after else f"goes from {before} to {after}"
            sentence += f", and the rank {moves}"
        sentences.append(f"{sentence}.")
    if explanation.considered:
        verb = "was" if explanation.considered == 1 else "were"
        sentences.append(f"{counted(explanation.considered, 'candidate path')} {verb} judged on the model.")
    return " ".join(sentences)


def _caption(explanation: Explanation) -> str:
    caption = "A broader edge carries more of the score. Arrows point the way the facts do."
    if all(fact.visible for path in explanation.paths for fact in path.facts):
        return caption
    return f"{caption} Dashed edges are not seen by the model."


def _details(explanation: Explanation) -> list[View]:
    rows: list[View] = []
    if (size := explanation.size) is not None:
        rows += [
            _row("nodes of the computation graph", f"{size.nodes:,}"),
            _row("its edges", f"{size.edges:,}"),
        ]
        rows += [_row("edges after pruning", f"{size.edges_kept:,}")]
    if (paper := explanation.paper) is not None:
        rows += [
            _row("fidelity+ (paper)", wording.number(paper.fidelity_plus, 4)),
            _row("fidelity− (paper)", wording.number(paper.fidelity_minus, 4)),
            _row("sparsity (paper)", wording.number(paper.sparsity, 4)),
            _row("sparsity of kept edges", wording.number(paper.sparsity_kept, 4)),
            _row("rank in the computation graph", wording.rank(paper.rank)),
        ]
        rows += [
            _row(f"its rank without the top {m}", wording.rank(rank))
            for m, rank in sorted(paper.rank_without_top.items())
        ]
    return rows


def _row(name: str, value: Any) -> View:
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return {"name": harmless(name), "value": harmless(shown)}


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
