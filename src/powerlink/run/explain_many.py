"""Explaining many queries: in batches, through an executor, each explanation with what made it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict

import torch
from torch import Tensor

from powerlink.errors import DeviceError
from powerlink.explainers.protocol import Explainer, described
from powerlink.explanation import Explanation, MadeBy, Query
from powerlink.memory import Budget, ran_out_of_memory
from powerlink.models.checkpoint import versions
from powerlink.models.subject import Subject
from powerlink.narrate import name_query
from powerlink.pipeline import DEFAULT_EXPLAINER, ExplainSettings, explain_batch
from powerlink.run.batching import batches
from powerlink.run.executor import Executor, Serial
from powerlink.stage_clock import StageClock

NamedTriple = tuple[str, str, str]


def describe(subject: Subject, explainer: Explainer, settings: ExplainSettings, seed: int) -> MadeBy:
    """Write down what is needed to make the same explanations again."""
    return MadeBy(
        explainer=explainer.name,
        settings={**asdict(settings), **described(explainer)},
        seed=seed,
        graph=subject.graph.fingerprint,
        model=subject.name,
        model_hash=subject.hash,
        versions=versions(),
    )


def as_queries(subject: Subject, triples: Sequence[NamedTriple] | Tensor, *, rank_heads: bool = False) -> Tensor:
    """Turn named triples, or facts (Q, 3), into queries; `rank_heads` asks each through the inverse relation."""
    if isinstance(triples, Tensor):
        facts = triples
    else:
        facts = torch.tensor([subject.graph.triple(*t) for t in triples], dtype=torch.long).reshape(-1, 3)
    if not rank_heads:
        return facts
    head, relation, tail = facts.unbind(1)
    return torch.stack([tail, relation + subject.graph.num_relations, head], dim=1)


def explain_in_batches(
    subject: Subject,
    queries: Tensor,
    *,
    explainer: Explainer | None = None,
    settings: ExplainSettings | None = None,
    seed: int = 0,
    executor: Executor | None = None,
    done: Collection[Query] = (),
    made_by: MadeBy | None = None,
    memory: int | None = None,
    clock: StageClock | None = None,
) -> Iterator[list[Explanation]]:
    """Yield the explanations of queries (Q, 3) batch by batch, in order, without those already `done`.

    `made_by` is what they say made them; by default, what `describe` says. Batches are cut from all queries and a batch
    that is not done is computed whole: the last digits of a number depend on its batch, and must not depend on where an
    earlier run was killed. `memory` is what a batch may take, in bytes; one that does not fit after all is halved.
    `clock` counts each stage's seconds.
    """
    explainer, settings = explainer or DEFAULT_EXPLAINER, settings or ExplainSettings()
    origin = made_by or describe(subject, explainer, settings, seed)

    def job(batch: Tensor) -> list[Explanation]:
        try:
            return explain_batch(
                subject,
                batch,
                explainer=explainer,
                settings=settings,
                seed=seed,
                made_by=origin,
                clock=clock,
                room=budget.room,
            )
        except RuntimeError as error:
            if not ran_out_of_memory(error):
                raise
            if len(batch) == 1:
                raise DeviceError(_too_large(subject, batch[0])) from None
        # Outside of the handler: the error holds on to what filled the memory.
        if subject.messages.device.type == "cuda":
            torch.cuda.empty_cache()
        return [explanation for half in batch.tensor_split(2) for explanation in job(half)]

    def is_open(batch: Tensor) -> bool:
        return any(name_query(subject.graph, query) not in done for query in batch.tolist())

    already = frozenset(done)
    budget = Budget.of(subject.messages.device, memory)
    runs = batches(subject.messages, queries, settings.hops or subject.model.num_layers, budget)
    for explained in (executor or Serial()).map(job, [batch for batch in runs if is_open(batch)]):
        yield [explanation for explanation in explained if explanation.query not in already]


def _too_large(subject: Subject, query: Tensor) -> str:
    asked = name_query(subject.graph, tuple(query.tolist()))
    return (
        f"there is too little memory on {subject.messages.device} to explain "
        f"({asked.head}, {asked.relation}, {asked.tail}): "
        "look at less of the graph with --hops 1 or a lower --hub-limit"
    )


def explain_many(
    subject: Subject,
    triples: Sequence[NamedTriple] | Tensor,
    *,
    explainer: Explainer | None = None,
    settings: ExplainSettings | None = None,
    seed: int = 0,
    rank_heads: bool = False,
) -> list[Explanation]:
    """Explain named triples, or facts (Q, 3) by index, in memory."""
    queries = as_queries(subject, triples, rank_heads=rank_heads)
    parts = explain_in_batches(subject, queries, explainer=explainer, settings=settings, seed=seed)
    return [explanation for part in parts for explanation in part]


def explain(
    subject: Subject,
    head: str,
    relation: str,
    tail: str,
    *,
    explainer: Explainer | None = None,
    settings: ExplainSettings | None = None,
    seed: int = 0,
    rank_heads: bool = False,
) -> Explanation:
    """Explain one triple by name: why does the model believe it?"""
    (explanation,) = explain_many(
        subject, [(head, relation, tail)], explainer=explainer, settings=settings, seed=seed, rank_heads=rank_heads
    )
    return explanation
