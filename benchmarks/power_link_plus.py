"""Masks and orders of the learned explainers beside `power-link-plus`, and what the default takes; FB15k-237.

For each model, believed test facts drawn by a seed, at most 5,000 nodes, as many hops as the model has layers, paths of
at most three hops in each explainer's own order. PGExplainer-Link is fitted in the ways of best_fit.py. A front is F+
and F− over Sparsity while one weight varies: the size term's, for PaGE-Link that of the mask off its paths. Speed is
that of explanations without the paper's own figures.

    python benchmarks/power_link_plus.py --models DIR --device cuda --parts compare,fronts,speed
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from best_fit import FITS, best_fit
from powerlink import ExplainSettings, Session, load_model, make_explainer, rank
from powerlink.atomic_file import write_atomically
from powerlink.explainers.learned.pg_explainer import PGFitting
from powerlink.explainers.protocol import Explainer
from powerlink.memory import Budget
from powerlink.models.checkpoint import versions
from powerlink.pipeline import computation_graph
from powerlink.report.compare import as_plain
from powerlink.run.batching import batches
from powerlink.run.compare import compare_model, find_recipes, makers
from powerlink.run.comparison_folder import CompareSettings, Comparison
from powerlink.run.explain_many import run_batches
from powerlink.run.job import ExplainJob
from powerlink.run.queries import choose_queries
from powerlink.verify.paper_protocol import measure_paper

RESULTS = Path(__file__).parent / "results" / "power_link_plus.json"
MODELS = ("wgcn-conve", "rgcn-transe", "compgcn-distmult")
OURS = "power-link-plus"
LEARNED = ("power-link", OURS, "page-link", "gnn-explainer", "pg-explainer")
FLOORS = ("slopes", "gradient", "shortest", "low-degree", "random")
CAP = 5_000
MASK = ExplainSettings(select="mask", also_consider="none")
FRONTS: dict[str, tuple[str, tuple[float, ...]]] = {  # explainer → setting, and the values it takes
    "power-link": ("size_weight", (0.003, 0.03, 0.3, 1.0, 3.0)),
    "power-link-plus": ("size_weight", (0.001, 0.003, 0.01, 0.02, 0.03, 0.1, 0.3, 1.0)),
    "page-link": ("off_weight", (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)),
    "gnn-explainer": ("size_weight", (0.0, 1e-4, 5e-4, 2e-3, 5e-3, 2e-2)),
}
Ways = dict[str, tuple[Explainer | None, ExplainSettings]]


def drawn(session: Session, split: str, count: int, cap: int | None, seed: int, which: str = "believed") -> Any:
    """Draw facts of a split that the model believes, under a cap on their nodes."""
    facts = torch.from_numpy(np.array(session.graph.facts(split)))
    facts = facts[facts[:, 0] != facts[:, 2]]
    facts = facts[torch.from_numpy(np.random.default_rng(seed).permutation(len(facts)))]
    hops = session.settled.num_layers
    return choose_queries(session, facts, which, limit=count, max_nodes=cap, hops=hops)


def compared(session: Session, queries: int, fit: int, seed: int, folder: Path) -> dict[str, Any]:
    """Let all explain the same facts in their own order."""
    chosen = drawn(session, "test", queries, CAP, seed)
    train, valid = (drawn(session, split, fit, CAP, seed).queries for split in ("train", "valid"))
    fitted = best_fit(session, train, valid, folder, MASK)
    comparison = Comparison(
        folder / "comparison", CompareSettings(max_nodes=CAP, explain=MASK), session.graph.fingerprint
    )
    recipes = find_recipes([*LEARNED, *FLOORS], can_fit=True)
    made = makers(comparison, session, recipes, [folder / fitted["file"]])
    found = compare_model(comparison, session, chosen, made, ("mask",))
    # all is done by now: the second time only sets the same explanations beside another one
    others = {name: make for name, make in made.items() if name != OURS}
    beside = compare_model(comparison, session, chosen, {OURS: made[OURS], **others}, ("mask",))
    return {
        "looked at": chosen.looked_at,
        "fit": fitted,
        **as_plain(found),
        "beside power-link-plus": as_plain(beside)["tables"],
    }


def fronts(session: Session, queries: int, seed: int, folder: Path) -> dict[str, Any]:
    """Measure masks alone while one weight varies; PGExplainer-Link's are those of its fits."""
    chosen = drawn(session, "test", queries, CAP, seed).queries
    told = {
        name: [
            {"value": value, **mask_figures(session, chosen, make_explainer(name, {own: value}))} for value in values
        ]
        for name, (own, values) in FRONTS.items()
    }
    files = [folder / f"pg-explainer-{place}.safetensors" for place in range(len(FITS))]
    told["pg-explainer"] = [
        {
            "value": PGFitting(**own).size_weight,
            **mask_figures(session, chosen, make_explainer("pg-explainer", {"weights": str(file)})),
        }
        for own, file in zip(FITS, files, strict=True)
        if file.is_file()
    ]
    return told


def mask_figures(session: Session, queries: Tensor, explainer: Explainer) -> dict[str, float]:
    """Return the mean F+, F− and Sparsity of an explainer's masks."""
    parts: list[Tensor] = []
    for batch in batches(session.messages, queries, session.settled.num_layers, Budget()):
        graph = computation_graph(session, batch.content.to(session.messages.device), MASK)
        mask = explainer.score_edges(session.settled, graph, 0).values
        none = torch.full((graph.num_queries, 1, 1), -1, device=graph.device)
        paper = measure_paper(session.settled, graph, mask, none, ())
        parts.append(torch.stack([paper.fidelity_plus, paper.fidelity_minus, paper.sparsity], 1).double().cpu())
    means = torch.cat(parts).mean(0).tolist()
    print(f"    front {explainer.name}: {[round(mean, 3) for mean in means]}", flush=True)
    return dict(zip(("F+", "F−", "Sparsity"), means, strict=True))


def speed(session: Session, queries: int, seed: int, *, everything: bool, slow: int, any_size: int) -> dict[str, Any]:
    """Time explanations of the same facts: the default, and what it took before; then facts of any size, and all."""
    chosen = drawn(session, "test", queries, CAP, seed).queries
    ways: Ways = {
        "default": (None, ExplainSettings()),
        "power-link, mask": (make_explainer("power-link"), MASK),
        "power-link-plus, mask": (make_explainer("power-link-plus"), MASK),
        "power-link, largest-drop": (
            make_explainer("power-link"),
            ExplainSettings(select="largest-drop", also_consider="slopes"),
        ),
    }
    told: dict[str, Any] = {"queries": len(chosen), "ways": {}}
    for name, (explainer, settings) in ways.items():
        explainer_queries = chosen if name == "default" else chosen[:slow]
        times = [timed(session, explainer_queries, explainer, settings) for _ in range(2)]  # the first warms up
        told["ways"][name] = {"queries": len(explainer_queries), "seconds a query": times[-1] / len(explainer_queries)}
        print(f"    {name}: {told['ways'][name]}", flush=True)
    drawn_any = drawn(session, "test", any_size, None, seed, "all").queries
    told["any size"] = {"queries": len(drawn_any), "seconds": timed(session, drawn_any, None, ExplainSettings())}
    print(f"    any size: {told['any size']}", flush=True)
    if everything:
        facts = torch.from_numpy(np.array(session.graph.test))
        head, relation, tail = facts.unbind(1)
        both = torch.cat([facts, torch.stack([tail, relation + session.graph.num_relations, head], 1)])
        told["all test facts, both directions"] = {
            "queries": len(both),
            "seconds": timed(session, both, None, ExplainSettings()),
        }
        print(f"    {told['all test facts, both directions']}", flush=True)
    return told


def timed(session: Session, queries: Tensor, explainer: Explainer | None, settings: ExplainSettings) -> float:
    """Explain queries and throw the explanations away: the seconds it takes."""
    start = time.perf_counter()
    for _ in run_batches(session, queries, ExplainJob.of(explainer, settings)):
        pass
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, help="a folder of model folders")
    parser.add_argument("--only", default=",".join(MODELS), help="names of models, separated by commas")
    parser.add_argument("--parts", default="compare,fronts", help="of compare, fronts and speed, with commas between")
    parser.add_argument("--queries", type=int, default=250, help="believed test facts of each model")
    parser.add_argument("--slow", type=int, default=250, help="of them, how many the learned explainers are timed on")
    parser.add_argument("--any", type=int, default=500, help="test facts of any size, believed or not, by default")
    parser.add_argument("--everything", action="store_true", help="also time all test facts, both directions")
    parser.add_argument("--fit", type=int, default=64, help="training facts that pg-explainer is fitted on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--folder", type=Path, default=Path("models/power-link-plus"), help="for explanations and fits")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()

    report: dict[str, Any] = json.loads(args.out.read_text("utf-8")) if args.out.is_file() else {}
    for name in args.only.split(","):
        print(name, flush=True)
        session = load_model(args.models / name, args.device)
        home = args.folder / f"{name}-{session.hash[:8]}"
        home.mkdir(parents=True, exist_ok=True)
        for part in args.parts.split(","):
            start = time.perf_counter()
            found: dict[str, Any]
            if part == "compare":
                found = {"mrr": rank(session).mrr, **compared(session, args.queries, args.fit, args.seed, home)}
            elif part == "fronts":
                found = {"explainers": fronts(session, args.queries, args.seed, home)}
            else:
                found = speed(
                    session, args.queries, args.seed, everything=args.everything, slow=args.slow, any_size=args.any
                )
            where = f"{part}, {args.device}" if part == "speed" else part
            report.setdefault(name, {})[where] = {
                "command": f"python benchmarks/power_link_plus.py --models DIR --queries {args.queries} --parts {part}",
                "machine": args.machine,
                "threads": torch.get_num_threads(),
                "date": date.today().isoformat(),
                "versions": versions(),
                **found,
            }
            print(f"  {part}: {time.perf_counter() - start:.0f} s", flush=True)
            write_atomically(args.out, (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())
