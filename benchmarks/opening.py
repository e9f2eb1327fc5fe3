"""How long a user waits: for help, for a model of millions of facts to open, and for its first explanation.

A generated graph (see generated_graph.py; 2,000 facts each for validation and test) and a CompGCN-DistMult of width 32
that was never trained, but whose batch norms have seen a smaller such graph once, so that removed facts change its
scores as a trained one's do: it costs the same. It is saved with a calibration, as training saves one. Every opening is
a process of its own; the first one writes what the later ones map. Where others use the machine, two threads wait for
each other, so half as many openings again have one thread. With `--before SRC` the code of another source tree is
measured beside, on a folder of its own.

    python benchmarks/opening.py [--facts 20000000] [--folder DIR] [--before SRC]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
SOURCE = Path(__file__).parent.parent / "src"
HELD_OUT = 2_000  # facts of validation and of test, each
SAMPLE = 200_000  # facts of the graph that the norms see
START = {
    "powerlink --help": ["--help"],
    "powerlink explain --help": ["explain", "--help"],
    "a flag that is not there": ["explain", "--nonsense"],
    "a model that is not there": ["explain", "missing", "--split", "test"],
}


def make(folder: Path, facts: int, entities: int, relations: int) -> None:
    """Save an untrained model of a generated graph as a model folder."""
    import torch

    from generated_graph import generated_facts
    from powerlink import KnowledgeGraph, ModelSettings, TrainingSettings
    from powerlink.graphs.message_graph import MessageGraph
    from powerlink.kg.knowledge_graph import Names
    from powerlink.models.calibration import Calibration
    from powerlink.models.checkpoint import save_model, start_folder
    from powerlink.models.link_model import build_model

    drawn, count = generated_facts(facts, relations, facts_per_entity=max(facts // entities, 1))
    rows = drawn[torch.randperm(len(drawn), generator=torch.Generator().manual_seed(1))].numpy()
    graph = KnowledgeGraph(
        "generated",
        Names("entity", tuple(f"entity {i:08d}" for i in range(count))),
        Names("relation", tuple(f"relation {i}" for i in range(relations))),
        *(rows[2 * HELD_OUT :].copy(), rows[:HELD_OUT].copy(), rows[HELD_OUT : 2 * HELD_OUT].copy()),
    )
    settings = ModelSettings(encoder="compgcn", decoder="distmult", widths=(32, 32, 32))
    model = build_model(settings, graph.num_entities, graph.num_relations)
    few, sample = generated_facts(SAMPLE, relations, facts_per_entity=max(facts // entities, 1))
    seen = build_model(settings, sample, relations).train()
    seen.encoder.layers = model.encoder.layers  # the same norms and maps, over fewer entities
    for module in seen.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.momentum = 1.0
    with torch.no_grad():
        seen.encode(MessageGraph.from_facts(few, sample, relations))
    start_folder(folder, graph)
    never = Calibration(1.0, 0.0, HELD_OUT)
    save_model(folder, model, graph, TrainingSettings(), {}, finished=True, calibration=never)


def opened(folder: Path) -> dict[str, Any]:
    """Open a model in this process and explain two test facts."""
    clock = [(time.perf_counter(), time.process_time())]

    def lap() -> dict[str, float]:
        clock.append((time.perf_counter(), time.process_time()))
        return {what: round(b - a, 3) for what, a, b in zip(("clock", "cpu"), clock[-2], clock[-1], strict=True)}

    import torch

    from powerlink import explain, load_model
    from powerlink.pipeline import explain_batch  # noqa: F401 - what an explanation needs is imported, too

    told: dict[str, Any] = {"threads": torch.get_num_threads(), "import": lap()}
    session = load_model(folder)
    told["open"] = lap()
    graph, statuses = session.graph, []
    for which in ("first explanation", "second explanation"):
        head, relation, tail = graph.test[len(statuses)]
        found = explain(session, graph.entities[head], graph.relations[relation], graph.entities[tail])
        told[which] = lap()
        statuses.append(found.status.value)
    told |= {"statuses": statuses, "edges seen": found.size.edges if found.size else 0}
    kilobytes = {
        line.split()[0][:-1]: int(line.split()[1])
        for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    }
    return told | {
        "peak GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "resident GiB at the end": round(kilobytes["Rss"] / 2**20, 2),
        "of it this process's alone": round(kilobytes["Anonymous"] / 2**20, 2),  # the rest are pages of files
    }


def child(source: Path, *arguments: str, **environment: str) -> str:
    """Run this script with the powerlink of a source tree."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        env=os.environ | {"PYTHONPATH": str(source)} | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def started(source: Path) -> dict[str, Any]:
    """Time what should not wait for anything: the best of five, seconds by the clock and of the processor."""
    told = {}
    for what, arguments in START.items():
        laps = []
        for _ in range(5):
            before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(
                [sys.executable, "-c", "from powerlink.cli.main import main; main()", *arguments],
                env=os.environ | {"PYTHONPATH": str(source)},
                capture_output=True,
                check=False,
            )
            clock, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
            laps.append((clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
        told[what] = {"clock": round(min(lap[0] for lap in laps), 3), "cpu": round(min(lap[1] for lap in laps), 3)}
    return told


def measured(source: Path, folder: Path, shape: list[str], openings: int) -> dict[str, Any]:
    """Measure one version of the code."""
    if not (folder / "model.json").is_file():
        child(source, "make", str(folder), *shape)
    told: dict[str, Any] = {"start": started(source), "openings": []}
    for threads in [*[{}] * openings, *[{"OMP_NUM_THREADS": "1"}] * (openings // 2)]:
        try:
            opening = json.loads(child(source, "open", str(folder), **threads).splitlines()[-1])
        except subprocess.CalledProcessError as error:  # most likely the system ended it: memory was full
            opening = {"died": error.returncode}
        told["openings"].append(opening)
        print(json.dumps(opening), flush=True)
    sizes = [(path.relative_to(folder).parts[0], path.stat().st_size) for path in folder.rglob("*") if path.is_file()]
    told["GiB on disk"] = {
        "all": round(sum(size for _, size in sizes) / 2**30, 2),
        "mapped": round(sum(size for top, size in sizes if top == "mapped") / 2**30, 2),
    }
    return told


def main() -> None:
    if sys.argv[1:2] == ["make"]:
        make(Path(sys.argv[2]), *map(int, sys.argv[3:6]))
        return
    if sys.argv[1:2] == ["open"]:
        print(json.dumps(opened(Path(sys.argv[2]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=20_000_000)
    parser.add_argument("--entities", type=int, default=2_000_000)
    parser.add_argument("--relations", type=int, default=50)
    parser.add_argument("--openings", type=int, default=4)
    parser.add_argument("--folder", type=Path, help="where the models go, and stay; by default a temporary folder")
    parser.add_argument("--before", type=Path, help="the src/ of another version")
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--note", default="", help="what else a reader of the figures must know")
    parser.add_argument("--out", type=Path, default=RESULTS / "opening.json")
    args = parser.parse_args()
    shape = [str(args.facts), str(args.entities), str(args.relations)]
    with tempfile.TemporaryDirectory() as temporary:
        place = args.folder or Path(temporary)
        told: dict[str, Any] = {"date": date.today().isoformat(), "machine": args.machine}
        told |= {"facts": args.facts, "entities": args.entities, "relations": args.relations, "model": "untrained"}
        if args.note:
            told["note"] = args.note
        if args.before:
            told["before"] = measured(args.before, place / "before", shape, 2)
        told["now"] = measured(SOURCE, place / "now", shape, args.openings)
    args.out.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
