"""The page of compare_umls.py with those that name sets: few facts beside many, per fact and by their number."""

from __future__ import annotations

from pages.comparison import compared
from pages.markdown import Result, origin, table

CHOICES = {"mask": "In the explainer's own order", "carried": "By what is carried, among its own candidates"}


def text(result: Result) -> str:
    parts = []
    for name, model in result["models"].items():
        told = "\n\n".join(f"{CHOICES[select]}:\n\n{_table(model, select)}" for select in model["tables"])
        parts.append(f"## {name}\n\nTest MRR {model['mrr']:.3f}. {model['queries']} believed test facts.\n\n{told}\n")
    return f"""# Paths and sets side by side on UMLS

{origin(result)} Processor seconds of one core that others used, too.

Who names many facts can make the score fall further than who names one. So the fall is told per fact (without all shown facts, over their number) and after the
first 1, 2, 4 and 8 facts in the order shown. ▲ and ▼: more than chance above or below `{result["explainers"][0]}`.

{chr(10).join(parts)}"""


def _table(model: Result, select: str) -> str:
    rows = []
    for row in model["tables"][select]:
        figures = {figure["metric"]: figure["mean"] for figure in row["figures"]}
        rows.append(
            [
                row["explainer"],
                f"{figures['facts shown']:.1f}",
                compared(row, "logit drop, per fact", "powerlink"),
                *(compared(row, f"logit drop, first {count} facts", "powerlink") for count in (1, 2, 4, 8)),
                compared(row, "logit drop, all paths", "powerlink"),
                *(compared(row, f"HΔR:{top}", "powerlink") for top in (1, 5)),
                f"{model['paces'][row['explainer']]['whole_cpu'][select]:.2f}",
            ]
        )
    falls = [f"after {count}" for count in (1, 2, 4, 8)]
    return table(["explainer", "facts", "fall per fact", *falls, "of all", "HΔR:1", "HΔR:5", "s a query"], rows)
