"""Turn the saved results of the benchmarks into docs/results/: no figure there is written by hand.

python benchmarks/write_results.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "results"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; the first column is text, the others are numbers."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def origin(result: dict[str, Any]) -> str:
    """Say what made the figures."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return f"Made by `{result['command']}`, {result['machine']}, {result['date']} ({versions})."


def faithfulness(result: dict[str, Any]) -> str:
    models = result["models"]
    runs = list(next(iter(models.values()))["mean drop"])
    drops = [
        [name, f"{m['mrr']:.3f}", str(m["queries"]), *(f"{m['mean drop'][run]:.3f}" for run in runs)]
        for name, m in models.items()
    ]
    shares = [
        [
            name,
            str(m["exhaustive"]["queries"]),
            f"{m['exhaustive']['mean drop']:.3f}",
            f"{m['exhaustive']['default on the same']:.3f}",
            f"{m['exhaustive']['share']:.3f}",
            f"{m['above random by proof']:.2f}",
            f"{m['not below random by proof']:.2f}",
            f"{m['paper order above random order']:.2f}",
        ]
        for name, m in models.items()
    ]
    return f"""# Do the shown paths carry the prediction?

{origin(result)}

Trained models, test queries whose answer they rank first (tails, then heads), five paths of at most three hops. The paths'
facts are removed and the figure is the mean fall of the model's logit. A query is taken if it has more than 40 routes between
head and tail; with fewer, `random` is handed every path there is and nothing can be above it. `proof` chooses greedily by that fall, among the explainer's own 40
candidates (the default adds the gradient's 40); `mask` takes the explainer's own order, as the paper does.

{table(["model", "test MRR", "queries", *runs], drops)}

Exhaustive search chooses greedily among *all* paths of at most three hops of the unpruned graph, on the first queries that
have at most 10,000 of them. `share` is the default's fall over that.

{table(["model", "queries", "exhaustive", "default", "share", "above random", "not below random", "paper's order above random order"], shares)}

What to take from it. Proof matters more than who proposes: every explainer gains by it. Plain gradients propose better than
the learned mask on these models, and in its own order the mask is often little better than chance; the two together, judged
by proof, are best. That is why the default is what it is.
"""


def known_reasoning(result: dict[str, Any]) -> str:
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
Graphs of seeds {seeds[0]} to {seeds[-1]}; settings were chosen on seeds 0 and 1.

{table(["run", *(f"hit: {name}" for name in names), *(f"route: {name}" for name in names)], rows)}

`mask` is an explainer's own order, as the papers have it; `alone, proof` is the choice by proof among its own 40 candidates;
`power-link, proof (default)` adds the gradient's.

What to take from it.

* **Plain gradients order paths best.** The gradient of the score, one backward pass, is above every learned mask in its own
  order. GNNExplainer-Link comes closest: a free number per edge learns the model of rules, while a scorer that must reach all
  edges through a few weights (Power-Link at 50 steps) does not get there. `thorough` is `PowerLink.thorough()` (300 steps, size
  and prediction weighted 3) with `cost="log"`.
* **PaGE-Link's own order is no better than chance here.** Likely because its first steps see a mask that knows nothing yet and
  strengthen whatever short paths through nodes of low degree there are, and the next steps find those best again. As a proposer
  it is far above chance on the plain and loud graphs: proof picks the truth out of its candidates.
* **PGExplainer-Link does not read relations**, so of parallel edges it can only take the first, and its `hit` says little: look
  at `route`. There too it is at chance: these models' vectors do not tell it what an unseen query rests on. It was fitted with a
  size weight of 0.25; at its default of 0.05 it learns to keep every edge of these models, which lowers its loss and chooses
  nothing.
* Without the prediction term Power-Link never asks the model and its hits are chance; without the path term it loses little
  or nothing here.

Intervals are in `benchmarks/results/known_reasoning.json`.
"""


def umls_models(result: dict[str, Any]) -> str:
    rows = [
        [
            name,
            *(f"{m['test'][key]:.3f}" for key in ("mrr", "hits@1", "hits@3", "hits@10")),
            str(m["epochs"]),
            f"{m['seconds']:.0f}",
        ]
        for name, m in result["models"].items()
    ]
    return f"""# The nine models on UMLS

{origin(result)}

Filtered, heads and tails, ties at their mean; width 100, best epoch by validation MRR.

{table(["model", "test MRR", "Hits@1", "Hits@3", "Hits@10", "epochs", "seconds"], rows)}
"""


def explain(*results: dict[str, Any]) -> str:
    parts = []
    for result in results:
        rows = [[stage, f"{seconds:.1f}"] for stage, seconds in result["stages"].items()]
        memory = f"Peak memory {result['peak resident GiB']} GiB resident"
        if "peak device GiB" in result:
            memory += f", {result['peak device GiB']} GiB on the device"
        parts.append(f"""## {result["machine"]}

{origin(result)}

{result["queries"]} random test facts of FB15k-237, none refused: {", ".join(f"{n} {s}" for s, n in result["statuses"].items())}.
Computation graphs of {result["edges"]["mean"]:,.0f} edges on average ({result["edges"]["most"]:,} at most), of which pruning
keeps {result["edges kept"]["mean"]:,.0f}. {result["seconds"]} s in all, median {result["median seconds per query"]} s a query.
{memory}.

{table(["stage", "seconds"], rows)}
""")
    return (
        "# Where the time goes\n\nAn untrained WGCN-ConvE of the paper's width, two hops, whatever the size.\n\n"
        + "\n".join(parts)
    )


def main() -> None:
    pages = {
        "faithfulness.md": (faithfulness, ["faithfulness"]),
        "known-reasoning.md": (known_reasoning, ["known_reasoning"]),
        "umls-models.md": (umls_models, ["umls_models"]),
        "speed.md": (explain, ["explain", "explain_h200"]),
    }
    DOCS.mkdir(parents=True, exist_ok=True)
    for page, (write, names) in pages.items():
        found = [HERE / "results" / f"{name}.json" for name in names]
        results = [json.loads(path.read_text("utf-8")) for path in found if path.is_file()]
        if results:
            (DOCS / page).write_text(write(*results), encoding="utf-8")


if __name__ == "__main__":
    main()
