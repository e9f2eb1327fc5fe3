"""The page of reasons: how the rule of choice was found, and what it is worth on pairs it was not chosen on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from pages.markdown import Result, origin, table
from powerlink.verify.metrics import bootstrap_interval

DIGITS = 3
ROWS_OF = {"slopes, carried": "the default", "slopes, largest-drop": "the old rule, the same candidates"}


def saved(folder: Path) -> dict[str, Result]:
    """Read what there is of the three measurements."""
    names = ("choice_rules", "drug_mechanisms", "drug_mechanisms_train_valid")
    found = {name: folder / f"{name}.json" for name in names}
    return {name: json.loads(path.read_text("utf-8")) for name, path in found.items() if path.is_file()}


def text(results: dict[str, Result]) -> str:
    test = results["drug_mechanisms"]
    parts = [
        """# Is what is shown first a reason?

Two kinds of reasons that somebody knows. *Mechanisms*: 232 treatments of Hetionet for which DrugMechDB tells by which genes the drug works,
explained for three trained models; a path is right if it runs through a gene of the mechanism. It is a hard truth: a model may have
learned something else. *Families*: planted family trees, models trained on them; a path is right if it follows a rule of kinship. How the
default does on planted rules, where the model's reasons themselves are known, is told [on a page of its own](known-reasoning.md).""",
        _rules(results["choice_rules"]),
    ]
    if "drug_mechanisms_train_valid" in results:
        parts.append(
            f"""### The old rule on the same pairs

{_origin(results["drug_mechanisms_train_valid"])} Training and validation pairs. MRR among ten paths, with 95 % intervals: pairs are resampled.

{_trial(results["drug_mechanisms_train_valid"])}"""
        )
    parts.append(
        f"""## Test pairs

{_origin(test)} The 52 test pairs were looked at once, when rule and constants stood. ▲ above and ▼ below
the default: the 95 % interval of the mean difference leaves out zero, pairs resampled (of several models, a pair with all of them).

{_trial(test)}

{_verdict(test)}"""
    )
    if "drug_mechanisms_train_valid" in results:
        parts.append(_all_pairs(results["drug_mechanisms_train_valid"], test))
    return "\n\n".join(parts) + "\n"


def _all_pairs(*results: Result) -> str:
    """Set both rules beside each other on the pairs of all splits."""
    first, second = list(ROWS_OF)
    gains: dict[str, dict[tuple[str, ...], tuple[float, float]]] = {}
    for result in results:
        for found in result["tables"][:-1]:  # the last one is of all models together
            places = {row["way"]: row["places"] for row in found["rows"]}
            told = zip(found["asked"], places[first], places[second], strict=True)
            of = gains.setdefault(found["label"], {})
            of |= {tuple(pair): (_reciprocal(one), _reciprocal(other)) for pair, one, other in told}
    pairs = list(next(iter(gains.values())))
    values = {label: np.array([of[pair] for pair in pairs]) for label, of in gains.items()}
    values["all models together"] = np.mean([values[label] for label in gains], axis=0)
    rows = []
    for label, both in values.items():
        gap = both[:, 0] - both[:, 1]
        low, high = bootstrap_interval(gap, seed=0)
        beside = f"{gap.mean():+.3f} ({low:+.3f} … {high:+.3f})"
        rows.append([label, str(len(pairs)), *(f"{mean:.3f}" for mean in both.mean(0)), beside])
    return f"""### Both rules on all pairs

The two tables of pairs above in one, the same explanations: training and validation pairs, on which the rule was chosen, and test pairs.

{table(["model", "pairs", "the default", "the old rule", "difference"], rows)}

On the training and validation pairs the old rule has half of the default's MRR, on the test pairs it comes close, on one model level: so much do 52 pairs
vary. The difference there points the same way and is not beyond chance."""


def _reciprocal(place: int | None) -> float:
    return 1 / place if place else 0.0


def _origin(result: Result) -> str:
    return origin(result) if "command" in result else ""


def _rules(result: Result) -> str:
    columns = result["columns"]
    hetionet = [name for name in columns if not name.startswith("family")]
    families = [name for name in columns if name.startswith("family")]
    rules = [rule for rule in columns[hetionet[0]] if rule != "queries"]

    def mean(rule: str, names: list[str]) -> float:
        return sum(columns[name][rule] for name in names) / len(names)

    ordered = sorted(rules, key=lambda rule: -mean(rule, hetionet))
    rows = [
        [
            f"**{rule}**" if rule == result["chosen"] else rule,
            *(f"{columns[name][rule]:.{DIGITS}f}" for name in hetionet),
            f"{mean(rule, hetionet):.{DIGITS}f}",
            f"{mean(rule, families):.{DIGITS}f}",
        ]
        for rule in ordered
    ]
    pairs = ", ".join(f"{columns[name]['queries']}" for name in hetionet[:2])
    return f"""## How the rule was found

{origin(result)}

Candidates are those of the default: 40 paths each of `slopes` and `low-degree`. For each the model was asked about the removal of every
subset of its facts, in float64, and rules order them by that. MRR among ten paths on training and validation pairs ({pairs} pairs of each model), and the
share of families' facts whose first path is right (mean of two trees, four models each). Rows marked … add a condition to *reasons, fewest facts, then
together*, where a reason is a path whose facts carry something together.

{table(["order by", *hetionet, "mean", "families"], rows)}

Some ninety rules and constants were looked at in all; this table has one of each kind. Rules that begin with what is carried together, or
with few facts, lie close to each other, and far above the fall of the score, whole or per fact. Taken is what is simplest to say among the best, with a
condition that keeps trifles out at no cost."""


def _trial(result: Result) -> str:
    blocks = []
    for found in result["tables"]:
        rows = []
        for row in found["rows"]:
            figures, gap = row["figures"], row["differences"].get("MRR")
            mark = "" if gap is None or not gap["significant"] else "▲" if gap["mean"] > 0 else "▼"
            mrr = figures["MRR"]
            beside = "" if gap is None else f"{gap['mean']:+.3f} ({gap['low']:+.3f} … {gap['high']:+.3f}){mark}"
            rows.append(
                [
                    _named(row["way"]),
                    f"{mrr['mean']:.3f} ({mrr['low']:.3f} … {mrr['high']:.3f})",
                    *(f"{figures[hit]['mean']:.2f}" for hit in ("hit@1", "hit@3", "hit@5", "hit@10")),
                    beside,
                ]
            )
        header = ["explainer, choice", "MRR", "hit@1", "hit@3", "hit@5", "hit@10", "MRR beside the first row"]
        blocks.append(f"**{found['label']}**, {_asked(found)}\n\n{table(header, rows)}")
    return "\n\n".join(blocks)


def _asked(found: Result) -> str:
    count = found["queries"] if isinstance(found["queries"], int) else len(found["queries"])
    within = found.get("within_reach")
    return f"{count} queries" + (f"; for {within} the graph has a right path" if within is not None else "")


def _named(way: str) -> str:
    return f"{way} ({ROWS_OF[way]})" if way in ROWS_OF else way


def _verdict(result: Result) -> str:
    together = result["tables"][-1]
    first, *others = together["rows"]
    above, level = [], []
    for row in others:
        gap = row["differences"]["MRR"]
        (above if gap["significant"] and gap["mean"] < 0 else level).append(f"`{row['way']}`")
    said = f"On the three models together the default ({first['figures']['MRR']['mean']:.3f}) is above {_list(above)} by more than chance"
    return f"{said}, and not clearly apart from {_list(level)}: 52 pairs leave wide intervals." if level else f"{said}."


def _list(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
