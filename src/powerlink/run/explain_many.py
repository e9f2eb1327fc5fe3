"""Explaining one triple or many: in batches, through an executor, into memory or a file that survives a kill."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from torch import Tensor

from powerlink.explainers.protocol import AnyExplainer
from powerlink.explanation import Explanation, Query
from powerlink.kernels.plain_torch import plain_torch
from powerlink.models.session import Session
from powerlink.narrate import name_query
from powerlink.pipeline import ExplainSettings
from powerlink.run.claim import claimed
from powerlink.run.executor import Executor, Parcel, Serial
from powerlink.run.job import ONLY, ExplainJob, JobResult
from powerlink.run.ledger import Ledger
from powerlink.run.progress import Told, adding_up, nobody
from powerlink.run.queries import NamedTriple, Which, as_queries, choose_queries, distinct
from powerlink.run.waiting_room import WaitingRoom, key_of


def run_batches(
    session: Session,
    queries: Tensor,
    job: ExplainJob,
    *,
    done: Collection[Query] = (),
    executor: Executor | None = None,
    waiting: Path | None = None,
    told: Callable[[int], None] = lambda more: None,
) -> Iterator[JobResult]:
    """Yield a job's results for queries (Q, 3) batch by batch, in order, passing over batches that are all `done`.

    Batches are cut from all queries and a batch that is not done is computed whole: the last digits of a number depend
    on its batch, and must not depend on where an earlier run was killed. An executor may finish them in any order: what
    comes before its turn waits in the folder `waiting`, or in memory. `told` hears how many queries more are safe.
    """
    executor = executor or Serial()
    with plain_torch(session.messages.device):
        parcels, fresh = [], []
        for parcel in job.cut(session, queries, executor.budget(job, session)):
            names = [name_query(session.graph, query) for query in parcel.content.tolist()]
            if left := sum(name not in done for name in names):
                parcels.append(parcel)
                fresh.append(left)
    yield from _in_turn(session, job, parcels, fresh, executor, waiting, told)


def _in_turn(
    session: Session,
    job: ExplainJob,
    parcels: list[Parcel[Tensor]],
    fresh: list[int],
    executor: Executor,
    waiting: Path | None,
    told: Callable[[int], None],
) -> Iterator[JobResult]:
    """Yield every parcel's result in the parcels' order, whatever order they come in."""
    with WaitingRoom(waiting, [key_of(job.made_by(session), parcel.content) for parcel in parcels]) as room:
        left = [place for place in range(len(parcels)) if place not in room]
        told(sum(fresh[place] for place in range(len(parcels)) if place in room))
        arriving = executor.map(job, [parcels[place] for place in left], session) if left else iter(())
        for turn in range(len(parcels)):
            if early := turn in room:
                result = room.take(turn)
            else:
                for index, result in arriving:
                    if left[index] == turn:
                        break
                    room.keep(left[index], result)
                    told(fresh[left[index]])
            yield result
            room.leave(turn)  # whoever asks for the next has seen to this one
            told(0 if early else fresh[turn])


def explain_many(
    session: Session,
    triples: Sequence[NamedTriple] | Tensor,
    *,
    explainer: AnyExplainer | None = None,
    settings: ExplainSettings | None = None,
    seed: int = 0,
    rank_heads: bool = False,
    which: Which = "all",
    limit: int | None = None,
    out: str | Path | None = None,
    memory: int | None = None,
    executor: Executor | None = None,
    told: Told = nobody,
) -> list[Explanation]:
    """Explain named triples, or facts (Q, 3) by index; `rank_heads` asks through the inverse relation.

    `which` of them: those the model believes (score above 0), ranks first, predicts (either), or all, and at most
    `limit`. With `out`, a file of JSON Lines, every batch is on the disk before the next begins, and a rerun goes on
    where one was killed. `memory` is what the process (on a GPU: what lies on it) may take in all, in bytes. `told`
    hears what is going on, how many are done, and of how many.
    """
    job = ExplainJob.of(explainer, settings, seed, memory)
    with plain_torch(session.messages.device):  # and not while others work: a GPU is one thread's at a time
        queries = as_queries(session, triples, rank_heads=rank_heads)
        if which != "all":
            queries = distinct(queries)
            asked = adding_up(told, "asking the model", len(queries))
            queries = choose_queries(session, queries, which, limit=limit, told=asked).queries
        given = [name_query(session.graph, query) for query in queries[:limit].tolist()]
        queries, names = distinct(queries[:limit]), set(given)
    with claimed(Path(out)) if out else nullcontext():
        ledger = Ledger(Path(out), job.made_by(session)[ONLY]) if out else None
        done: dict[Query, Explanation] = ledger.done if ledger else {}
        more = adding_up(told, "explaining", len(names))
        more(len(done.keys() & names))
        waiting = Path(f"{out}.waiting") if out else None
        for result in run_batches(
            session, queries, job, done=done.keys(), executor=executor, waiting=waiting, told=more
        ):
            fresh = [explanation for explanation in result.explanations if explanation.query not in done]
            if ledger:
                ledger.append(fresh)
            else:
                done |= {explanation.query: explanation for explanation in fresh}
    return [done[name] for name in given]


def explain(
    session: Session,
    head: str,
    relation: str,
    tail: str,
    *,
    explainer: AnyExplainer | None = None,
    settings: ExplainSettings | None = None,
    seed: int = 0,
    rank_heads: bool = False,
) -> Explanation:
    """Explain one triple by name: why does the model believe it?"""
    (explanation,) = explain_many(
        session, [(head, relation, tail)], explainer=explainer, settings=settings, seed=seed, rank_heads=rank_heads
    )
    return explanation
