"""What makes a path a reason? Rules of choice, from one set of candidates and what their facts carry, on known reasons.

Two kinds of known reasons. Treatments among Hetionet's *training and validation* facts whose mechanisms DrugMechDB
tells: a path is right if it runs through a gene of the mechanism; MRR among ten paths. And family trees with models
trained on them: a path is right if it follows a rule of kinship; share of facts whose first path is right. The test
pairs of Hetionet take no part: benchmarks/drug_mechanisms.py is for them.

    python benchmarks/choice_rules.py --data DIR --models MODEL MODEL MODEL
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drug_mechanisms import write_known
from families import family, follows_a_rule
from powerlink import ExplainSettings, KnowledgeGraph, ModelSettings, Session, TrainingSettings, load_model, train
from powerlink.evidence import EvidenceBatch
from powerlink.explainers.proposals import Proposing
from powerlink.explainers.protocol import Wish
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kg.known_files import read_known_reasons
from powerlink.models.checkpoint import versions
from powerlink.pipeline import DEFAULT_EXPLAINER, computation_graph
from powerlink.verify.carried import Carried, measure_carried
from powerlink.verify.choice import SLIGHT, core_of, resolution, route_of
from powerlink.verify.oracle import Removal
from powerlink.verify.verdict import standing_of

RESULTS = Path(__file__).parent / "results" / "choice_rules.json"
DEPTH = 10
FAMILY_SEEDS = (1, 2)
FAMILY_MODELS = {
    "rgcn, 1 layer": ModelSettings(encoder="rgcn", decoder="distmult", widths=(60, 60)),
    "rgcn, 2 layers": ModelSettings(encoder="rgcn", decoder="distmult", widths=(60, 60, 60)),
    "compgcn, 2 layers": ModelSettings(encoder="compgcn", decoder="distmult", widths=(60, 60, 60)),
    "wgcn, 2 layers": ModelSettings(encoder="wgcn", decoder="distmult", widths=(60, 60, 60)),
}
FAMILY_TRAINING = TrainingSettings(epochs=120, batch_size=256, lr=0.005)
BELIEVED = 3  # a family fact is asked about if its tail is ranked so high or higher
MOST = 150  # facts of a family

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """What is known of a query's candidates, (P,) each."""

    together: Values
    drop: Values
    facts: Values  # how many
    shares: Values  # (P, max_length) each fact's own effect; NaN behind the last
    unit: float  # what rounding tells apart
    right: NDArray[np.bool_]
    route: NDArray[np.int64]
    core: NDArray[np.int64]

    @property
    def mean_share(self) -> Values:
        """The geometric mean of the facts' own effects, 0 where one of them has none."""
        return np.nanprod(np.maximum(self.shares, 0), axis=1) ** (1 / self.facts)

    @property
    def weakest(self) -> Values:
        return np.asarray(np.nanmin(self.shares, axis=1))

    def reasons(self, least: float = 0.0) -> Values:
        """1 where facts carry something together, and one alone does `least` of the largest fall."""
        strongest = np.nanmax(np.abs(self.shares), axis=1)
        return 1.0 * ((self.together > self.unit) & (strongest >= least * self.drop.max()))


Rule = Callable[[Table], tuple[Values, ...]]  # keys, the first decides; larger is earlier


def _near(share: float) -> Rule:
    """Of what carries at least a share of what the best does, the shortest first."""

    def keys(t: Table) -> tuple[Values, ...]:
        near = 1.0 * ((t.together > t.unit) & (t.together >= share * t.together.max()))
        return near, -t.facts * near, t.together * near, -t.facts, t.drop

    return keys


def _joint(t: Table) -> Values:
    return np.maximum(t.together, 0)


RULES: dict[str, Rule] = {
    "fall": lambda t: (t.drop,),
    "fall per fact": lambda t: (t.drop / t.facts,),
    "fall per fact squared": lambda t: (t.drop / t.facts**2,),
    "weakest fact": lambda t: (t.weakest, t.drop / t.facts),
    "mean share of the facts": lambda t: (t.mean_share, t.drop / t.facts),
    "product of shares": lambda t: (np.nanprod(np.maximum(t.shares, 0), axis=1), t.drop / t.facts),
    "together": lambda t: (t.together, t.drop / t.facts),
    "together per fact": lambda t: (t.together / t.facts, t.drop / t.facts),
    "together per fact squared": lambda t: (t.together / t.facts**2, t.drop / t.facts),
    "together and fall, geometric mean": lambda t: (np.sqrt(_joint(t) * np.maximum(t.drop, 0)), t.drop / t.facts),
    "together and mean share, geometric mean": lambda t: (np.sqrt(_joint(t) * t.mean_share), t.drop / t.facts),
    "together + fall per fact": lambda t: (t.together + t.drop / t.facts,),
    "fewest facts, then fall": lambda t: (-t.facts, t.drop),
    "fewest facts, then mean share": lambda t: (-t.facts, t.mean_share, t.drop),
    "fewest facts, then together": lambda t: (-t.facts, t.together),
    "reasons, fewest facts, then fall": lambda t: (t.reasons(), -t.facts, t.drop),
    "reasons, fewest facts, then mean share": lambda t: (t.reasons(), -t.facts, t.mean_share, t.drop),
    "reasons, fewest facts, then together": lambda t: (t.reasons(), -t.facts, t.together * t.reasons(), t.drop),
    "reasons, fewest facts, then both": lambda t: (t.reasons(), -t.facts, np.sqrt(_joint(t) * t.mean_share), t.drop),
    **{
        f"… where one fact does {least:.0%} of the largest fall": (
            lambda t, least=least: (t.reasons(least), -t.facts, t.together * t.reasons(least), t.drop)
        )
        for least in (SLIGHT, 0.03, 0.1)
    },
    "… and the score falls without it": lambda t: (
        t.reasons() * (t.drop > 0),
        -t.facts,
        t.together * t.reasons() * (t.drop > 0),
        t.drop,
    ),
    **{f"together at least {s:.0%} of the best, fewest facts": _near(s) for s in (0.01, 0.1, 0.3, 0.5)},
}
CHOSEN = f"… where one fact does {SLIGHT:.0%} of the largest fall"


def ranked(table: Table, rule: Rule) -> list[int]:
    """Order the candidates; of a route and of a core the first stands for all."""
    order = np.lexsort(rule(table)[::-1])[::-1] if len(table.facts) else []
    shown, routes, cores = [], set(), set()
    for path in order:
        if table.route[path] in routes or table.core[path] in cores:
            continue
        routes.add(table.route[path])
        cores.add(table.core[path])
        shown.append(int(path))
    return shown[:DEPTH]


def place_of_first(table: Table, order: list[int]) -> float:
    """Return 1 / place of the first right path; 0 without one."""
    return next((1 / place for place, path in enumerate(order, start=1) if table.right[path]), 0.0)


def candidates(session: Session, query: Tensor) -> tuple[ComputationGraph, EvidenceBatch, Carried]:
    """Propose as the default does, and measure what the candidates' facts carry."""
    settings = ExplainSettings()
    graph = computation_graph(session, query[None].to(session.messages.device), settings)
    oracle = Removal.of(session, graph)
    proposing = Proposing(oracle, graph, Wish.of(settings), seed=0)
    paths = proposing(DEFAULT_EXPLAINER, settings.also_consider, everywhere=True).candidates.evidence
    return graph, paths, measure_carried(oracle.precisely(), graph, paths)


def tables(session: Session, queries: Tensor, right: Callable[[int, list[list[int]]], list[bool]]) -> Iterator[Table]:
    """Yield a table a query; `right` tells by query and paths (source, relation, target a hop, flat) what is right."""
    for number, query in enumerate(queries):
        graph, paths, carried = candidates(session, query)
        if not paths.count:
            continue
        edge, there = paths.edges.clamp(min=0), paths.edges >= 0
        columns = (graph.entity[graph.source[edge]], graph.relation[edge], graph.entity[graph.target[edge]])
        steps = torch.stack(columns, 2).where(there.unsqueeze(2), -1).flatten(1).tolist()
        shares = carried.alone.where(there, torch.nan).double()
        yield Table(
            carried.together.double().numpy(force=True),
            carried.drop.double().numpy(force=True),
            paths.size.double().numpy(force=True),
            shares.numpy(force=True),
            resolution(carried.base.dtype) * max(1.0, float(carried.base.abs())),
            np.array(right(number, steps)),
            route_of(graph, paths).numpy(force=True),
            core_of(graph, paths, carried).numpy(force=True),
        )


def mechanisms(data: Path, model: Path, split: Any, limit: int | None) -> dict[str, float]:
    """Return each rule's MRR on a split's treatments."""
    session = load_model(model)
    known = read_known_reasons(write_known(data, split, Path(tempfile.mkdtemp()) / "known.tsv"), session.graph)
    queries = known.queries[:limit]
    genes = [known.of[head, relation, tail].entities for head, relation, tail in queries.tolist()]
    ends = [{head, tail} for head, _, tail in queries.tolist()]

    def right(number: int, steps: list[list[int]]) -> list[bool]:
        inner = ({*path[0::3], *path[2::3]} - ends[number] - {-1} for path in steps)
        return [not genes[number].isdisjoint(session.graph.entities[node] for node in nodes) for nodes in inner]

    return mean_by_rule(tables(session, queries, right), first_only=False)


def mean_by_rule(found: Iterator[Table], *, first_only: bool) -> dict[str, float]:
    values: dict[str, list[float]] = {name: [] for name in RULES}
    for table in found:
        for name, rule in RULES.items():
            place = place_of_first(table, ranked(table, rule))
            values[name].append(float(place == 1) if first_only else place)
    return {name: float(np.mean(of)) for name, of in values.items()} | {"queries": len(values["fall"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds Hetionet and DrugMechDB")
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="model folders, all of Hetionet")
    parser.add_argument("--limit", type=int, help="at most so many pairs of a split")
    parser.add_argument("--machine", default="1 core of a 2-core CPU")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    columns: dict[str, dict[str, float]] = {}
    for model in args.models:
        for split in ("train", "valid"):
            columns[f"{model.name}, {split}"] = mechanisms(args.data, model, split, args.limit)
            print(f"{model.name}, {split}: {columns[f'{model.name}, {split}'][CHOSEN]:.3f}", flush=True)
    for seed in FAMILY_SEEDS:
        graph: KnowledgeGraph = family(seed)
        for name, shape in FAMILY_MODELS.items():
            with tempfile.TemporaryDirectory() as folder:
                session = train(graph, Path(folder) / "model", model=shape, training=FAMILY_TRAINING)
            facts = torch.from_numpy(np.array(graph.valid))
            facts = facts[standing_of(session, facts).rank <= BELIEVED][:MOST]

            def right(number: int, steps: list[list[int]], facts: Tensor = facts, graph: Any = graph) -> list[bool]:
                return [follows_a_rule(graph, int(facts[number, 1]), path[1::3]) for path in steps]

            asked = (table for table in tables(session, facts, right) if table.right.any())
            columns[f"family {seed}, {name}"] = mean_by_rule(asked, first_only=True)
            print(f"family {seed}, {name}: {columns[f'family {seed}, {name}'][CHOSEN]:.3f}", flush=True)
    report = {
        "command": "python benchmarks/choice_rules.py --data DIR --models MODEL MODEL MODEL",
        "machine": args.machine,
        "threads": torch.get_num_threads(),
        "date": date.today().isoformat(),
        "versions": versions(),
        "chosen": CHOSEN,
        "columns": columns,
    }
    args.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
