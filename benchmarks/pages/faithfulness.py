"""The page of faithfulness.py."""

from __future__ import annotations

from pages.markdown import Result, origin, table

DEFAULT, DROP = "slopes, carried (default)", "slopes, largest-drop"
OLD, CHANCE = "power-link, largest-drop (the old default)", "random, largest-drop"
SLOPES, PLUS, PAPER = "slopes, mask", "power-link-plus, mask", "power-link, mask (paper)"


def text(result: Result) -> str:
    models = result["models"]
    runs = list(next(iter(models.values()))["mean drop"])
    drops = [
        [name, f"{m['mrr']:.3f}", str(m["queries"]), *(f"{m['mean drop'][run]:.3f}" for run in runs)]
        for name, m in models.items()
    ]
    areas = [[name, *(f"{m['mean deletion area'][run]:.3f}" for run in runs)] for name, m in models.items()]
    counts = [[name, *(f"{m['mean facts'][run]:.1f}" for run in runs)] for name, m in models.items()]
    shares = [
        [
            name,
            str(m["exhaustive"]["queries"]),
            f"{m['exhaustive']['mean drop']:.3f}",
            *(f"{m['exhaustive']['on the same'][run] / m['exhaustive']['mean drop']:.3f}" for run in (DEFAULT, DROP)),
            *(f"{m['above random'][run]:.2f}" for run in (DEFAULT, DROP, OLD)),
        ]
        for name, m in models.items()
    ]
    heads = [f"share, {run}" for run in (DEFAULT, DROP)] + [f"above random, {run}" for run in (DEFAULT, DROP, OLD)]
    return f"""# How much hangs on five paths?

{origin(result)}

Trained models, at most {max(m["queries"] for m in models.values())} test queries whose answer they rank first (tails, then heads), five paths of at most three
hops. The paths' facts are removed together, and the figure is the mean fall of the model's logit: how much hangs on these five
paths. `largest-drop` chooses greedily by exactly this fall, so what it optimises is what is measured here. `carried`, the
default, answers another question: why does the model believe it? It looks for facts that carry something *together*, fewest
facts first, and is expected to be lower here. Whether it finds the reason is measured [where reasons are known](known-reasoning.md).

A query is taken if it has more than 40 routes between head and tail; with fewer, `random` is handed every path there is and
nothing can be above it. An explainer proposes 40 candidates. `slopes` has those of `low-degree` beside its own, the old default
those of `slopes`, `random` none but its own. `mask` takes the explainer's own order, as the paper does.

{table(["model", "test MRR", "queries", *runs], drops)}

## The deletion area

The facts of the shown paths are removed one after the other: path by path as they are shown, within a path the fact with
the largest effect first. The deletion area is the mean fall per removed fact over these steps. It is high if few facts take much.

{table(["model", *runs], areas)}

How many facts the shown paths have:

{table(["model", *runs], counts)}

## Beside all paths

Exhaustive search chooses greedily by the fall among *all* paths of at most three hops of the unpruned graph, on the first queries that
have at most 10,000 of them. `share` is a choice's fall over that, on the same queries. `above random`: on which share of all
queries of the table above the fall is larger than that of `{CHANCE}`.

{table(["model", "queries", "exhaustive", *heads], shares)}

## What to take from it

* {_ratios(models, DEFAULT, DROP)} of the fall that `largest-drop` finds among the same candidates, and
  {_ratios(models, DEFAULT, DROP, "mean deletion area")} of its deletion area. That is the price of asking why, not how much.
* {_ratios(models, DROP, OLD)} of what the old default reached, though nothing is learned.
* Choice by the model's answers matters more than who proposes: `{CHANCE}` is above `{PAPER}` on
  {_above(models, CHANCE, PAPER)} models. `{DEFAULT}` is above `{CHANCE}` on {_above(models, DEFAULT, CHANCE)},
  and above `{PAPER}` on {_above(models, DEFAULT, PAPER)}.
* In their own order `{SLOPES}` is above `{PAPER}` on {_above(models, SLOPES, PAPER)} models, and above
  `{PLUS}` on {_above(models, SLOPES, PLUS)}.
"""


def _ratios(models: Result, one: str, other: str, measure: str = "mean drop") -> str:
    """Say which share of another's mean one run has, from the least to the most over the models."""
    ratios = [m[measure][one] / m[measure][other] for m in models.values()]
    told = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return f"`{one}` has {told}" if measure == "mean drop" else told


def _above(models: Result, one: str, other: str) -> str:
    """Count the models on which one run's mean fall is larger than another's."""
    count = sum(m["mean drop"][one] > m["mean drop"][other] for m in models.values())
    return f"{count} of {len(models)}"
