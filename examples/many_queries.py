"""Explain many predictions, judge the explanations, and keep them as JSON Lines, a page and a figure.

python examples/many_queries.py [OUT]
"""

import sys
from pathlib import Path

import torch

import powerlink
from powerlink.report.schema import to_json

out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")

model = powerlink.train(
    powerlink.load_graph("atlas"),
    out / "model",
    model=powerlink.ModelSettings(encoder="wgcn", decoder="distmult", widths=(32, 32, 32)),
    training=powerlink.TrainingSettings(epochs=30, lr=0.01),
)

# Ten held-out facts by index; named triples work as well: [("Kenya", "in_continent", "Africa"), …]
queries = torch.from_numpy(model.graph.test.copy())[:10]
explanations = powerlink.explain_many(
    model,
    queries,
    explainer=powerlink.PowerLink(steps=20),
    settings=powerlink.ExplainSettings(paths=3, metrics="paper"),  # F+ and its like are not measured by default
    seed=1,
)

evaluation = powerlink.evaluate(explanations)
print(evaluation.queries, "queries:", evaluation.statuses)
for figure in evaluation.figures:
    print(f"{figure.protocol:9} {figure.metric:24} {figure.mean:7.3f}  [{figure.low:.3f}, {figure.high:.3f}]")

lines = out / "explanations.jsonl"
lines.write_text("".join(to_json(e) + "\n" for e in explanations), encoding="utf-8")
assert powerlink.read_explanations(lines) == explanations  # nothing is lost on the way

powerlink.write_page(explanations, out / "report.html", "Ten predictions about the world")
with_paths = next(e for e in explanations if e.paths)
powerlink.save_figure(with_paths, out / "figure.png")
print("written:", lines, out / "report.html", out / "figure.png")
