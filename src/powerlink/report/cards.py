"""What the HTML templates read: an explanation as words, bars of one fixed scale, and drawings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from powerlink.explanation import Evidence, Explanation, Fact, MadeBy, Outcome, Status
from powerlink.report import sentences, svg, wording
from powerlink.report.measures import Measure, leading, noun, odds_share, slight_hops
from powerlink.report.wording import harmless

View = dict[str, Any]


def card(explanation: Explanation) -> View:
    """Return one explanation as its card shows it."""
    query, score, chance = explanation.query, explanation.score, explanation.probability
    return {
        "head": harmless(query.head),
        "relation": harmless(query.relation),
        "tail": harmless(query.tail),
        "foil": sentences.foil(explanation),
        "score": None if score is None else wording.number(score),
        "probability": None if chance is None else wording.probability(chance),
        "rank": None if explanation.rank is None else wording.rank(explanation.rank),
        "ranked": wording.ranked(query),
        "status": wording.status_name(explanation.status),
        "explained": wording.is_explained(explanation.status),
        "note": None if explanation.status is Status.EXPLAINED else f"{explanation.status.meaning}.",
        "doubtful": sentences.is_doubtful(explanation.status),
        "remarks": sentences.remarks(explanation),
        "lead": sentences.lead(explanation),
        "judged": sentences.judged(explanation),
        "why": sentences.WHY,
        "order": sentences.order(explanation),
        "paths": [_path(path, explanation) for path in explanation.evidence],
        "drawing": svg.view(explanation) if explanation.evidence else None,
        "how_much": sentences.HOW_MUCH,
        "together": _together(explanation),
        "deletion": _deletion(explanation),
        "details": _details(explanation),
    }


def spoken(facts: Sequence[Fact]) -> str:
    """Return a path as its facts, each the way it is stored, for those who listen."""
    return "; ".join(" ".join(map(harmless, (fact.head, fact.relation, fact.tail))) for fact in facts)


def made_by_rows(made_by: MadeBy) -> list[View]:
    """Return what is needed to make the same explanation again."""
    return [
        _row("explainer", made_by.explainer),
        *(_row(name.replace("_", " "), value) for name, value in made_by.explainer_settings.items()),
        *(_row(name.replace("_", " "), value) for name, value in made_by.settings.items()),
        _row("seed", made_by.seed),
        _row("graph", made_by.graph),
        _row("model", made_by.model),
        _row("model hash", made_by.model_hash),
        *(_row(name, value) for name, value in made_by.versions.items()),
    ]


def _bar(kind: str, fall: float) -> View:
    """Return where a bar lies, in per cent of its track; zero is always in the middle, losses lie right of it."""
    share = odds_share(fall)
    half = round(50 * abs(share), 1)
    return {"kind": kind, "left": 50.0 if share >= 0 else 50.0 - half, "width": half}


def _change(explanation: Explanation, outcome: Outcome) -> View | None:
    """Return what is left of score and rank, and the bar of what went; None where nothing was measured before."""
    if explanation.score is None:
        return None
    change = wording.change(explanation.score, outcome.score)
    fall = explanation.score - outcome.score
    ranks = [rank for rank in (explanation.rank, outcome.rank) if rank is not None]
    return {
        "value": f"{change.before} → {change.after}",
        "difference": change.difference,
        "falls": fall > 0,
        "rank": " → ".join(map(wording.rank, ranks)) if outcome.rank is not None else None,
        "bar": _bar("lost" if fall > 0 else "gained", fall),
    }


def _path(path: Evidence, explanation: Explanation) -> View:
    slight = slight_hops(explanation, path)
    carried = path.together is not None
    cost, score = sentences.own_cost(path)
    alone = [{"effect": effect, "slight": i in slight} for i, effect in enumerate(sentences.each_alone(path))]
    view = {
        "kind": path.kind,
        "start": harmless(path.facts[0].source) if path.facts else "",
        "hops": [
            {
                "relation": harmless(fact.relation),
                "inverse": fact.inverse,
                "visible": fact.visible,
                "slight": i in slight,
                "source": harmless(fact.source),
                "target": harmless(fact.target),
            }
            for i, fact in enumerate(path.facts)
        ],
        "spoken": spoken(path.facts),
        "notes": sentences.fact_notes(path),
        "against": sentences.against_note(explanation, path),
        "together": None if path.together is None else wording.carried(path.together),
        "bar": None if path.together is None else _bar("carried", path.together),
        "alone": alone,
        "slight": sentences.slight_note(path, slight),
        "own": {"cost": cost, "score": score},
        "without": _change(explanation, Outcome(path.score_without, path.rank_without)),
        "proposed_by": harmless(path.proposed_by) if path.proposed_by else None,
    }
    there = {Measure.TOGETHER: carried, Measure.WITHOUT: view["without"] is not None}
    first = leading(explanation)
    rows = [first, *(measure for measure, known in there.items() if known and measure is not first)]
    return view | {"rows": [measure.name for measure in rows if there.get(measure, True)]}


def _together(explanation: Explanation) -> list[View]:
    """Return what removing the paths one after another does, then all of them, then all else."""
    rows: list[tuple[str, Outcome | None]] = [
        (f"without {noun(explanation, m)} {'1' if m == 1 else f'1–{m}'}", outcome)
        for m, outcome in sorted(explanation.without_top.items())
        if m < len(explanation.evidence)
    ]
    rows += [("without all of these", explanation.without_all), ("with only these", explanation.only_these)]
    return [
        {"label": label, "outcome": _change(explanation, outcome)}
        for label, outcome in rows
        if outcome is not None and explanation.score is not None
    ]


def _deletion(explanation: Explanation) -> View | None:
    if explanation.score is None or not explanation.deletion:
        return None
    return {
        "curve": svg.deletion(explanation.score, explanation.deletion),
        "row": sentences.deletion_row(explanation),
        "mean": sentences.deletion_mean(explanation),
    }


def _details(explanation: Explanation) -> list[View]:
    rows: list[View] = []
    if (size := explanation.size) is not None:
        rows += [
            _row("nodes of the computation graph", f"{size.nodes:,}"),
            _row("its edges", f"{size.edges:,}"),
        ]
        if size.edges_looked_at is not None:
            rows += [_row("edges looked at", f"{size.edges_looked_at:,}")]
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
