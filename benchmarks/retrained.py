"""The strongest proof: take the evidence of many predictions out of the data, train again, and see which still hold.

Models without an encoder are trained; of the test facts whose tail is ranked first, some are drawn, and explained in
several ways with at most four facts each. All facts that one way names for all predictions leave the training data
together, the model is trained again with the same settings and seed, and the same predictions are ranked: by how much
do Hits@1 and MRR fall? Beside it as many random facts of the same heads, and the heads' facts that lead nearest to the
tail; and, for how much training alone moves them, the same data with another seed.

python benchmarks/retrained.py --data-dir DIR --dataset fb15k-237 --decoder complex [--device cuda] [--tune]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from powerlink import ExplainSettings, ModelSettings, Session, TrainingSettings, explain_many, load_graph
from powerlink.explainers.single_facts import SingleFacts
from powerlink.explainers.subsets.kelpie import Kelpie
from powerlink.explanation import Explanation
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.models.checkpoint import versions
from powerlink.models.link_model import build_model
from powerlink.models.ranking import Accuracy, filtered_ranks, rank_facts, score_tails
from powerlink.models.training import Trainer

RESULTS = Path(__file__).parent / "results" / "retrained"
MOST = 4  # facts of a prediction
OWN_ORDER = ExplainSettings(select="mask", also_consider="none")
COMPLEX = {"decoder": "complex", "widths": (400,)}
CONVE = {"decoder": "conve", "widths": (200,), "image": (10, 20)}
TRANSE = {"decoder": "transe", "widths": (200,)}
USUAL = {"batch_size": 1024, "schedule": "one-cycle", "lr": 0.003, "evaluate_every": 1000, "epochs": 80}
# what decides a model: its shape, and how it is trained
MODELS: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "fb15k-237/complex": (COMPLEX | {"output_dropout": 0.4}, USUAL),
    "fb15k-237/conve": (CONVE | {"output_dropout": 0.2}, USUAL | {"weight_decay": 0.1}),
    "fb15k-237/transe": (TRANSE | {"output_dropout": 0.1}, USUAL),
    "wn18rr/complex": (COMPLEX | {"output_dropout": 0.4}, USUAL | {"epochs": 100}),
    "wn18rr/conve": (CONVE | {"output_dropout": 0.2}, USUAL | {"epochs": 120, "weight_decay": 0.1}),
    "wn18rr/transe": (TRANSE | {"output_dropout": 0.1}, USUAL | {"epochs": 100}),
}
TRIES: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = (
    ({}, {}),
    ({"output_dropout": 0.5}, {}),
    ({"output_dropout": 0.2}, {}),
    ({}, {"weight_decay": 0.05}),
    ({}, {"lr": 0.01}),
)

Facts = list[tuple[int, int, int]]


@dataclass(frozen=True)
class Trained:
    """A model after its last epoch."""

    session: Session
    validation: Accuracy
    seconds: float


def train(graph: KnowledgeGraph, shape: Mapping[str, Any], how: Mapping[str, Any], device: str) -> Trained:
    """Train a model without an encoder."""
    settings = TrainingSettings(**how)
    torch.manual_seed(settings.seed)
    model = build_model(ModelSettings(encoder="none", **shape), graph.num_entities, graph.num_relations, settings.seed)
    trainer, start = Trainer(model, graph, settings, device), time.perf_counter()
    for _ in range(settings.epochs):
        trainer.epoch += 1
        trainer.train_epoch()
    model.eval()
    validation = trainer.accuracy_of("valid")
    name = f"none-{shape['decoder']}"
    return Trained(Session.of(graph, model, device, name=name), validation, time.perf_counter() - start)


def ranks_of(session: Session, facts: torch.Tensor) -> torch.Tensor:
    """Rank the tails of facts (n, 3)."""
    facts = facts.to(session.messages.device)
    logits = score_tails(session.settled, session.whole, facts[:, 0], facts[:, 1])
    return filtered_ranks(logits, facts, session.known).cpu()


def predictions(session: Session, count: int, seed: int = 0) -> torch.Tensor:
    """Draw test facts whose tail is ranked first: (count, 3)."""
    test = torch.from_numpy(np.array(session.graph.test))
    first = test[torch.cat([ranks_of(session, part) for part in test.split(1024)]) == 1]
    return first[torch.randperm(len(first), generator=torch.Generator().manual_seed(seed))[:count]]


def named(graph: KnowledgeGraph, explanation: Explanation) -> Facts:
    """Return the facts of the first evidence, and of what follows while there are not more than MOST."""
    found: dict[tuple[int, int, int], None] = {}
    for piece in explanation.evidence:
        facts = [graph.triple(fact.head, fact.relation, fact.tail) for fact in piece.facts]
        if len({*found, *facts}) > MOST:
            break
        found |= dict.fromkeys(facts)
    return list(found)


def evidence(session: Session, asked: torch.Tensor) -> Iterator[tuple[str, list[Facts], float]]:
    """Explain predictions in every way: its name, the facts by prediction, and the seconds of one."""
    graph = session.graph

    def explained(**how: Any) -> tuple[list[Facts], float]:
        start = time.perf_counter()
        told = explain_many(session, asked, **how)
        return [named(graph, explanation) for explanation in told], (time.perf_counter() - start) / len(asked)

    first, all_of_them = replace(OWN_ORDER, paths=1), replace(OWN_ORDER, paths=MOST)
    facts, seconds = explained(explainer=Kelpie(), settings=first)
    yield "kelpie", facts, seconds
    sizes = [len(some) for some in facts]
    drawn = np.random.default_rng(0)
    yield (
        "as many, random",
        [_random(graph, head, size, drawn) for head, size in zip(asked[:, 0].tolist(), sizes, strict=True)],
        0.0,
    )
    yield "powerlink", *explained(settings=ExplainSettings(paths=MOST))
    nearest, _ = explained(explainer=Kelpie(most=1, facts=MOST, threshold=math.inf), settings=all_of_them)
    yield "as many, nearest", [some[:size] for some, size in zip(nearest, sizes, strict=True)], 0.0
    yield "single facts", *explained(explainer=SingleFacts(), settings=all_of_them)
    yield "kelpie, both ends", *explained(explainer=Kelpie(around="both"), settings=first)


def _random(graph: KnowledgeGraph, head: int, count: int, drawn: np.random.Generator) -> Facts:
    own = graph.train[(graph.train[:, 0] == head) | (graph.train[:, 2] == head)]
    return [(int(h), int(r), int(t)) for h, r, t in own[drawn.permutation(len(own))[:count]]]


def without(graph: KnowledgeGraph, facts: Sequence[Facts]) -> KnowledgeGraph:
    """Return the graph without some training facts."""
    gone = {fact for some in facts for fact in some}
    kept = [tuple(row) not in gone for row in graph.train.tolist()]
    return replace(graph, train=graph.train[np.array(kept)].copy())


def fall(before: torch.Tensor, after: torch.Tensor, resamples: int = 2000) -> dict[str, Any]:
    """Return by how much Hits@1 and MRR of some predictions fall, with 95 % bootstrap intervals."""
    told = {}
    picks = torch.randint(len(before), (resamples, len(before)), generator=torch.Generator().manual_seed(0))
    for name, read in (("hits@1", lambda r: (r <= 1).double()), ("mrr", lambda r: 1 / r)):
        falls = read(before) - read(after)
        low, high = falls[picks].mean(1).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
        told[name] = {"fall": falls.mean().item(), "low": low, "high": high}
    return told


def tune(graph: KnowledgeGraph, name: str, device: str, tries: Sequence[int]) -> None:
    """Print what several settings come to on the validation facts."""
    shape, how = MODELS[name]
    for number in tries:
        own, training = TRIES[number]
        done = train(graph, {**shape, **own}, {**how, **training}, device)
        print(name, own, training, f"validation MRR {done.validation.mrr:.4f} in {done.seconds:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--dataset", default="fb15k-237")
    parser.add_argument("--decoder", default="complex")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--machine", default="2-core CPU")
    parser.add_argument("--predictions", type=int, default=50)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--tune", type=int, nargs="*", help="try these settings, and do nothing else")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    name = f"{asked.dataset}/{asked.decoder}"
    graph = load_graph(asked.dataset, data_dir=asked.data_dir)
    if asked.tune is not None:
        tune(graph, name, asked.device, asked.tune)
        return
    shape, how = MODELS[name]
    how = {**how, **({"epochs": asked.epochs} if asked.epochs else {})}

    def tell(line: str) -> None:
        print(f"{name}: {line}", flush=True)

    first = train(graph, shape, how, asked.device)
    session = first.session
    test = Accuracy.of(rank_facts(session.settled, graph, session.messages, "test", embeddings=session.whole))
    tell(f"validation MRR {first.validation.mrr:.3f}, test MRR {test.mrr:.3f}, {first.seconds:.0f} s")
    chosen = predictions(session, asked.predictions)
    before = ranks_of(session, chosen)
    result: dict[str, Any] = {
        "model": name,
        "settings": {**shape, **how},
        "test": test.as_dict(),
        "predictions": len(chosen),
        "training seconds": round(first.seconds, 1),
        "machine": asked.machine,
        "date": date.today().isoformat(),
        "versions": dict(versions()),
        "ways": {},
    }
    again = train(graph, shape, {**how, "seed": 1}, asked.device)
    result["another seed"] = fall(before, ranks_of(again.session, chosen))
    tell(f"another seed: {result['another seed']}")
    for way, facts, seconds in evidence(session, chosen):
        after = ranks_of(train(without(graph, facts), shape, how, asked.device).session, chosen)
        told = {
            "facts": float(np.mean([len(some) for some in facts])),
            "seconds": round(seconds, 3),
            **fall(before, after),
        }
        result["ways"][way] = told
        tell(f"{way}: {told}")
        asked.out.mkdir(parents=True, exist_ok=True)
        path = asked.out / f"{asked.dataset}_{asked.decoder}.json"
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
