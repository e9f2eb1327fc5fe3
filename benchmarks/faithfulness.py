"""How much hangs on five paths? Joint drop of the logit, beside floors and beside exhaustive search.

For each trained model, up to `--queries` test queries that it ranks first. Five paths of at most three hops are removed
as facts; the figure is how far the model's logit falls. `largest-drop` chooses by just that; `carried`, the default,
asks something else. The deletion area is the mean fall per fact as the shown facts go one by one. `exhaustive` chooses
greedily by the fall among *all* such paths of the unpruned graph, on a sample. Timed are explanations without the
paper's own figures.

    python benchmarks/faithfulness.py --data-dir DIR --models DIR
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from powerlink import (
    ExplainSettings,
    Explanation,
    ModelSettings,
    PowerLink,
    Random,
    Subject,
    TrainingSettings,
    load_graph,
    rank,
    train,
)
from powerlink.evidence import EvidenceBatch
from powerlink.explainers.learned.power_link_plus import PowerLinkPlus
from powerlink.explainers.slopes import Slopes
from powerlink.graphs.computation_graph import ComputationGraph, extract
from powerlink.graphs.edges import expand_rows, row_pointer
from powerlink.graphs.prune import prune
from powerlink.models.checkpoint import versions
from powerlink.paths.propose import propose
from powerlink.run.explain_many import explain_many
from powerlink.verify.choice import choose_by_largest_drop
from powerlink.verify.oracle import Removal
from powerlink.verify.verdict import standing_of

RESULTS = Path(__file__).parent / "results" / "faithfulness.json"
MODELS = {
    "rgcn-distmult": ModelSettings(encoder="rgcn", decoder="distmult", widths=(100, 100)),
    "wgcn-distmult": ModelSettings(encoder="wgcn", decoder="distmult", widths=(100, 100, 100)),
    "compgcn-distmult": ModelSettings(encoder="compgcn", decoder="distmult", widths=(100, 100, 100)),
}
TRAINING = TrainingSettings(epochs=200, lr=0.003)
DEFAULT = ExplainSettings()
DROP = replace(DEFAULT, select="largest-drop")
MASK = replace(DEFAULT, select="mask")
OURS, BY_DROP, OLD, CHANCE = (
    "slopes, carried (default)",
    "slopes, largest-drop",
    "power-link, largest-drop (the old default)",
    "random, largest-drop",
)
RUNS = {
    OURS: (Slopes(), DEFAULT),
    BY_DROP: (Slopes(), DROP),
    OLD: (PowerLink(), replace(DROP, also_consider="slopes")),
    CHANCE: (Random(), replace(DROP, also_consider="none")),
    "slopes, mask": (Slopes(), MASK),
    "power-link-plus, mask": (PowerLinkPlus(), MASK),
    "power-link, mask (paper)": (PowerLink(), MASK),
    "random, mask": (Random(), MASK),
}


def ranked_first(subject: Subject, count: int) -> torch.Tensor:
    """Return the first `count` test queries that the model ranks first and that leave something to choose.

    Tails come first, then heads (asked through the inverse). A query with at most 40 routes between head and tail is
    passed over: `random` would be handed every path there is, and nothing could be above it.
    """
    head, relation, tail = torch.from_numpy(np.array(subject.graph.test)).unbind(1)
    facts = torch.cat(
        [
            torch.stack([head, relation, tail], dim=1),
            torch.stack([tail, relation + subject.graph.num_relations, head], dim=1),
        ]
    )
    facts = facts[standing_of(subject, facts).rank == 1]
    chosen: list[torch.Tensor] = []
    for query in facts.split(1):
        graph = extract(subject.messages, query, subject.settled.num_layers)
        graph = prune(graph, hub_limit=DEFAULT.hub_limit, core=DEFAULT.core, max_length=DEFAULT.max_length)
        equal = torch.ones(graph.num_edges)
        wish = {"count": DEFAULT.candidates + 1, "min_length": DEFAULT.min_length, "max_length": DEFAULT.max_length}
        if propose(graph, equal, cost="inverse", **wish).count > DEFAULT.candidates:
            chosen.append(query)
        if len(chosen) == count:
            break
    return torch.cat(chosen)


def joint_drops(found: list[Explanation]) -> np.ndarray:
    """Return how far each query's logit falls when all shown paths are removed; nothing shown is no fall."""
    return np.array([0.0 if e.score is None or e.without_all is None else e.score - e.without_all.score for e in found])


def deletion_areas(found: list[Explanation]) -> np.ndarray:
    """Return each query's mean fall of the logit per removed fact; nothing shown is no fall."""
    return np.array([e.deletion_area or 0.0 for e in found])


def all_paths(graph: ComputationGraph, longest: int) -> EvidenceBatch:
    """Enumerate every simple head→tail path of a batch of one, parallel variants and all."""
    order = graph.source.argsort(stable=True)
    row = row_pointer(graph.source[order], graph.num_nodes)
    nodes, edges, found = graph.head.unsqueeze(1), graph.head.new_empty(1, 0), []
    for hop in range(1, longest + 1):
        owner, place = expand_rows(row, nodes[:, -1])
        edge = order[place]
        target = graph.target[edge]
        fresh = (target.unsqueeze(1) != nodes[owner]).all(1)
        done = fresh & (target == graph.tail)
        found.append(
            torch.nn.functional.pad(torch.cat([edges[owner], edge.unsqueeze(1)], 1)[done], (0, longest - hop), value=-1)
        )
        near = torch.zeros(graph.num_nodes, dtype=torch.bool)
        near[graph.source[graph.target == graph.tail]] = True
        on = fresh & ~done & (near[target] if hop == longest - 1 else True)
        nodes, edges = (
            torch.cat([nodes[owner], target.unsqueeze(1)], 1)[on],
            torch.cat([edges[owner], edge.unsqueeze(1)], 1)[on],
        )
    joined = torch.cat(found)
    free = torch.zeros(len(joined), dtype=torch.float64)
    return EvidenceBatch(free.long(), joined, free, torch.ones(len(joined), dtype=torch.bool))


def exhaustive_drops(subject: Subject, queries: torch.Tensor, sample: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose greedily among all paths, for the first `sample` queries that have at most `most` of them."""
    drops, kept = [], []
    for place, query in enumerate(queries):
        graph = extract(subject.messages, query.unsqueeze(0), subject.settled.num_layers)
        paths = all_paths(graph, DEFAULT.max_length)
        if not 0 < paths.count <= most or len(kept) == sample:
            continue
        oracle = Removal.of(subject, graph)
        chosen = choose_by_largest_drop(oracle, graph, paths, DEFAULT.paths).edges_of(paths)
        left = oracle.without(torch.zeros(1, dtype=torch.long), chosen.flatten(1))
        drops.append((oracle.now() - left).item())
        kept.append(place)
    return np.array(drops), np.array(kept, dtype=int)


def measure(subject: Subject, queries: int, sample: int, most: int) -> dict[str, Any]:
    """Measure one model."""
    facts = ranked_first(subject, queries)
    drops, areas, removed, seconds = {}, {}, {}, {}
    for name, (explainer, settings) in RUNS.items():
        start = time.perf_counter()
        found = explain_many(subject, facts, explainer=explainer, settings=settings)
        seconds[name] = (time.perf_counter() - start) / max(len(facts), 1)
        drops[name], areas[name] = joint_drops(found), deletion_areas(found)
        removed[name] = np.array([len(e.deletion) for e in found])
        told = f"{drops[name].mean():8.3f} {areas[name].mean():8.3f} {removed[name].mean():6.1f}"
        print(f"    {name:44} {told}   {seconds[name]:.2f} s a query", flush=True)
    best, kept = exhaustive_drops(subject, facts, sample, most)
    result = {
        "mrr": rank(subject).mrr,
        "queries": len(facts),
        "mean drop": {name: float(values.mean()) for name, values in drops.items()},
        "mean deletion area": {name: float(values.mean()) for name, values in areas.items()},
        "mean facts": {name: float(values.mean()) for name, values in removed.items()},
        "seconds per query": seconds,
        "above random": {name: float((drops[name] > drops[CHANCE]).mean()) for name in (OURS, BY_DROP, OLD)},
        "exhaustive": {
            "queries": len(kept),
            "mean drop": float(best.mean()) if len(best) else None,
            "on the same": {name: float(drops[name][kept].mean()) for name in (OURS, BY_DROP)} if len(best) else None,
        },
    }
    print(f"    exhaustive {result['exhaustive']}  above random {result['above random']}", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["atlas", "umls"])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--models", type=Path, default=Path("models/faithfulness"), help="where models are kept")
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--sample", type=int, default=15, help="queries searched exhaustively")
    parser.add_argument("--most", type=int, default=10_000, help="paths an exhaustive search may judge")
    parser.add_argument("--only", nargs="*", default=list(MODELS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    results: dict[str, Any] = {
        "command": f"python benchmarks/faithfulness.py --data-dir DIR --queries {arguments.queries}",
        "machine": arguments.machine,
        "date": date.today().isoformat(),
        "versions": versions(),
        "models": {},
    }
    for data in arguments.data:
        graph = load_graph(data, data_dir=arguments.data_dir)
        for name in arguments.only:
            print(f"{data}, {name}", flush=True)
            subject = train(graph, arguments.models / f"{data}-{name}", model=MODELS[name], training=TRAINING)
            results["models"][f"{data} {name}"] = measure(subject, arguments.queries, arguments.sample, arguments.most)
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
