"""The page of faithfulness.py."""

from __future__ import annotations

from pages.markdown import Result, origin, table

DEFAULT, DROP = "slopes, carried (default)", "slopes, largest-drop"
OLD, CHANCE = "power-link, largest-drop (the old default)", "random, largest-drop"
SLOPES, PAPER, UNASKED = "slopes, mask", "power-link, mask (paper)", "random, mask"


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
those of `slopes`, `random` none but its own. `mask` takes the explainer's own order, as the paper does; `power-link-plus` searches
by the slopes, so there it shows their paths.

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

* `{DEFAULT}` has {_ratios(models, DEFAULT, DROP)} of the fall of `{DROP}`, and {_ratios(models, DEFAULT, DROP, "mean deletion area")} of its
  deletion area. If the question is which five paths hurt most, ask for `--select largest-drop`.
* `{DROP}` has {_ratios(models, DROP, OLD)} of the fall of the old default, though nothing is learned.
* Choosing by the fall goes a long way with any candidates: `{CHANCE}` is above `{PAPER}` on {_above(models, CHANCE, PAPER)}
  models, above `{DEFAULT}` on {_above(models, CHANCE, DEFAULT)}, and above `{SLOPES}` on {_above(models, CHANCE, SLOPES)}.
* Beside orders that were not chosen by the fall: `{DEFAULT}` is above `{PAPER}` on {_above(models, DEFAULT, PAPER)} models,
  above `{UNASKED}` on {_above(models, DEFAULT, UNASKED)}, and above `{SLOPES}` on {_above(models, DEFAULT, SLOPES)}. `{SLOPES}` is above `{PAPER}` on {_above(models, SLOPES, PAPER)}.
"""


def _ratios(models: Result, one: str, other: str, measure: str = "mean drop") -> str:
    """Say which share of another's mean one run has, from the least to the most over the models."""
    ratios = [m[measure][one] / m[measure][other] for m in models.values()]
    least, most = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    return least if least == most else f"{least} to {most}"


def _above(models: Result, one: str, other: str) -> str:
    """Count the models on which one run's mean fall is larger than another's."""
    count = sum(m["mean drop"][one] > m["mean drop"][other] for m in models.values())
    return f"{count} of {len(models)}"
