"""How fast masks are learned, all queries in one batch: seconds, edge-steps a second, device memory per edge.

An untrained WGCN-ConvE of the paper's preset and test facts of FB15k-237 with at most 5,000 nodes around them, as in
`explain.py --parts paper`. With --profile, the kernels that take the time.

    python benchmarks/learning.py --data-dir DIR [--device cuda] [--queries 500] [--profile]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from explain import CAP, MODEL, PAPER, chosen_queries
from powerlink import PowerLink, Session, load_graph
from powerlink.models.link_model import build_model
from powerlink.pipeline import computation_graph


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fb15k-237")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--precision", choices=("highest", "high", "medium"), default="highest", help="of float32 products"
    )
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()

    device, explainer = torch.device(args.device), PowerLink()
    torch.set_float32_matmul_precision(args.precision)
    graph = load_graph(args.data, data_dir=args.data_dir)
    model = build_model(MODEL, graph.num_entities, graph.num_relations, 0).to(device)
    session = Session.of(graph, model, device, name=MODEL.name)
    queries = chosen_queries(session, args.queries, 0, CAP)

    def learn(steps: int) -> dict[str, Any]:
        batch = computation_graph(session, queries, PAPER)
        edges = batch.kept_edges.num_edges
        held = _settle(device)
        start = time.perf_counter()
        PowerLink(steps=steps).score_edges(session.settled, batch, 0)
        peak = _settle(device, reset=False)
        seconds = time.perf_counter() - start
        found = {"queries": len(queries), "edges kept": edges, "steps": steps, "seconds": round(seconds, 3)}
        return found | {
            "edge-steps per second": f"{edges * steps / seconds:.3g}",
            "bytes per edge": (peak - held) // edges,
        }

    learn(2)  # kernels compile, libraries wake up
    for steps in (0, explainer.steps, explainer.steps):
        print(json.dumps(learn(steps)), flush=True)
    if args.profile:
        with torch.profiler.profile() as profile:
            learn(6)
        order = f"self_{device.type}_time_total"
        print(profile.key_averages().table(sort_by=order, row_limit=30, max_name_column_width=60))


def _settle(device: torch.device, *, reset: bool = True) -> int:
    """Wait for the device, and return the bytes held on it; or, not resetting, the most that were."""
    if device.type != "cuda":
        return 0
    torch.cuda.synchronize(device)
    if reset:
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    return torch.cuda.max_memory_allocated(device)


if __name__ == "__main__":
    main()
