"""Do paths run through the genes by which a drug works? Treatments in Hetionet whose mechanisms DrugMechDB tells.

A query is a `CtD` fact (compound treats disease) of one split of Hetionet, and known are the genes of all its curated
mechanisms. A path is right if one of its inner entities is among them. Every model explains the same pairs, in the ways
that `powerlink truth` compares by default; differences are paired, and pairs are resampled with all their models.
Timed are explanations without the paper's own figures.

    python benchmarks/drug_mechanisms.py --data DIR --models MODEL MODEL MODEL --split valid
"""

from __future__ import annotations

import argparse
import json
from datetime import date
from pathlib import Path

import torch
from rich.console import Console

from powerlink.cli.naming import open_models
from powerlink.kg.catalog import load
from powerlink.kg.knowledge_graph import SPLITS, Split
from powerlink.kg.known_files import BETWEEN, HEADER, read_known_reasons
from powerlink.kg.tables import read_bytes
from powerlink.models.checkpoint import versions
from powerlink.report.truth import as_plain, render_truth
from powerlink.run.truth import DEPTH, Task, Trial, find_ways

RESULTS = Path(__file__).parent / "results" / "drug_mechanisms.json"
PAIRS = Path("DrugMechDB") / "hetionet_pairs.tsv.gz"
TREATS = "CtD"
Pair = tuple[str, str]


def genes_by_pair(data: Path) -> dict[Pair, list[str]]:
    """Return the genes of all mechanisms of each pair that Hetionet calls a treatment."""
    found: dict[Pair, dict[str, None]] = {}
    for line in read_bytes(data / PAIRS).decode().splitlines():
        _, compound, disease, word, genes = line.split("\t")
        if word == "treats" and genes:
            found.setdefault((compound, disease), {}).update(dict.fromkeys(genes.split(BETWEEN)))
    return {pair: list(genes) for pair, genes in found.items()}


def write_known(data: Path, split: Split, file: Path) -> Path:
    """Write the pairs whose treatment is a fact of the split, as a file for `powerlink truth --known`."""
    graph, known = load(str(data / "Hetionet")), genes_by_pair(data)
    names, treats = graph.entities.ids, graph.relations.index(TREATS)
    pairs = [(names[head], names[tail]) for head, relation, tail in graph.facts(split).tolist() if relation == treats]
    rows = [(head, TREATS, tail, BETWEEN.join(known[head, tail])) for head, tail in pairs if (head, tail) in known]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join("\t".join(row) + "\n" for row in (HEADER, *rows)), "utf-8")
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds Hetionet and DrugMechDB")
    parser.add_argument("--models", nargs="+", required=True, help="model folders, all of Hetionet")
    parser.add_argument("--split", choices=SPLITS, default="valid", help="whose treatments")
    parser.add_argument("--limit", type=int, help="at most so many pairs")
    parser.add_argument("--explainers", help="names with commas between; by default as `powerlink truth`")
    parser.add_argument(
        "--folder", type=Path, default=Path("drug_mechanisms"), help="for explanations; a rerun goes on"
    )
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()

    sessions = open_models(args.models, args.device)
    file = write_known(args.data, args.split, args.folder / f"known_{args.split}.tsv")
    known = read_known_reasons(file, next(iter(sessions.values())).graph)
    tasks = [Task.of(session, known, known.queries[: args.limit], label) for label, session in sessions.items()]
    ways = find_ways(args.explainers.split(",") if args.explainers else None)
    tables = Trial(ways, folder=args.folder).run(tasks)
    report = {
        "command": f"python benchmarks/drug_mechanisms.py --data DIR --models … --split {args.split}",
        "machine": args.machine,
        "threads": torch.get_num_threads(),
        "date": date.today().isoformat(),
        "versions": versions(),
        "notes": list(known.notes),
        **as_plain(tables, {"split": args.split, "limit": args.limit, "paths": DEPTH, "models": list(sessions)}),
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for table in tables:
        Console().print(render_truth(table, DEPTH))


if __name__ == "__main__":
    main()
