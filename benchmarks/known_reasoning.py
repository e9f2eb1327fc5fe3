"""Is the first path shown a true one? Explainers against a model whose reasons are known.

Planted graphs of several sizes and noise levels, explained for a model that chains the planted rules. `hit` is the
share of queries whose first path is a true rule instance, to the exact relations, `hit_of_3` and `hit_of_5` those with
one among the first three and five; `auc` is the mean ROC-AUC of the facts of true paths among all facts of the
computation graph, by the explainer's scores; `route` tells the queries whose first path runs through the nodes of a
true one, whatever the relations; `touch` those whose first path shares at least one fact with a true one. Timed are
explanations without the paper's own figures.

An explainer that must be fitted is fitted on other goal facts of each graph, with weights of its own for these models;
how they were chosen is told on the page. It runs twice: as it is, and on nodes alone, as PGExplainer's paper has it,
where it cannot tell a true hop from the facts beside it.

    python benchmarks/known_reasoning.py
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from powerlink.explainers.catalog import EXPLAINERS, find_recipe
from powerlink.explainers.learned.pg_explainer import PGFitting
from powerlink.explainers.protocol import Explainer
from powerlink.kg.explained_links import Triple
from powerlink.kg.planted import GOALS, NOISE, Planted, plant
from powerlink.models.checkpoint import versions
from powerlink.models.session import Session
from powerlink.pipeline import ExplainSettings
from powerlink.run.fitting import fit_explainer, spread_over
from powerlink.run.truth import Task

RESULTS = Path(__file__).parent / "results" / "known_reasoning.json"
FIRST_SEED = 100  # graphs that no setting was chosen on
MASK = ExplainSettings(select="mask", hops=1)  # one hop around head and tail holds every path of three
DEFAULT = ExplainSettings(hops=1)
ALONE = replace(DEFAULT, also_consider="none")
DROP = replace(DEFAULT, select="largest-drop")
PG_FITTING = PGFitting(size_weight=0.02, epochs=100, batch=4)
FIT_QUERIES = 400
THOROUGH = {"steps": 300, "size_weight": 3.0, "prediction_weight": 3.0}  # PowerLink.thorough()


@dataclass(frozen=True)
class Run:
    """An explainer by name, with the settings of its explanations."""

    explainer: str
    wish: ExplainSettings
    own: dict[str, Any] = field(default_factory=dict)
    fitting: PGFitting = PG_FITTING

    def make(self, planted: Planted, session: Session, folder: Path) -> Explainer:
        """Make the explainer, fitted if it must be."""
        recipe = find_recipe(self.explainer)
        if recipe.fitting is None:
            return recipe.make(self.own)
        file = folder / f"{planted.graph.name}_{self.fitting.reads_relations}.safetensors"
        if not file.exists():
            goals = np.concatenate([planted.graph.train, planted.graph.valid])
            queries = spread_over(torch.from_numpy(goals[goals[:, 1] < GOALS]), FIT_QUERIES)
            fit_explainer(session, queries, file, kind=recipe.kind, fitting=self.fitting, settings=self.wish)
        return recipe.make({"weights": str(file)})


# no ablations; and of proposers there are no edge scores to hold against the truth
OWN = [name for name, recipe in EXPLAINERS.items() if not recipe.fixed and hasattr(recipe.kind, "score_edges")]
NODES_ALONE = replace(PG_FITTING, reads_relations=False)
RUNS: dict[str, Run] = {
    "slopes, carried (default)": Run("slopes", DEFAULT),
    "slopes, largest-drop": Run("slopes", DROP),
    "power-link, largest-drop (the old default)": Run("power-link", replace(DROP, also_consider="slopes")),
    "random alone, largest-drop": Run("random", replace(DROP, also_consider="none")),
    **{f"{name} alone, carried": Run(name, ALONE) for name in OWN},
    "pg-explainer on nodes alone, carried": Run("pg-explainer", ALONE, fitting=NODES_ALONE),
    **{f"{name}, mask": Run(name, MASK) for name in OWN},
    "pg-explainer on nodes, mask": Run("pg-explainer", MASK, fitting=NODES_ALONE),
    "page-link, mask, cost log": Run("page-link", replace(MASK, cost="log")),
    "power-link, mask, cost log": Run("power-link", replace(MASK, cost="log")),
    "power-link thorough, mask": Run("power-link", replace(MASK, cost="log"), THOROUGH),
    **{f"{name}, mask": Run(name, MASK) for name in ("power-link-no-path", "power-link-no-prediction")},
}


@dataclass(frozen=True)
class Outcome:
    """One query's paths and edge scores, held against the truth."""

    place: float  # of the first true path, from 1; infinity if none is shown
    auc: float  # of the edges' scores
    route: bool
    touch: bool


def main() -> None:
    """Measure every explainer on every kind of graph, print a table and save it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[60, 120], help="entities of a graph")
    parser.add_argument("--noise", choices=NOISE, nargs="+", default=list(NOISE))
    parser.add_argument("--graphs", type=int, default=3, help="graphs of each kind")
    parser.add_argument("--queries", type=int, default=10, help="of each graph")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count(), help="kinds of graphs at a time, one thread each"
    )
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()

    report: dict[str, Any] = {
        "command": f"python benchmarks/known_reasoning.py {' '.join(sys.argv[1:])}".strip(),
        "machine": args.machine,
        "threads": 1,
        "workers": args.workers,
        "date": date.today().isoformat(),
        "versions": versions(),
        "graph_seeds": [FIRST_SEED + i for i in range(args.graphs)],
        "rows": [],
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    kinds = [(size, noise, args.graphs, args.queries) for size in args.sizes for noise in args.noise]
    with ProcessPoolExecutor(args.workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        for rows in pool.map(rows_of_kind, *zip(*kinds, strict=True)):
            report["rows"] += rows
            args.out.write_text(json.dumps(report, indent=1) + "\n")


def rows_of_kind(size: int, noise: str, graphs: int, queries: int) -> list[dict[str, Any]]:
    """Measure every run on the graphs of one size and noise."""
    settings = replace(NOISE[noise], entities=size)
    planted_graphs = [plant(FIRST_SEED + i, settings) for i in range(graphs)]
    folder, rows = Path(tempfile.mkdtemp()), []
    for name, run in RUNS.items():
        start = time.perf_counter()
        found = [one for planted in planted_graphs for one in outcomes(planted, run, folder, queries)]
        row = {"entities": size, "noise": noise, "run": name, **summary(found)}
        row["seconds_per_query"] = round((time.perf_counter() - start) / len(found), 3)
        rows.append(row)
        print(f"{size:4d} {noise:6s} {name:44s} hit {row['hit']:.2f}  auc {row['auc']:.2f}", flush=True)
    shutil.rmtree(folder)
    return rows


def outcomes(planted: Planted, run: Run, folder: Path, count: int) -> list[Outcome]:
    """Explain queries spread over all rules of a graph."""
    task = Task.planted(planted)
    task = Task.of(task.session, task.known, spread_over(task.queries, count))
    asked = task.ask(run.make(planted, task.session, folder), run.wish)
    truths = [task.known.steps[head, relation, tail].paths for head, relation, tail in task.queries.tolist()]
    right, touching = (task.hold(run.explainer, asked, match).places for match in (None, "touches"))
    found = []
    for place, touch, auc, told, paths in zip(
        right, touching, asked.auc["facts"], asked.explanations, truths, strict=True
    ):
        first = planted.steps_of(told.paths[0]) if told.paths else ()
        route = nodes(first) in {nodes(path) for path in paths}
        found.append(Outcome(float(place), float(auc), route, bool(touch == 1)))
    return found


def nodes(path: tuple[Triple, ...]) -> tuple[tuple[int, int], ...]:
    """Return the node pairs a path runs along."""
    return tuple((source, target) for source, _, target in path)


def summary(found: list[Outcome]) -> dict[str, Any]:
    """Return shares, and a 95 % Wilson interval of the hits."""
    count, hit = len(found), share([one.place == 1 for one in found])
    z = 1.96
    centre = (hit + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(hit * (1 - hit) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return {
        "queries": count,
        "hit": round(hit, 3),
        "interval": [round(centre - half, 3), round(centre + half, 3)],
        **{f"hit_of_{n}": round(share([one.place <= n for one in found]), 3) for n in (3, 5)},
        "auc": round(sum(one.auc for one in found) / count, 3),
        "route": round(share([one.route for one in found]), 3),
        "touch": round(share([one.touch for one in found]), 3),
    }


def share(values: list[bool]) -> float:
    """Return the share of true values; none of none is zero."""
    return sum(values) / len(values) if values else 0.0


if __name__ == "__main__":
    main()
