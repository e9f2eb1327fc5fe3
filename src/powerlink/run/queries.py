"""Where many queries come from: a file, or the facts a model believes."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from powerlink.errors import DataError, UnknownNameError
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.models.subject import Subject, undisturbed
from powerlink.verify.verdict import standing_of


def read_queries(graph: KnowledgeGraph, path: Path) -> Tensor:
    """Read named triples, one a line, tab-separated: (Q, 3)."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start + 1})") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) != 3:
            raise DataError(
                f"{path}, line {number}: expected head, relation and tail separated by tabs, "
                f"found {len(columns)} columns"
            )
        try:
            rows.append(graph.triple(*columns))
        except UnknownNameError as error:
            raise DataError(f"{path}, line {number}: {error}") from error
    if not rows:
        raise DataError(f"{path} is empty: expected lines of head, relation and tail separated by tabs")
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
