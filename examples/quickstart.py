"""Train a small model on the bundled atlas, explain one prediction, and write a page.

python examples/quickstart.py [OUT]
"""

import sys
from pathlib import Path

import powerlink

out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")

# A model is a folder. Training goes on where it was if it is stopped, and does nothing if it is finished.
model = powerlink.train(
    powerlink.load_graph("atlas"),
    out / "model",
    model=powerlink.ModelSettings(encoder="compgcn", decoder="distmult", widths=(32, 32, 32)),
    training=powerlink.TrainingSettings(epochs=30, lr=0.01),
)
print(powerlink.rank(model))

# Why does the model believe that Kenya is in Africa?
explanation = powerlink.explain(model, "Kenya", "in_continent", "Africa")
powerlink.show(explanation)

# The same as a page that needs no network.
powerlink.write_page([explanation], out / "report.html", "Why is Kenya in Africa?")
print("page:", out / "report.html")
