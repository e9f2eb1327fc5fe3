"""What the HTML templates ask for beside sentences and words: bars of one fixed scale, curves, and rows of numbers."""

from __future__ import annotations

import json
from typing import Any

from powerlink.explanation import Evidence, Explanation, Fact, MadeBy, Outcome
from powerlink.report import wording
from powerlink.report.drawing import Point
from powerlink.report.measures import noun, odds_share
from powerlink.report.wording import harmless

View = dict[str, Any]
Rows = list[tuple[str, str]]  # of names and values

CURVE_WIDTH, CURVE_HEIGHT = 240.0, 48.0


def said(fact: Fact) -> str:
    """Return a fact as it is stored, for those who listen."""
    return " ".join(map(harmless, (fact.head, fact.relation, fact.tail)))


def short(value: float) -> str:
    """Return a length or a coordinate with one decimal, or none."""
    return f"{value:.1f}".removesuffix(".0")


def points(some: tuple[Point, ...]) -> str:
    """Return points as an SVG path has them."""
    return " ".join(f"{short(x)},{short(y)}" for x, y in some)


def bar(kind: str, fall: float) -> View:
    """Return where a bar lies, in per cent of its track; zero is always in the middle, losses lie right of it."""
    share = odds_share(fall)
    half = round(50 * abs(share), 1)
    return {"kind": kind, "left": 50.0 if share >= 0 else 50.0 - half, "width": half}


def change(explanation: Explanation, outcome: Outcome) -> View:
    """Return what is left of score and rank, and the bar of what went; there was a score before."""
    assert explanation.score is not None
    worded = wording.change(explanation.score, outcome.score)
    fall = explanation.score - outcome.score
    ranks = [wording.rank(rank) for rank in (explanation.rank, outcome.rank) if rank is not None]
    return {
        "value": f"{worded.before} → {worded.after}",
        "difference": worded.difference,
        "falls": fall > 0,
        "rank": " → ".join(ranks) if outcome.rank is not None else "",
        "bar": bar("lost" if fall > 0 else "gained", fall),
    }


def change_without(explanation: Explanation, piece: Evidence) -> View:
    """Return what is left without one piece of evidence."""
    return change(explanation, Outcome(piece.score_without, piece.rank_without))


def removals(explanation: Explanation) -> list[tuple[str, Outcome]]:
    """Return what removing the paths one after another does, then all of them, then all else."""
    rows: list[tuple[str, Outcome | None]] = [
        (f"without {noun(explanation, m)} {'1' if m == 1 else f'1–{m}'}", outcome)
        for m, outcome in sorted(explanation.without_top.items())
        if m < len(explanation.evidence)
    ]
    rows += [("without all of these", explanation.without_all), ("with only these", explanation.only_these)]
    return [(label, outcome) for label, outcome in rows if outcome is not None]


def deletion_curve(explanation: Explanation) -> View:
    """Return the steps of the score while fact after fact is removed, on the bars' scale: 1 is up, zero the middle."""
    assert explanation.score is not None
    zero, wide = CURVE_HEIGHT / 2, CURVE_WIDTH / len(explanation.deletion)
    shares = [odds_share(explanation.score - left) for left in explanation.deletion]
    steps = "".join(f"V{short(zero * (1 + share))}h{wide:.2f}" for share in shares)
    line = f"M0,{short(zero)}{steps}"
    return {"width": round(CURVE_WIDTH), "height": round(CURVE_HEIGHT), "zero": short(zero), "line": line}


def details(explanation: Explanation) -> Rows:
    """Return the size of the computation graph and the paper's figures, where they are known."""
    rows: Rows = []
    if (size := explanation.size) is not None:
        rows += [
            ("nodes of the computation graph", f"{size.nodes:,}"),
            ("its edges", f"{size.edges:,}"),
            *([("edges looked at", f"{size.edges_looked_at:,}")] if size.edges_looked_at is not None else []),
            ("edges after pruning", f"{size.edges_kept:,}"),
        ]
    if (paper := explanation.paper) is not None:
        rows += [
            ("fidelity+ (paper)", wording.number(paper.fidelity_plus, 4)),
            ("fidelity− (paper)", wording.number(paper.fidelity_minus, 4)),
            ("sparsity (paper)", wording.number(paper.sparsity, 4)),
            ("sparsity of kept edges", wording.number(paper.sparsity_kept, 4)),
            ("rank in the computation graph", wording.rank(paper.rank)),
        ]
        tops = sorted(paper.rank_without_top.items())
        rows += [(f"its rank without the top {m}", wording.rank(rank)) for m, rank in tops]
    return rows


def made_by_rows(made_by: MadeBy) -> Rows:
    """Return what is needed to make the same explanation again."""
    settings = [*made_by.explainer_settings.items(), *made_by.settings.items()]
    rows = [
        ("explainer", made_by.explainer),
        *((name.replace("_", " "), value) for name, value in settings),
        ("reading", made_by.reading),
        ("seed", made_by.seed),
        ("graph", made_by.graph),
        ("model", made_by.model),
        ("model hash", made_by.model_hash),
        *made_by.versions.items(),
    ]
    return [(harmless(name), harmless(_shown(value))) for name, value in rows]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
