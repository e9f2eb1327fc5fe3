"""Where the time of an explanation goes, stage by stage, at the paper's size.

An untrained WGCN-ConvE (width 128, two layers: an untrained model costs the same) and random test facts of FB15k-237,
two hops, whatever the size of their neighbourhood. Prints and saves seconds per stage, sizes, statuses and peak
memory.

    python benchmarks/explain.py --data-dir DIR
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from powerlink import ExplainSettings, ModelSettings, Subject, load_graph, pipeline
from powerlink.models.checkpoint import versions
from powerlink.models.link_model import build_model
from powerlink.run.explain_many import explain_in_batches

RESULTS = Path(__file__).parent / "results" / "explain.json"
PAPER = ModelSettings(encoder="wgcn", decoder="conve", widths=(128, 128, 128), image=(16, 8))
STAGES = {
    "standing_of": "rank the prediction",
    "_computation_graph": "extract and prune",
    "explainer": "learn the mask",
    "propose": "search paths",
    "gradient": "gradient",
    "choose_by_proof": "choose by proof",
    "choose_in_order": "choose in order",
    "judge": "judge",
    "narrate": "tell",
}


@contextmanager
def stopwatch(seconds: Counter[str], device: torch.device) -> Iterator[None]:
    """Time the pipeline's stages from outside."""

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                if device.type == "cuda":
                    torch.cuda.synchronize()
                seconds[STAGES[name]] += time.perf_counter() - start

        return run

    with ExitStack() as stack:
        for name in STAGES.keys() - {"explainer", "gradient"}:
            stack.enter_context(patch.object(pipeline, name, timed(name, getattr(pipeline, name))))
        for name, kind in (("explainer", pipeline.PowerLink), ("gradient", pipeline.Gradient)):
            stack.enter_context(patch.object(kind, "score_edges", timed(name, kind.score_edges)))
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fb15k-237")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--select", choices=["proof", "mask"], default="proof")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()

    device = torch.device(args.device)
    graph = load_graph(args.data, data_dir=args.data_dir)
    model = build_model(PAPER, graph.num_entities, graph.num_relations, args.seed).to(device)
    subject = Subject.of(graph, model, device, name=PAPER.name)
    chosen = np.random.default_rng(args.seed).choice(len(graph.test), args.queries, replace=False)
    queries = torch.from_numpy(graph.test[np.sort(chosen)])
    settings = ExplainSettings(hops=2, select=args.select)

    stages: Counter[str] = Counter()
    found, per_query = [], []
    begin = last = time.perf_counter()
    with stopwatch(stages, device):
        for batch in explain_in_batches(subject, queries, settings=settings):
            found += batch
            now = time.perf_counter()
            per_query += [(now - last) / len(batch)] * len(batch)
            last = now
            print(f"{len(found):4d} of {len(queries)}  {now - begin:7.1f} s", flush=True)
    total = time.perf_counter() - begin
    sizes = [e.size for e in found if e.size]
    result = {
        "command": f"python benchmarks/explain.py --queries {args.queries} --select {args.select} --device {device}",
        "machine": args.machine,
        "date": date.today().isoformat(),
        "versions": versions(),
        "queries": len(found),
        "statuses": Counter(e.status.value for e in found),
        "seconds": round(total, 2),
        "median seconds per query": round(statistics.median(per_query), 3),
        "stages": {name: round(value, 2) for name, value in stages.most_common()},
        "nodes": {"mean": statistics.mean(s.nodes for s in sizes), "most": max(s.nodes for s in sizes)},
        "edges": {"mean": statistics.mean(s.edges for s in sizes), "most": max(s.edges for s in sizes)},
        "edges kept": {"mean": statistics.mean(s.edges_kept for s in sizes), "most": max(s.edges_kept for s in sizes)},
        "peak resident GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }
    if device.type == "cuda":
        result["peak device GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    for name, value in result.items():
        print(f"{name:26} {value}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
