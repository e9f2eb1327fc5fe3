"""Where many queries come from: a file, or the facts a model believes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from powerlink.errors import DataError, UnknownNameError
from powerlink.explain_settings import Which as Which  # noqa: PLC0414 - where it is looked for
from powerlink.graphs.computation_graph import node_counts
from powerlink.kernels.plain_torch import plain_torch
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.kg.layout import FACTS
from powerlink.kg.tables import read_columns
from powerlink.models.session import Session
from powerlink.verify.verdict import standing_of

NamedTriple = tuple[str, str, str]


def read_queries(graph: KnowledgeGraph, path: Path) -> Tensor:
    """Read named triples from a file of the kinds that hold facts (.tsv, .txt, .csv, .parquet; .gz): (Q, 3)."""
    columns = [column.to_pylist() for column in read_columns(path, FACTS)]
    rows = []
    for number, names in enumerate(zip(*columns, strict=True), start=1):
        try:
            rows.append(graph.triple(*names))
        except UnknownNameError as error:
            raise DataError(f"{path}, triple {number}: {error}") from error
    if not rows:
        raise DataError(f"{path} is empty; expected lines of {FACTS}")
    return torch.tensor(rows)


def as_queries(session: Session, triples: Sequence[NamedTriple] | Tensor, *, rank_heads: bool = False) -> Tensor:
    """Turn named triples, or facts (Q, 3), into queries; `rank_heads` asks each through the inverse relation."""
    if isinstance(triples, Tensor):
        facts = triples
    else:
        facts = torch.tensor([session.graph.triple(*t) for t in triples], dtype=torch.long).reshape(-1, 3)
    if not rank_heads:
        return facts
    head, relation, tail = facts.unbind(1)
    return torch.stack([tail, relation + session.graph.num_relations, head], dim=1)


def distinct(queries: Tensor) -> Tensor:
    """Drop repeated queries (Q, 3), keeping the order."""
    return torch.tensor(list(dict.fromkeys(map(tuple, queries.tolist()))), dtype=torch.long).reshape(-1, 3)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The queries to explain, and what was left out of those that were looked at to find them."""

    queries: Tensor  # (Q, 3)
    looked_at: int
    not_wanted: int  # not believed, or whatever was asked for
    too_large: int


def choose_queries(
    session: Session,
    facts: Tensor,
    which: Which = "believed",
    *,
    limit: int | None = None,
    max_nodes: int | None = None,
    hops: int | None = None,
    chunk: int = 256,
    told: Callable[[int], None] | None = None,
) -> Chosen:
    """Take, in order, facts (F, 3) the model believes (score above 0), or ranks first, or predicts (either), or all.

    Of those, queries whose computation graph has more than `max_nodes` nodes are left out. Facts behind the last one
    that `limit` lets in are not looked at. `told` hears how many were, part by part.
    """
    taken: list[Tensor] = [facts[:0]]
    count = looked_at = doubted = large = 0
    reach = hops or session.reach
    with plain_torch(session.messages.device):
        for part in facts.split(chunk):
            wanted = _is_wanted(session, part, which)
            fits = torch.ones_like(wanted)
            if max_nodes is not None:
                fits[wanted] = (node_counts(session.messages, part[wanted], reach) <= max_nodes).cpu()
            here = (wanted & fits).nonzero().squeeze(1)
            last = len(part)
            if limit is not None and count + len(here) >= limit:
                here = here[: limit - count]
                last = int(here[-1]) + 1 if len(here) else 0
            taken.append(part[here])
            count, looked_at = count + len(here), looked_at + last
            doubted += int((~wanted[:last]).sum())
            large += int((wanted & ~fits)[:last].sum())
            if told is not None:
                told(len(part))
            if count == limit:
                break
    return Chosen(torch.cat(taken), looked_at, doubted, large)


def _is_wanted(session: Session, queries: Tensor, which: Which) -> Tensor:
    if which == "all":
        return torch.ones(len(queries), dtype=torch.bool)
    standing = standing_of(session, queries.to(session.messages.device))
    believed, first = (standing.score > 0).cpu(), (standing.rank == 1).cpu()
    return {"believed": believed, "first": first, "predicted": believed | first}[which]
