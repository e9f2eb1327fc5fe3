"""Whether `explain --memory` is kept: the peak of a process of its own, beside what was granted.

fb    the largest neighbourhoods among the test facts of FB15k-237, and a trained model (`--model DIR`)
hubs  3,000,000 facts about 1,500,000 entities, two of which have 1,000,000 facts each, asked at the hubs and beside
      them; models of two layers and 32 numbers, untrained: what they say means nothing, and costs the same

Masks are learned in 3 steps: memory is at its height in the first. On a GPU the peak is what its allocator held, and
parts are kept apart as "fb, cuda" and "hubs, cuda".

python benchmarks/memory_ceiling.py hubs --work DIR [--gib 1 2 4 8] [--explainers slopes …] [--encoders compgcn …]
                                         [--device cuda]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from powerlink.graphs.computation_graph import edge_bounds
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kg.knowledge_graph import KnowledgeGraph, Names, Triples
from powerlink.kg.storage import load_graph
from powerlink.models.checkpoint import save_model, start_folder, versions
from powerlink.models.link_model import ModelSettings, build_model
from powerlink.models.training import TrainingSettings
from powerlink.report.schema import read_explanations

RESULTS = Path(__file__).parent / "results" / "memory_ceiling.json"
EXPLAINERS = ("slopes", "power-link", "page-link", "gnn-explainer", "random")
LEARNED, STEPS = EXPLAINERS[1:4], 3
# What the system says of a child's resident memory begins with its parent's; so the child notes its own, in KiB.
PROGRAM = """
import atexit, os, pathlib, re
status, note = pathlib.Path("/proc/self/status"), pathlib.Path(os.environ["PEAK"])
def peak():
    if os.environ["DEVICE"] != "cpu":
        import torch
        return str(torch.cuda.max_memory_reserved() // 1024)
    return re.search(r"VmHWM:\\s*(\\d+)", status.read_text())[1]
atexit.register(lambda: note.write_text(peak()))
from powerlink.cli.main import main
main()
"""
ENCODERS = ("compgcn", "rgcn", "wgcn")


def hub_facts(entities: int, spokes: int, others: int, relations: int, seed: int = 0) -> Triples:
    """Draw `spokes` facts that lead to each of two hubs, the last two entities, and `others` between any two."""
    drawn = np.random.default_rng(seed)
    hubs, rest = np.array([entities - 2, entities - 1]), entities - 2
    spoke = np.concatenate(
        [
            np.stack([drawn.choice(rest, spokes, replace=False), np.full(spokes, i), np.full(spokes, hub)], axis=1)
            for i, hub in enumerate(hubs)
        ]
    )
    head, tail = drawn.integers(0, rest, (2, others))
    other = np.stack([head, drawn.integers(2, relations, others), tail], axis=1)
    return np.unique(np.concatenate([spoke, other]), axis=0).astype(np.int64)


def hub_questions(facts: Triples, entities: int, seed: int = 1) -> Triples:
    """Draw questions that are no facts: at a hub, between the hubs, and beside them."""
    drawn = np.random.default_rng(seed)
    hub, other = entities - 2, entities - 1
    spokes = facts[facts[:, 2] == hub][:, 0]
    apart = np.setdiff1d(np.arange(entities - 2), spokes)
    beside, at = drawn.choice(spokes, (2, 2)), drawn.choice(apart, 2)
    first = [(at[0], 0, hub), (beside[0, 0], 4, beside[0, 1])]
    return np.array([*first, (hub, 3, other), (hub, 2, at[1]), (beside[1, 0], 5, at[0])], dtype=np.int64)


def hub_graph(entities: int, spokes: int, others: int, relations: int = 20) -> KnowledgeGraph:
    """Name such facts, the questions as test facts."""
    train = hub_facts(entities, spokes, others, relations)
    names = Names("entity", tuple(f"e{i}" for i in range(entities)))
    relation_names = Names("relation", tuple(f"r{i}" for i in range(relations)))
    return KnowledgeGraph("hubs", names, relation_names, train, train[:0], hub_questions(train, entities))


def make_hub_models(work: Path, encoders: list[str]) -> dict[str, Path]:
    """Write untrained models of one hub graph, unless they are there."""
    graph: KnowledgeGraph | None = None
    for encoder in encoders:
        folder = work / f"hubs-{encoder}"
        if (folder / "model.json").is_file():
            continue
        graph = graph or hub_graph(1_500_000, 1_000_000, 1_000_000)
        settings = ModelSettings(encoder=encoder, decoder="distmult", widths=(32, 32, 32))
        start_folder(folder, graph)
        model = build_model(settings, graph.num_entities, graph.num_relations)
        for table in (model.encoder.entity, model.encoder.relation):  # of a size at which facts make a difference
            torch.nn.init.normal_(table)
        model.encoder.scale_output(1.0)
        save_model(folder, model, graph, TrainingSettings(epochs=1), {"untrained": True}, finished=True)
    return {f"untrained {encoder}-distmult": work / f"hubs-{encoder}" for encoder in encoders}


def largest_questions(folder: Path, count: int) -> Triples:
    """Return the test facts with the largest neighbourhoods, and some at random."""
    graph = load_graph(folder / "graph")
    messages, test = MessageGraph.of(graph), torch.from_numpy(graph.test.copy())[:2_000]
    bounds = torch.cat([edge_bounds(messages, part, 2) for part in test.split(64)])
    order = bounds.argsort(descending=True)
    return test[torch.cat([order[: count // 2], order[1_000 : 1_000 + count - count // 2]])].numpy()


def write_questions(folder: Path, facts: Triples, path: Path) -> None:
    graph = load_graph(folder / "graph")
    lines = [f"{graph.entities[h]}\t{graph.relations[r]}\t{graph.entities[t]}\n" for h, r, t in facts.tolist()]
    path.write_text("".join(lines), encoding="utf-8")


def measured(
    model: Path, questions: Path, explainer: str, gib: float | None, *, device: str, limit_s: float, limit: int
) -> dict[str, Any]:
    """Explain in a process of its own; its peak is what the system says of it."""
    with tempfile.TemporaryDirectory() as scratch:
        out, said = Path(scratch) / "out.jsonl", Path(scratch) / "said"
        memory = [] if gib is None else ["--memory", str(gib)]
        asked = ["explain", str(model), "--queries", str(questions), "--explainer", explainer, "--device", device]
        asked += ["--limit", str(limit), *(["--set", f"steps={STEPS}"] if explainer in LEARNED else [])]
        note = Path(scratch) / "peak"
        command = [sys.executable, "-c", PROGRAM, *asked, *memory, "--out", str(out)]
        begin = time.perf_counter()
        with said.open("wb") as heard:
            child = subprocess.Popen(
                command, stdout=heard, stderr=heard, env=os.environ | {"PEAK": str(note), "DEVICE": device}
            )
            code, usage = _waited(child, begin + limit_s)
        # of one that was killed, the latter
        peak = (int(note.read_text()) if note.is_file() else usage.ru_maxrss) / 2**20
        found = list(read_explanations(out)) if out.is_file() else []
        lines = said.read_text("utf-8", "replace").strip().splitlines()
    return {
        "granted GiB": gib,
        "peak GiB": round(peak, 3),
        "seconds": round(time.perf_counter() - begin, 1),
        "exit": code,
        "statuses": dict(Counter(e.status.value for e in found)),
        "remarks": sum(bool(e.remarks) for e in found),
        "edges": [e.size and asdict(e.size) for e in found],
        "said": "" if code == 0 else (lines[-1] if lines else ""),
    }


def _waited(child: subprocess.Popen[bytes], until: float) -> tuple[int, Any]:
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode, usage
        if time.perf_counter() > until:
            child.kill()
        time.sleep(0.05)


def main() -> None:
    """Measure, and save after every run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("fb", "hubs"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--gib", type=float, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--explainers", nargs="+", default=list(EXPLAINERS))
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS))
    parser.add_argument("--limit-s", type=float, default=900)
    parser.add_argument("--limit", type=int, default=8, help="so many questions")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    models = {given.model.name: given.model} if given.part == "fb" else make_hub_models(given.work, given.encoders)
    questions = given.work / f"{given.part}.tsv"
    for folder in list(models.values())[:1]:
        facts = largest_questions(folder, 8) if given.part == "fb" else load_graph(folder / "graph").test
        write_questions(folder, facts, questions)
    part = given.part if given.device == "cpu" else f"{given.part}, {given.device}"
    results = json.loads(given.out.read_text()) if given.out.is_file() else {}
    for model, folder in models.items():
        for explainer in given.explainers:
            for gib in given.gib:
                row = measured(
                    folder,
                    questions,
                    explainer,
                    gib or None,
                    device=given.device,
                    limit_s=given.limit_s,
                    limit=given.limit,
                )
                print(part, model, explainer, row, flush=True)
                place = results.setdefault(part, {}).setdefault(model, {}).setdefault(explainer, {})
                place[str(gib)] = row
                results |= {"machine": given.machine, "date": date.today().isoformat(), "versions": dict(versions())}
                given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
