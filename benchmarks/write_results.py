"""Turn the saved results of the benchmarks into docs/results/: no figure there is written by hand.

python benchmarks/write_results.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from pages import (
    compare_sets,
    compare_umls,
    faithfulness,
    ground_truth,
    known_reasoning,
    models,
    paper_protocol,
    power_link_plus,
    reasons,
    retrained,
    scale,
    speed,
    training_speed,
    umls_models,
    workers,
)
from pages.markdown import Result

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parent.parent / "docs" / "results"
PAGES: dict[str, Callable[[Result], str]] = {  # saved results of this name → the page's text
    "faithfulness": faithfulness.text,
    "known_reasoning": known_reasoning.text,
    "ground_truth": ground_truth.text,
    "umls_models": umls_models.text,
    "compare_umls": compare_umls.text,
    "compare_sets": compare_sets.text,
    "paper_protocol": paper_protocol.text,
    "power_link_plus": power_link_plus.text,
    "spread": workers.text,
}
PAGE_NAMES = {"spread": "workers"}


def pages() -> dict[str, str]:
    """Return the text of every page whose results are saved."""
    texts = {}
    for name, write in PAGES.items():
        if (path := RESULTS / f"{name}.json").is_file():
            texts[f"{PAGE_NAMES.get(name, name).replace('_', '-')}.md"] = write(json.loads(path.read_text("utf-8")))
    texts["reasons.md"] = reasons.text(reasons.saved(RESULTS))
    again = sorted((RESULTS / "retrained").glob("*.json"))
    texts["retrained.md"] = retrained.text([json.loads(path.read_text("utf-8")) for path in again])
    texts["scale.md"] = scale.text(scale.saved(RESULTS))
    texts["speed.md"] = speed.text(speed.saved(RESULTS))
    texts["training-speed.md"] = training_speed.text(*training_speed.saved(RESULTS))
    trained = sorted((RESULTS / "models").glob("*.json"))
    texts["models.md"] = models.text(*(json.loads(path.read_text("utf-8")) for path in trained))
    return texts


def main() -> None:
    DOCS.mkdir(parents=True, exist_ok=True)
    for page, text in pages().items():
        (DOCS / page).write_text(text, encoding="utf-8")
    speed.draw(speed.saved(RESULTS), DOCS / "speed.png")
    power_link_plus.draw(json.loads((RESULTS / "power_link_plus.json").read_text("utf-8")), DOCS / power_link_plus.PLOT)


if __name__ == "__main__":
    main()
