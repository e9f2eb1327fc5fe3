"""How fast explanations are: stage by stage, against edges, against queries, against the graph's size.

An untrained WGCN-ConvE of the paper's preset (an untrained model costs the same) and random test facts of FB15k-237.
The paper's own figures are measured in its protocol alone. In results of before they had to be asked for, `judge` holds
them everywhere, and the second proposers' search is within `search paths`, not within their own stage. Parts:

    paper      the paper's protocol: two hops, at most 5,000 nodes, 50 steps, order 3, 40 paths of length ≤ 5
    default    the same facts as `explain` takes them: nothing is learned, paths by what their facts carry together
    any        random test facts of any size, none refused, as `explain` takes them
    step       a step of the mask's learning beside the frozen plain reference (plain_mask.py), on the same queries
    equal      the share of queries whose first five paths are the reference's, in float32 (on a GPU: in TF32 and bf16)
    growth     learning time, and on a GPU peak memory, against edges and against queries, with a fitted line
    generated  100 queries of the paper's form, then as many on generated graphs with neighbourhoods of about that size

    python benchmarks/explain.py --data-dir DIR [--device cuda --machine "one H200 GPU"]
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from generated_graph import generated_graph
from plain_mask import PlainMask, plain_mask
from powerlink import ExplainSettings, PowerLink, Session, load_graph
from powerlink.explainers.learned.learner import Descent
from powerlink.explainers.learned.masks import TripletScorer
from powerlink.explainers.learned.path_terms import PowerPath
from powerlink.explainers.learned.terms import keep_prediction, mask_norm
from powerlink.explainers.protocol import EdgeScores, Explainer
from powerlink.explanation import Explanation, GraphSize
from powerlink.graphs.computation_graph import ComputationGraph, node_counts
from powerlink.models.checkpoint import load_model, versions
from powerlink.models.link_model import build_model
from powerlink.models.presets import PRESETS
from powerlink.paths.propose import Cost, edge_cost, propose
from powerlink.pipeline import DEFAULT_EXPLAINER, computation_graph
from powerlink.run.explain_many import run_batches
from powerlink.run.job import ExplainJob
from powerlink.stage_clock import Seconds, timed

RESULTS = Path(__file__).parent / "results" / "speed"
MODEL = PRESETS["fb15k-237/wgcn-conve"].model
CAP = 5_000  # nodes: the paper leaves larger facts out
PAPER = ExplainSettings(hops=2, max_length=5, select="mask", also_consider="none", metrics="paper")
DEFAULT = ExplainSettings()
PARTS = ("paper", "default", "any", "step", "equal", "growth", "generated")


def chosen_queries(session: Session, count: int, seed: int, cap: int | None) -> Tensor:
    """Draw test facts, perhaps only those whose neighbourhood has at most `cap` nodes."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(session.graph.test).copy())
    found: list[Tensor] = []
    for part in order.split(64):
        found.append(part if cap is None else part[(node_counts(session.messages, part, 2) <= cap).cpu()])
        if sum(map(len, found)) >= count:
            break
    return torch.cat(found)[:count]


def explained(session: Session, queries: Tensor, settings: ExplainSettings, explainer: Explainer) -> dict[str, Any]:
    """Explain queries in batches, and tell what it took."""
    device = session.messages.device
    begin = time.perf_counter()
    warm_up(session, queries, settings, explainer)  # what that takes is told apart
    warm = time.perf_counter() - begin
    found: list[Explanation] = []
    per_query: list[float] = []
    begin = last = time.perf_counter()
    with timed() as spent:
        for result in run_batches(session, queries, ExplainJob.of(explainer, settings)):
            batch = result.explanations
            found += batch
            now = time.perf_counter()
            per_query += [(now - last) / len(batch)] * len(batch)
            last = now
            print(f"{len(found):4d} of {len(queries)}  {now - begin:7.1f} s", flush=True)
    sizes = [e.size for e in found if e.size]
    kept = sum(s.edges_kept for s in sizes)
    return (
        {
            "queries": len(found),
            "statuses": Counter(e.status.value for e in found),
            "seconds": round(last - begin, 2),
            "seconds to warm up": round(warm, 2),
            "median seconds per query": round(statistics.median(per_query), 3),
            "stages": {n: round(s.clock, 3) for n, s in sorted(spent.items(), key=lambda item: -item[1].clock)},
            "nodes": {"mean": statistics.mean(s.nodes for s in sizes), "most": max(s.nodes for s in sizes)},
            "edges": {"mean": statistics.mean(s.edges for s in sizes), "most": max(s.edges for s in sizes)},
            "edges kept": {"mean": kept / len(sizes), "most": max(s.edges_kept for s in sizes)},
        }
        | (learned(sizes, settings, spent) if explainer.name == "power-link" else {})
        | peak_memory(device)
    )


def learned(sizes: list[GraphSize], settings: ExplainSettings, spent: Seconds) -> dict[str, Any]:
    """Tell how fast masks were learned, and what each stage must at least move."""
    kept, learning = sum(s.edges_kept for s in sizes), spent["score edges"].clock
    return {
        "least GB": {n: round(b / 1e9, 3) for n, b in least_bytes(sizes, settings).items()},
        "million edges learned per second": round(kept * PowerLink().steps / learning / 1e6, 2),
        "GB moved per second": round(kept * PowerLink().steps * bytes_per_edge() / learning / 1e9, 2),
    }


def least_bytes(sizes: list[GraphSize], settings: ExplainSettings) -> dict[str, int]:
    """Count what the stages must at least move, each table read or written once: no cache, no sort, no launch."""
    edges, kept = sum(s.edges for s in sizes), sum(s.edges_kept for s in sizes)
    index, number = 8, 4
    layers = len(MODEL.widths) - 1
    return {
        "extract and prune": edges
        * (2 * index + 4 * index + number + 2 * index),  # rows read, edges written, ends read
        "score edges": kept * PowerLink().steps * bytes_per_edge(),
        "search paths": kept * settings.max_length * (2 * index + 8),  # ends and a float64 cost at every hop
        "judge": edges * layers * number * MODEL.widths[-1],  # a row per edge and layer; removals differ in a few rows
    }


def warm_up(session: Session, queries: Tensor, settings: ExplainSettings, explainer: Explainer) -> None:
    """Explain a few queries on a GPU that do not count: its kernels are compiled on their first use."""
    if session.messages.device.type == "cuda":
        list(run_batches(session, queries[:8], ExplainJob.of(explainer, settings)))
        torch.cuda.reset_peak_memory_stats(session.messages.device)


def bytes_per_edge(hidden: int = PowerLink().hidden) -> int:
    """Count what the scorer must move for an edge in a step: rows gathered twice, slopes written and read thrice."""
    rows, number = 4 * hidden, 4
    return 2 * (3 * rows + 3 * number) + rows + 3 * (rows + number) + 6 * number


def measured_bandwidth(device: torch.device) -> float:
    """Copy a large tensor, and return GB/s read and written."""
    numbers = torch.ones(2**28 if device.type == "cuda" else 2**25, device=device)
    other = torch.empty_like(numbers)
    seconds = median_seconds(lambda: other.copy_(numbers), device, 7)
    return round(2 * 4 * numbers.numel() / seconds / 1e9, 1)


def median_seconds(run: Callable[[], object], device: torch.device, times: int) -> float:
    """Return the median seconds of several runs, after one that does not count."""
    seconds = []
    for _ in range(times + 1):
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def peak_memory(device: torch.device) -> dict[str, float]:
    memory = {"peak resident GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)}
    if device.type == "cuda":
        memory["peak device GiB"] = round(torch.cuda.max_memory_allocated(device) / 2**30, 2)
        torch.cuda.reset_peak_memory_stats(device)
    return memory


def step_beside_plain(session: Session, queries: Tensor) -> dict[str, Any]:
    """Take the product's steps and the reference's in turn, so that both meet the same machine."""
    device, explainer, rows = session.messages.device, PowerLink(), []
    for query in queries.split(1):
        graph = computation_graph(session, query, PAPER)
        mask = TripletScorer(graph, combination="concat", hidden=explainer.hidden, seed=0)
        path = PowerPath(graph, explainer.order, explainer.min_order)
        terms = [(1.0, keep_prediction(session.settled, graph)), (1.0, path), (explainer.size_weight, mask_norm(graph))]
        descent, plain = Descent(mask.parameters, explainer.lr), PlainMask(session.settled, graph, explainer, 0)
        turns = [
            (median_seconds(lambda: descent.step(mask, terms), device, 1), median_seconds(plain.step, device, 1))  # noqa: B023
            for _ in range(5)
        ]
        ours, theirs = (statistics.median(turn[i] for turn in turns) for i in (0, 1))
        rows.append({"edges kept": graph.kept_edges.num_edges, "seconds": ours, "plain seconds": theirs})
        print(
            f"{graph.kept_edges.num_edges:8,} edges  {ours:.4f} s  plain {theirs:.4f} s  {theirs / ours:.1f}×",
            flush=True,
        )
    return {"steps": rows, "median ratio": round(statistics.median(r["plain seconds"] / r["seconds"] for r in rows), 2)}


def equal_to_plain(session: Session, queries: Tensor) -> dict[str, Any]:
    """Learn masks both ways, search the five best paths under each, and count the queries where they are the same.

    Ours are learned in batches, as users do; the reference's one by one, in float32 and in float64. Beside the latter
    the reference's own float32 is held, too: that much is rounding, whoever does it. Where a path is another one, what
    it costs above the reference's in its place is told, under the reference's mask: paths of all but one cost trade
    places.
    """
    device, explainer = session.messages.device, PowerLink()
    exact = Session.of(session.graph, copy.deepcopy(session.settled).double(), device)
    precisions = ("highest", "high", "medium") if device.type == "cuda" else ("highest",)
    found: dict[str, dict[str, list[Agreement]]] = {
        reference: defaultdict(list) for reference in ("float32", "float64")
    }
    for part in queries.split(10):
        batch = computation_graph(session, part, PAPER)
        plain = {
            name: plain_scores(one, part, batch, explainer) for name, one in (("float32", session), ("float64", exact))
        }
        for precision in precisions:
            torch.set_float32_matmul_precision(precision)
            ours = explainer.score_edges(session.settled, batch, 0).values
            torch.set_float32_matmul_precision("highest")
            for name, reference in plain.items():
                found[name][precision] += agreements(batch, reference, ours, explainer.cost)
        found["float64"]["plain"] += agreements(batch, plain["float64"], plain["float32"], explainer.cost)
        so_far = {name: {p: sum(a.same_paths for a in told) for p, told in by.items()} for name, by in found.items()}
        print(f"{batch.kept_edges.num_edges:9,} edges  same so far: {so_far}", flush=True)
    told = {name: {p: shares(agreed) for p, agreed in by.items()} for name, by in found.items()}
    return {"queries": len(queries), "first five paths": told["float32"], "beside float64": told["float64"]}


def plain_scores(session: Session, queries: Tensor, batch: ComputationGraph, explainer: PowerLink) -> Tensor:
    """Return the reference's scores of a batch's edges, floored as every explainer's are."""
    graphs = (computation_graph(session, query, PAPER) for query in queries.split(1))
    values = torch.cat([plain_mask(session.settled, graph, explainer, 0) for graph in graphs])
    return EdgeScores.of_kept(batch, values).values


@dataclass(frozen=True)
class Agreement:
    """How one query's five best paths compare with the reference's."""

    same_order: bool
    same_paths: bool
    dearer: float  # the most that a path costs above the reference's in its place, as a share


def agreements(graph: ComputationGraph, reference: Tensor, ours: Tensor, cost: Cost) -> list[Agreement]:
    """Search under both scores of a graph's edges, and compare query by query."""
    wish: dict[str, Any] = {"cost": cost, "count": 5, "min_length": 1, "max_length": 5}
    expected, found = propose(graph, reference, **wish), propose(graph, ours, **wish)
    price = torch.cat([edge_cost(reference, "inverse"), reference.new_zeros(1, dtype=torch.float64)])  # [-1]: padding
    told = []
    for query in range(graph.num_queries):
        theirs, mine = (batch.edges[batch.query == query] for batch in (expected, found))
        dear = price[mine].sum(1).sort().values / price[theirs].sum(1) - 1
        same = set(map(tuple, mine.tolist())) == set(map(tuple, theirs.tolist()))
        told.append(Agreement(torch.equal(mine, theirs), same, float(dear.max()) if len(dear) else 0.0))
    return told


def shares(told: list[Agreement]) -> dict[str, float]:
    """Sum agreements up over queries."""
    return {
        "same order": sum(a.same_order for a in told) / len(told),
        "same paths": sum(a.same_paths for a in told) / len(told),
        "no dearer than 1e-6": sum(a.dearer <= 1e-6 for a in told) / len(told),
        "dearest": max(a.dearer for a in told),
    }


def growth(session: Session, count: int, seed: int) -> dict[str, Any]:
    """Time ten steps against the edges of single queries and against the number of queries in a batch."""
    device, explainer = session.messages.device, PowerLink(steps=10)

    def measure(queries: Tensor) -> dict[str, float]:
        graph = computation_graph(session, queries, PAPER)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        held = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
        seconds = median_seconds(lambda: explainer.score_edges(session.settled, graph, 0), device, 3)
        point = {"queries": len(queries), "edges kept": graph.kept_edges.num_edges, "seconds": seconds}
        if device.type == "cuda":
            point["bytes"] = torch.cuda.max_memory_allocated(device) - held
        print(point, flush=True)
        return point

    any_size = chosen_queries(session, 64, seed, None)
    kept = torch.tensor([computation_graph(session, q, PAPER).kept_edges.num_edges for q in any_size.split(1)])
    spread = torch.linspace(0, len(any_size) - 1, 8).long()
    by_edges = [measure(any_size[i : i + 1]) for i in kept.argsort()[spread].tolist()]
    capped = chosen_queries(session, count, seed, CAP)
    by_queries = [measure(capped[:n]) for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if n <= len(capped)]
    fits = {"edges": line(by_edges, "edges kept", "seconds"), "queries": line(by_queries, "edges kept", "seconds")}
    if device.type == "cuda":
        fits["bytes"] = line(by_queries, "edges kept", "bytes")
    return {"by edges": by_edges, "by queries": by_queries, "lines": fits}


def line(points: list[dict[str, float]], across: str, up: str) -> dict[str, float]:
    """Fit a line by least squares: slope, start, and the residuals' share of the spread."""
    x, y = (np.array([point[name] for point in points], dtype=float) for name in (across, up))
    slope, start = np.polyfit(x, y, 1)
    residual = float(np.sqrt(np.mean((y - slope * x - start) ** 2)) / max(y.std(), 1e-12))
    return {"slope": float(slope), "start": float(start), "residual": round(residual, 3)}


def generated(session: Session, sizes: list[int], count: int, seed: int, explainer: Explainer) -> list[dict[str, Any]]:
    """Explain queries of the session's own graph, then of generated graphs with neighbourhoods of about that size."""
    device = session.messages.device
    rows = [per_query(session, chosen_queries(session, count, seed, CAP), explainer, 0.0)]
    for size in sizes:
        start = time.perf_counter()
        graph = generated_graph(size, session.graph.num_relations, seed)
        model = build_model(MODEL, graph.num_entities, graph.num_relations, seed).to(device)
        large = Session.of(graph, model, device, name=MODEL.name)
        built = time.perf_counter() - start
        chosen = torch.randperm(len(graph.train), generator=torch.Generator().manual_seed(seed))[:count]
        rows.append(per_query(large, torch.from_numpy(graph.train[chosen.numpy()]), explainer, built))
    return rows


def per_query(session: Session, queries: Tensor, explainer: Explainer, built: float) -> dict[str, Any]:
    """Explain queries in the paper's form, and tell each stage's seconds a query."""
    warm_up(session, queries, PAPER, explainer)
    with timed() as spent:
        results = run_batches(session, queries, ExplainJob.of(explainer, PAPER))
        found = [explanation for result in results for explanation in result.explanations]
    sizes = [e.size for e in found if e.size]
    row = {"graph": session.graph.name, "facts": len(session.graph.train), "entities": session.graph.num_entities}
    row |= {"queries": len(found), "edges": statistics.mean(s.edges for s in sizes)}
    row |= {"edges kept": statistics.mean(s.edges_kept for s in sizes), "seconds to build": round(built, 2)}
    row |= {"seconds per query": {name: round(s.clock / len(found), 4) for name, s in spent.items()}}
    print(row := row | peak_memory(session.messages.device), flush=True)
    return row


def trained(folder: Path, device: torch.device) -> Session:
    """Read a model, after a look at whether it is the one this benchmark is about."""
    session = load_model(folder, device)
    if session.name != MODEL.name:
        raise SystemExit(f"explain.py: {folder} is a {session.name}, expected a {MODEL.name}")
    return session


def untrained(data: str, data_dir: Path | None, seed: int, device: torch.device) -> Session:
    graph = load_graph(data, data_dir=data_dir)
    model = build_model(MODEL, graph.num_entities, graph.num_relations, seed).to(device)
    return Session.of(graph, model, device, name=MODEL.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fb15k-237")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--queries", type=int, help="by default 500 on a GPU and 20 on a CPU")
    parser.add_argument("--facts", type=int, nargs="+", default=[20_000_000], help="of the generated graphs")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", type=Path, help="a trained model's folder instead of an untrained model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()

    device = torch.device(args.device)
    count = args.queries or (500 if device.type == "cuda" else 20)
    session = trained(args.model, device) if args.model else untrained(args.data, args.data_dir, args.seed, device)
    runs: dict[str, Callable[[], Any]] = {
        "paper": lambda: explained(session, chosen_queries(session, count, args.seed, CAP), PAPER, PowerLink()),
        "default": lambda: explained(
            session, chosen_queries(session, count, args.seed, CAP), DEFAULT, DEFAULT_EXPLAINER
        ),
        "any": lambda: explained(session, chosen_queries(session, count, args.seed, None), DEFAULT, DEFAULT_EXPLAINER),
        "step": lambda: step_beside_plain(session, chosen_queries(session, min(count, 10), args.seed, CAP)),
        "equal": lambda: equal_to_plain(session, chosen_queries(session, min(count, 100), args.seed, CAP)),
        "growth": lambda: growth(session, count, args.seed),
        "generated": lambda: {"graphs": generated(session, args.facts, args.queries or 100, args.seed, PowerLink())},
    }
    args.results.mkdir(parents=True, exist_ok=True)
    bandwidth = measured_bandwidth(device)
    for part in args.parts:
        result = {
            "part": part,
            "command": f"python benchmarks/explain.py --parts {part} --device {device}"
            + (f" --queries {args.queries}" if args.queries else "")
            + (" --model DIR" if args.model else ""),
            "machine": args.machine,
            "threads": torch.get_num_threads(),
            "date": date.today().isoformat(),
            "versions": versions(),
            "GB copied per second": bandwidth,
        } | runs[part]()
        (args.results / f"{part}_{device.type}.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
