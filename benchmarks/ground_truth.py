"""Do explainers find planted explanations? Edge ROC-AUC and path hits on links whose reasons are known (UserItemAttr).

Five splits of the links by PaGE-Link's rule, one model each (RGCN-DistMult, links as targets only), and every test
link the model gives more than one half. Each explainer runs with its defaults; Power-Link also with the weight of its
size term chosen on the *validation* links of the first split. Two floors ask no model: `random`, and `on a walk`, which
scores an edge 1 if it lies on any walk of at most three steps from head to tail.

    python benchmarks/ground_truth.py --data DIR
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from powerlink import ExplainSettings, LinkModel, ModelSettings, PowerLink, Subject
from powerlink.errors import PowerlinkError
from powerlink.explainers.catalog import EXPLAINERS, make_explainer
from powerlink.explainers.protocol import SMALLEST_SCORE, EdgeScores, Explainer
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kg.explained_links import ExplainedLinks
from powerlink.kg.link_splits import split_links
from powerlink.kg.typed_folder import read_links
from powerlink.models.checkpoint import versions
from powerlink.models.link_training import LinkTrainingSettings, link_auc, train_on_links
from powerlink.paths.propose import Cost
from powerlink.pipeline import computation_graph
from powerlink.run.against_truth import Agreement, hold_against_truth, predicted_links
from powerlink.verify.ground_truth import READINGS, explaining_edges

RESULTS = Path(__file__).parent / "results" / "ground_truth.json"
MODEL = ModelSettings(encoder="rgcn", decoder="distmult", widths=(64, 64, 64), blocks=1)
SETTINGS = ExplainSettings()  # hops as the model has layers: two; hub limit 200, 2-core, paths of at most three steps
TOPS = (1, 3, 5)
TRIED = (0.0, 0.03, 0.1, 0.15, 0.3, 0.5, 1.0, 3.0)  # weights of the size term; the paper's lie in 0.001 … 0.15
CHOSEN = 0.5
GRAPHS = {
    "1 hop, 2-core": (1, 2),
    "2 hops, all edges": (2, 0),
    "2 hops, 2-core": (2, 2),
    "2 hops, 3-core": (2, 3),
    "3 hops, 2-core": (3, 2),
}
LONGEST_WALK = 3


@dataclass(frozen=True, kw_only=True)
class OnAWalk:
    """Score 1 on every walk of at most three steps from head to tail, and almost 0 elsewhere: no model is asked."""

    name: ClassVar[str] = "on a walk"
    cost: ClassVar[Cost] = "inverse"

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        edges = graph.kept_edges
        steps = _distances(graph, graph.head)[edges.source] + 1 + _distances(graph, graph.tail)[edges.target]
        values = torch.where(steps <= LONGEST_WALK, 1.0, SMALLEST_SCORE)
        return EdgeScores(edges.scatter(values, graph.num_edges))


def _distances(graph: ComputationGraph, start: torch.Tensor) -> torch.Tensor:
    """Count steps from the start nodes; every kept edge has its other direction, so either way is the same."""
    edges = graph.kept_edges
    distance = torch.full((graph.num_nodes,), LONGEST_WALK + 1)
    distance[start] = 0
    for _ in range(LONGEST_WALK):
        distance = distance.scatter_reduce(0, edges.target, distance[edges.source] + 1, "amin")
    return distance


Trained = tuple[ExplainedLinks, Subject, dict[str, Any]]


def runs(names: list[str]) -> dict[str, Callable[[], Explainer]]:
    """Return what is run under which name; an explainer is made when it is its turn, since one may refuse."""
    made: dict[str, Callable[[], Explainer]] = {}
    for name in names:
        made[name] = lambda name=name: make_explainer(name)  # type: ignore[misc]
        if name == PowerLink.name:
            made[f"{name}, size_weight {CHOSEN}"] = lambda: PowerLink(size_weight=CHOSEN)
    made[OnAWalk.name] = OnAWalk
    return made


def summary(found: Agreement) -> dict[str, Any]:
    return {
        "edge AUC": {reading: found.mean_auc(reading) for reading in READINGS},
        "hit": {str(top): found.hit_at(top) for top in TOPS},
        "queries": found.queries,
        "seconds per query": found.seconds / max(found.queries, 1),
    }


def evaluated(explainer: Explainer, models: list[Trained]) -> dict[str, Any]:
    """Measure an explainer on every split, and once more without the links that settings were chosen on.

    The splits are drawn from the same links, so validation links of the first are test links of others.
    """
    first = models[0][0]
    seen = set(map(tuple, first.links_of("valid").tolist()))
    everything, unseen = [], []
    for data, subject, _ in models:
        queries = predicted_links(subject, data)
        found = hold_against_truth(subject, data, queries, explainer, settings=SETTINGS)
        everything.append(summary(found))
        unseen.append(summary(found.of(np.array([tuple(query) not in seen for query in queries.tolist()]))))
    return averaged(everything) | {"unseen": averaged(unseen)}


def averaged(splits: list[dict[str, Any]]) -> dict[str, Any]:
    """Average over splits, with the splits beside it."""
    return {
        "edge AUC": {r: float(np.mean([s["edge AUC"][r] for s in splits])) for r in READINGS},
        "hit": {str(top): float(np.mean([s["hit"][str(top)] for s in splits])) for top in TOPS},
        "queries": sum(s["queries"] for s in splits),
        "seconds per query": float(np.mean([s["seconds per query"] for s in splits])),
        "splits": splits,
    }


def trained(data: ExplainedLinks, seed: int) -> Trained:
    """Split, train, and say how good the model is."""
    split = split_links(data, seed=seed)
    start = time.perf_counter()
    subject = train_on_links(split, MODEL, LinkTrainingSettings(seed=seed))
    seconds = time.perf_counter() - start
    accuracy = {name: link_auc(subject.model, subject.messages, split, name) for name in ("valid", "test")}
    believed = len(predicted_links(subject, split))
    told = {"seed": seed, "link AUC": accuracy, "test links": len(split.links_of("test")), "believed": believed}
    print(f"split {seed}: link AUC {accuracy['test']:.3f}, {believed} links believed, {seconds:.1f} s", flush=True)
    return split, subject, {**told, "seconds": seconds}


def choice_of_weight(data: ExplainedLinks, subject: Subject) -> list[dict[str, Any]]:
    """Measure each weight of the size term on the validation links."""
    queries = predicted_links(subject, data, "valid")
    rows = []
    for weight in TRIED:
        found = hold_against_truth(subject, data, queries, PowerLink(size_weight=weight), settings=SETTINGS)
        rows.append({"size_weight": weight, **summary(found)})
        print(f"  validation, size_weight {weight:<5} {rows[-1]['edge AUC']} {rows[-1]['hit']}", flush=True)
    return rows


def computation_graphs(data: ExplainedLinks, subject: Subject) -> list[dict[str, Any]]:
    """Measure what hops and pruning do, on the validation links."""
    queries = predicted_links(subject, data, "valid")
    rows = []
    for name, (hops, core) in GRAPHS.items():
        settings = replace(SETTINGS, hops=hops, core=core)
        graph = computation_graph(subject, queries, settings)
        explaining = explaining_edges(graph, [data.truth[h, r, t] for h, r, t in queries.tolist()])
        true_edges = sum(len(data.truth[h, r, t].edges) for h, r, t in queries.tolist())
        found = hold_against_truth(subject, data, queries, PowerLink(size_weight=CHOSEN), settings=settings)
        told = {"graph": name, "edges": graph.num_edges / len(queries), "kept": graph.kept.float().mean().item()}
        told["true edges kept"] = (explaining & graph.kept).sum().item() / true_edges
        rows.append({**told, **summary(found)})
        print(f"  validation, {name:18} {told} {rows[-1]['edge AUC']} {rows[-1]['hit']}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder of typed nodes, edges, links and labels")
    parser.add_argument("--explainers", default=",".join(EXPLAINERS), help="names, separated by commas")
    parser.add_argument("--splits", type=int, default=5, help="how many splits, by seeds 0, 1, …")
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    names = arguments.explainers.split(",")
    for name in names:
        if name not in EXPLAINERS:
            parser.error(f"there is no explainer {name!r}; there are {', '.join(EXPLAINERS)}")
    models = [trained(read_links(arguments.data), seed) for seed in range(arguments.splits)]
    results: dict[str, Any] = {
        "command": "python benchmarks/ground_truth.py",
        "machine": arguments.machine,
        "date": date.today().isoformat(),
        "versions": versions(),
        "data": models[0][0].name,
        "model": asdict(MODEL) | {"name": MODEL.name},
        "settings": asdict(SETTINGS),
        "models": [told for _, _, told in models],
        "chosen": CHOSEN,
        "validation": choice_of_weight(*models[0][:2]) if PowerLink.name in names else [],
        "graphs": computation_graphs(*models[0][:2]) if PowerLink.name in names else [],
        "left out": {},
        "explainers": {},
    }
    for name, make in runs(names).items():
        try:
            explainer = make()
            results["explainers"][name] = evaluated(explainer, models)
        except PowerlinkError as error:  # such as one that must be fitted beforehand
            results["left out"][name] = str(error)
            print(f"{name}: {error}", flush=True)
            continue
        auc, hit = (results["explainers"][name][key] for key in ("edge AUC", "hit"))
        print(f"{name:32} {auc} {hit} {results['explainers'][name]['seconds per query']:.3f} s", flush=True)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
