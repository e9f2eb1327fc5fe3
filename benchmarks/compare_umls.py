"""Explainers side by side on UMLS: one model of each encoder, the same believed test facts for every explainer.

The explainers of the catalog that are no ablation of another, each with paths in its own order (`mask`, the paper's
protocol) and chosen among its own candidates by what their facts carry together (`carried`). It goes on where it was if
it is killed, and it writes the page of the comparison into its folder.

    python benchmarks/compare_umls.py --data-dir DIR --models DIR --folder DIR
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from best_fit import best_fit
from powerlink import ExplainSettings, ModelSettings, Session, TrainingSettings, load_graph, rank, train
from powerlink.atomic_file import write_atomically
from powerlink.models.checkpoint import versions
from powerlink.report.compare import as_plain, write_comparison
from powerlink.run.compare import compare_model, find_recipes, makers
from powerlink.run.comparison_folder import CompareSettings, Comparison
from powerlink.run.fitting import spread_over
from powerlink.run.queries import choose_queries
from powerlink.verify.comparison import ModelComparison

RESULTS = Path(__file__).parent / "results" / "compare_umls.json"
LAYERS = {"rgcn": 1, "wgcn": 2, "compgcn": 2}
TRAINING = TrainingSettings(epochs=200, batch_size=128)
ALL = ["power-link", "power-link-plus", "page-link", "gnn-explainer", "pg-explainer"]
ALL += ["slopes", "gradient", "shortest", "low-degree", "random"]


def compared(
    session: Session, folder: Path, names: list[str], queries: int, fit: int
) -> tuple[ModelComparison, dict[str, Any]]:
    """Compare the explainers of one model."""
    comparison = Comparison(folder, CompareSettings(), session.graph.fingerprint)
    chosen = choose_queries(session, torch.from_numpy(np.array(session.graph.test)), "believed", limit=queries)

    fits = fitted(comparison, session, fit) if "pg-explainer" in names else {"tried": []}
    weights = [comparison.home(session) / fits["file"]] if fits["tried"] else []
    explainers = makers(comparison, session, find_recipes(names, can_fit=True), weights)
    # Both choices share most of the work: what they took together is not the sum of what each would have taken.
    file, start = comparison.home(session) / "cpu_seconds.json", time.process_time()
    before = float(json.loads(file.read_text("utf-8"))) if file.is_file() else 0.0  # of runs that were killed

    def told(what: str, done: int, of: int) -> None:
        print(f"  {what:35} {done:4} of {of}", flush=True)
        write_atomically(file, json.dumps(before + time.process_time() - start).encode())

    found = compare_model(comparison, session, chosen, explainers, told=told)
    return found, {
        "mrr": rank(session).mrr,
        "looked at": chosen.looked_at,
        "cpu seconds": json.loads(file.read_text("utf-8")),
        "fit": fits,
        **as_plain(found),
    }


def fitted(comparison: Comparison, session: Session, count: int) -> dict[str, Any]:
    """Fit PGExplainer-Link in the best of a few ways, or tell what an earlier run has fitted."""
    home = comparison.home(session)
    if not (home / "fit.json").is_file():
        train = spread_over(torch.from_numpy(np.array(session.graph.train)), count)
        valid = choose_queries(session, torch.from_numpy(np.array(session.graph.valid)), "believed", limit=count)
        own_order = ExplainSettings(select="mask", also_consider="none")
        found = best_fit(session, train, valid.queries, home, own_order)
        write_atomically(home / "fit.json", (json.dumps(found, indent=1) + "\n").encode())
    return dict(json.loads((home / "fit.json").read_text("utf-8")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--models", type=Path, default=Path("models/umls-compare"), help="where models are kept")
    parser.add_argument("--folder", type=Path, default=Path("models/umls-compare/comparison"))
    parser.add_argument("--machine", default="1 core of a 2-core CPU")
    parser.add_argument("--explainers", default=",".join(ALL), help="names, separated by commas")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--fit", type=int, default=40, help="training facts that pg-explainer is fitted on")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    graph = load_graph("umls", data_dir=arguments.data_dir)
    results: dict[str, Any] = {
        "command": f"python benchmarks/compare_umls.py --explainers {arguments.explainers}",
        "machine": arguments.machine,
        "date": date.today().isoformat(),
        "versions": versions(),
        "queries": arguments.queries,
        "fit": arguments.fit,
        "explainers": arguments.explainers.split(","),
        "models": {},
    }
    pages: list[ModelComparison] = []
    for encoder, layers in LAYERS.items():
        model = ModelSettings(encoder=encoder, decoder="distmult", widths=(100,) * (layers + 1))
        print(model.name, flush=True)
        session = train(graph, arguments.models / model.name, model=model, training=TRAINING)
        names = arguments.explainers.split(",")
        found, told = compared(session, arguments.folder, names, arguments.queries, arguments.fit)
        pages.append(found)
        results["models"][model.name] = told
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")
        write_comparison(pages, arguments.folder, {"queries": arguments.queries, "fit": arguments.fit})


if __name__ == "__main__":
    main()
