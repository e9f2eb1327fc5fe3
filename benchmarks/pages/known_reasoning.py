"""The page of known_reasoning.py."""

from __future__ import annotations

from pages.markdown import Result, origin, table


def text(result: Result) -> str:
    runs = list(dict.fromkeys(row["run"] for row in result["rows"]))
    kinds = list(dict.fromkeys((row["entities"], row["noise"]) for row in result["rows"]))
    hits = {(row["entities"], row["noise"], row["run"]): row for row in result["rows"]}
    rows = [
        [
            run,
            *(f"{hits[(*kind, run)]['hit']:.2f}" for kind in kinds),
            *(f"{hits[(*kind, run)]['route']:.2f}" for kind in kinds),
        ]
        for run in runs
    ]
    count, seeds = result["rows"][0]["queries"], result["graph_seeds"]
    names = [f"{size} entities, {noise}" for size, noise in kinds]
    return f"""# Is the first path a true one?

{origin(result)}

Models that reason by planted rules of two and three hops, so the true path is known to the exact relation. Beside it stand
false paths, facts of other relations along every true hop, scattered facts and hubs. `hit` is the share of {count} queries
whose first path is true; `route` the share whose first path runs through the nodes of a true one, whatever the relations.
Graphs of seed {", ".join(map(str, seeds))}; settings were chosen on seeds 0 and 1. With {count} queries a figure is uncertain by 0.3 either way.

{table(["run", *(f"hit: {name}" for name in names), *(f"route: {name}" for name in names)], rows)}

`mask` is an explainer's own order, as the papers have it; `alone, proof` is the choice by proof among its own 40 candidates;
`power-link, proof (default)` adds the gradient's.

What to take from it.

* **Plain gradients order paths best.** The gradient of the score, one backward pass, is above every learned mask in its own
  order. GNNExplainer-Link comes closest: a free number per edge learns the model of rules, while a scorer that must reach all
  edges through a few weights (Power-Link at 50 steps) does not get there. `thorough` is `PowerLink.thorough()` (300 steps, size
  and prediction weighted 3) with `cost="log"`.
* **PaGE-Link's own order is at chance here, by its definition.** It prefers nodes of few edges, and the facts beside each true hop
  give its nodes more edges than those of false paths: `low-degree`, which does only that, finds nothing. Adam then lifts every edge on the paths it strengthens as
  fast as the edges that the prediction needs, so the mask does not tell them apart (figures in
  [method.md](../method.md#14-the-peers)). `page-link, mask, cost log` orders by the mask alone, without degrees. As a proposer it
  does better: proof picks the truth out of its candidates.
* **PGExplainer-Link does not read relations**, and here relations are what makes a path true: of the facts beside each other on
  a hop it can only take the first. So `hit` is unfair to it; look at `route`. `reading relations` is the same network with the
  edge's relation as one more input, fitted alike: where graphs are quiet or large it finds true paths that the other cannot, and
  where they are loud it is at chance, too. So relations are one reason, not the only one; that one network, fitted on 48 queries or
  fewer, does not carry over to nodes it has not seen would be another, but was not tested. Both were fitted with a size weight of 0.25; at 0.05
  the network learns to keep every edge of these models.
* Without the prediction term Power-Link never asks the model and its hits are chance; without the path term it loses little
  or nothing here.

Intervals are in `benchmarks/results/known_reasoning.json`.
"""
