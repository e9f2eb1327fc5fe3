"""Where many queries come from: a file, or the facts a model believes."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from powerlink.errors import DataError, UnknownNameError
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.kg.layout import FACTS
from powerlink.kg.tables import read_columns
from powerlink.models.subject import Subject, undisturbed
from powerlink.verify.verdict import standing_of


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


def predicted_only(subject: Subject, queries: Tensor, limit: int | None = None, chunk: int = 256) -> Tensor:
    """Keep the queries (Q, 3) the model believes: probability above one half, or ranked first; at most `limit`."""
    believed: list[Tensor] = []
    count = 0
    with undisturbed(subject.model):
        for part in queries.to(subject.messages.device).split(chunk):
            standing = standing_of(subject, part)
            believed.append(part[(standing.score > 0) | (standing.rank == 1)])
            count += len(believed[-1])
            if limit is not None and count >= limit:
                break
    return torch.cat(believed)[:limit].cpu() if believed else queries
