"""The paper's protocol on FB15k-237: four methods and Power-Link's ablations, beside the paper's figures.

Settings are those of its table "The detailed setup of the experiment" and, where that is silent, of its authors' code:
50 steps at a rate of 0.005, order 3 and γ = 0.03 (all `PowerLink`'s defaults), 40 paths of at most five hops, hub limit
200, 2-core. Test facts with a probability above one half, under the table's cap on nodes; what it excludes is counted.
The peers have their own defaults; PGExplainer-Link is fitted on training facts under the same cap, in the best of
a few ways (best_fit.py).

`wgcn-distmult` is the preset, and `wgcn-distmult-plain` the same in the paper's own shape. Train it with
`train_models.py --set self_loop=False degree_norm=False first_relation_weight=1.0` and name its folder so.

It goes on where it was if it is killed, and `--seconds` ends it between two batches.

    python benchmarks/paper_protocol.py --models models/paper --device cuda
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from best_fit import best_fit
from powerlink import ExplainSettings, Session, load_model, make_explainer, rank
from powerlink.atomic_file import write_atomically
from powerlink.graphs.computation_graph import node_counts
from powerlink.models.checkpoint import versions
from powerlink.pipeline import computation_graph
from powerlink.report.compare import as_plain, write_comparison
from powerlink.run.compare import compare_model, find_recipes, makers
from powerlink.run.comparison_folder import CompareSettings, Comparison, Selection
from powerlink.run.executor import Executor
from powerlink.run.queries import Chosen, choose_queries
from powerlink.run.workforce import Kind, Workforce
from powerlink.stage_clock import Elapsed

RESULTS = Path(__file__).parent / "results" / "paper_protocol.json"
METHODS = ("power-link", "page-link", "gnn-explainer", "pg-explainer")
ABLATIONS = tuple(f"power-link-{name}" for name in ("no-path", "no-prediction", "euclidean", "order-2", "order-4"))
TIMED = ("power-link", "power-link-free", "page-link")


@dataclass(frozen=True)
class Setup:
    """A row of the paper's table of settings, as far as rows differ."""

    hops: int
    max_nodes: int

    @property
    def settings(self) -> ExplainSettings:
        """The paper's settings of an explanation."""
        return ExplainSettings(hops=self.hops, max_length=5, select="mask", also_consider="none")


SETUPS = {
    "wgcn-distmult-plain": Setup(hops=2, max_nodes=5_000),  # the paper's shape, see the page
    "wgcn-distmult": Setup(hops=2, max_nodes=5_000),
    "rgcn-transe": Setup(hops=1, max_nodes=1_000),
}


class OutOfTimeError(Exception):
    """The seconds that were given are spent; what is done is on the disk."""


@dataclass(frozen=True)
class Run:
    """One model under the protocol, in a folder of its own."""

    session: Session
    setup: Setup
    folder: Path
    explainers: list[str]
    selections: tuple[Selection, ...]
    executor: Executor
    check_time: Callable[[], None]

    def chosen(self, split: str, count: int, seed: int | None = None) -> Chosen:
        """Take believed facts of a split under the cap, in the file's order or, with a seed, in a random one."""
        facts = torch.from_numpy(np.array(self.session.graph.facts(split)))
        if seed is not None:
            facts = facts[torch.from_numpy(np.random.default_rng(seed).permutation(len(facts)))]
        facts = facts[facts[:, 0] != facts[:, 2]]
        most, hops = self.setup.max_nodes, self.setup.hops
        found = choose_queries(self.session, facts, "believed", limit=count, max_nodes=most, hops=hops)
        if not len(found.queries):
            sys.exit(f"{self.session.name} believes no {split} fact under {most:,} nodes: there is nothing to explain")
        return found

    def compared(self, queries: int, fit: int, alone: int) -> dict[str, Any]:
        """Run everything, or the rest of it, and return what JSON can hold."""
        chosen = self.chosen("test", queries)
        told = {
            "mrr": rank(self.session).mrr,
            "setup": {"hops": self.setup.hops, "max_nodes": self.setup.max_nodes},
            "looked at": chosen.looked_at,
            "nodes": self._mean_nodes(chosen.queries),
            "one at a time": self._kept("alone.json", lambda: self._alone(chosen.queries[:alone])),
        }
        weights = []
        if "pg-explainer" in self.explainers:
            told["fit"] = self._kept("fit.json", lambda: self._fit(fit))
            weights = [self.folder / told["fit"]["file"]]
        settings = CompareSettings(max_nodes=self.setup.max_nodes, explain=self.setup.settings)
        comparison = Comparison(self.folder / "comparison", settings, self.session.graph.fingerprint)

        def heard(what: str, done: int, of: int) -> None:
            print(f"  {what:46} {done:4} of {of}", flush=True)
            self.check_time()

        made = makers(comparison, self.session, find_recipes(self.explainers, can_fit=True), weights)
        found = compare_model(
            comparison, self.session, chosen, made, self.selections, executor=self.executor, told=heard
        )
        write_comparison([found], comparison.folder, {"queries": queries, **told["setup"]})
        edges = [edges for pace in found.paces.values() for edges, _ in pace.batches]
        return told | {"edges": float(np.mean(edges))} | as_plain(found)

    def _kept(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what an earlier run has written, or make and write it."""
        path = self.folder / name
        if not path.is_file():
            self.check_time()
            write_atomically(path, (json.dumps(make(), indent=1) + "\n").encode())
        return dict(json.loads(path.read_text("utf-8")))

    def _mean_nodes(self, queries: Tensor) -> float:
        parts = [node_counts(self.session.messages, part, self.setup.hops) for part in queries.split(256)]
        return torch.cat(parts).float().mean().item()

    def _alone(self, queries: Tensor) -> dict[str, Any]:
        """Time the mask's learning of one query at a time, in turns, after a first one that only warms up."""
        spent: dict[str, list[float]] = {name: [] for name in TIMED}
        for place, query in enumerate(queries[[0, *range(len(queries))]].to(self.session.messages.device)):
            graph = computation_graph(self.session, query[None], self.setup.settings)
            for name in TIMED:
                start = Elapsed.now()
                make_explainer(name).score_edges(self.session.settled, graph, 0)
                if place:
                    spent[name].append((Elapsed.now() - start).clock)
        seconds = {name: float(np.mean(times)) for name, times in spent.items()}
        print(f"  one at a time: {seconds}", flush=True)
        return {"queries": len(queries), "seconds": seconds}

    def _fit(self, count: int) -> dict[str, Any]:
        """Fit PGExplainer-Link on training facts under the cap."""
        train, valid = self.chosen("train", count, seed=0).queries, self.chosen("valid", count).queries
        return best_fit(self.session, train, valid, self.folder, self.setup.settings)


def find_folder(models: Path, name: str) -> Path:
    """Return where train_models.py, or someone else, has put a model."""
    return next((path for path in (models / f"fb15k-237_{name}", models / name) if path.is_dir()), models / name)


def arguments_of(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--models", type=Path, required=True, help="a folder of model folders, as train_models.py makes"
    )
    parser.add_argument("--only", default=",".join(SETUPS), help="names of models, separated by commas")
    parser.add_argument("--explainers", default=",".join((*METHODS, *ABLATIONS)), help="names, separated by commas")
    parser.add_argument(
        "--select", default="mask", help="mask (the paper's), carried, largest-drop or pooled, with commas between"
    )
    parser.add_argument("--queries", type=int, default=500, help="test facts to explain, of each model")
    parser.add_argument("--fit", type=int, default=64, help="training facts that pg-explainer is fitted on")
    parser.add_argument("--alone", type=int, default=20, help="of the facts, how many are timed one at a time, too")
    parser.add_argument("--seconds", type=float, help="stop, between two batches, once so many are spent")
    parser.add_argument("--executor", choices=get_args(Kind), default="serial", help="where queries are explained")
    parser.add_argument("--workers", type=int, help="how many explain at once; times are then those of a busy machine")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument(
        "--folder", type=Path, default=Path("models/paper-protocol"), help="where explanations are kept"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    args = arguments_of(given)
    with Workforce(executor=args.executor, workers=args.workers).hire(args.device) as executor:
        return protocol(args, executor)


def protocol(args: argparse.Namespace, executor: Executor) -> int:
    """Run what is not done yet, model by model; return the exit code."""
    began = time.perf_counter()

    def check_time() -> None:
        if args.seconds and time.perf_counter() - began > args.seconds:
            raise OutOfTimeError

    saved = json.loads(args.out.read_text("utf-8"))["models"] if args.out.is_file() else {}
    for name in args.only.split(","):
        print(name, flush=True)
        start = time.perf_counter()
        session = load_model(find_folder(args.models, name), args.device)
        run = Run(
            session,
            SETUPS[name],
            args.folder / f"{name}-{session.hash[:8]}",
            args.explainers.split(","),
            tuple(args.select.split(",")),
            executor,
            check_time,
        )
        try:
            found = run.compared(args.queries, args.fit, args.alone)
        except OutOfTimeError:
            print(f"no time left; run the same command again to go on in {run.folder}", file=sys.stderr)
            return 3
        origin = {"command": f"python benchmarks/paper_protocol.py --models DIR --queries {args.queries}"}
        origin |= {"machine": args.machine, "date": date.today().isoformat(), "versions": versions()}
        saved[name] = {**origin, **found}
        print(f"  {time.perf_counter() - start:.0f} s", flush=True)
        write_atomically(args.out, (json.dumps({"models": saved}, indent=1) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
