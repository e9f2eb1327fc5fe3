"""Read what is known to explain queries: a table, JSON Lines, or a folder of typed nodes and edges.

A table (.tsv, .txt, .csv, .parquet; .gz) has the columns head, relation, tail and known: entities joined by `|`. A line
of .jsonl is {"head", "relation", "tail"} with any of "entities", "facts" and "paths". Lines of one query
are taken together.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from powerlink.errors import DataError, MismatchError, UnknownNameError
from powerlink.kg.knowledge_graph import KnowledgeGraph, Split
from powerlink.kg.known_reasons import KnownReasons, Named, ReasonCollector
from powerlink.kg.layout import Layout
from powerlink.kg.readers import no_such
from powerlink.kg.tables import TABLE_FORMATS, file_format, header_in_lines, line_of, read_bytes, read_columns
from powerlink.kg.typed_folder import is_typed_folder, read_links

HEADER = ("head", "relation", "tail", "known")
KNOWN = Layout(
    HEADER,
    headers=(HEADER, ("subject", "predicate", "object", "known"), ("source", "relation", "target", "known")),
    required=4,
)
BETWEEN = "|"  # known entities in a table
_SHAPE = (
    '{"head": …, "relation": …, "tail": …} and any of "entities": […], '
    '"facts": [[head, relation, tail], …], "paths": [[[head, relation, tail], …], …]'
)
_QUERY, _REASONS = HEADER[:3], ("entities", "facts", "paths")


def read_known_reasons(
    path: str | Path, graph: KnowledgeGraph, *, split: Split = "test", skip_unknown: bool = False
) -> KnownReasons:
    """Read the queries of a file, or the links of one split of a folder, with what explains each of them."""
    path = Path(path).expanduser()
    if os.path.isdir(path):
        known = _of_folder(path, graph, split)
    elif not os.path.exists(path):
        raise DataError(no_such(path))
    else:
        collector = ReasonCollector(graph, skip_unknown=skip_unknown)
        kind = file_format(path)
        if kind == ".jsonl":
            _read_lines(path, collector)
        elif kind in TABLE_FORMATS:
            _read_table(path, collector)
        else:
            listed = ", ".join((*TABLE_FORMATS, ".jsonl"))
            raise DataError(f"{path} is no file of known reasons: expected {listed}, or one of these as .gz")
        known = collector.collect(path.name.split(".")[0])
    if not known.of:
        said = f" ({'; '.join(known.notes)})" if known.notes else ""
        raise DataError(f"{path} tells of no query of {graph.name} what explains it{said}")
    return known


def _read_table(path: Path, collector: ReasonCollector) -> None:
    columns = [column.to_pylist() for column in read_columns(path, KNOWN)]
    for place, (*query, known) in enumerate(zip(*columns, strict=True)):
        if place or not header_in_lines(path, (*query, known), KNOWN):
            entities = [name.strip() for name in known.split(BETWEEN) if name.strip()]
            collector.add(line_of(path, place), _fact(query), entities=entities)


def _read_lines(path: Path, collector: ReasonCollector) -> None:
    for number, line in enumerate(read_bytes(path).splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            said = json.loads(line)
            if not isinstance(said, dict):
                raise TypeError
            for key in said:
                if key not in (*_QUERY, *_REASONS):
                    raise DataError(f"{where}: {UnknownNameError('key', key, (*_QUERY, *_REASONS))}; expected {_SHAPE}")
            query = _fact([said[part] for part in _QUERY])
            entities = _names(said.get("entities", []))
            facts = [_fact(fact) for fact in _list(said.get("facts", []))]
            paths = [[_fact(fact) for fact in _list(path)] for path in _list(said.get("paths", []))]
            if not (entities or facts or paths):
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DataError(f"{where} tells no known reason; expected {_SHAPE}") from None
        collector.add(where, query, entities=entities, facts=facts, paths=paths)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _names(value: Any) -> list[str]:
    if not all(isinstance(name, str) for name in _list(value)):
        raise TypeError
    return list(value)


def _fact(value: Any) -> Named:
    head, relation, tail = _names(value)
    return head, relation, tail


def _of_folder(folder: Path, graph: KnowledgeGraph, split: Split) -> KnownReasons:
    """Take a split's links of a typed folder, if the model is one of this folder's graph."""
    if not is_typed_folder(folder):
        raise DataError(f"{folder} holds no files of typed nodes and edges: expected such a folder, or one file")
    data = read_links(folder)
    if graph.fingerprint not in (data.background.fingerprint, data.graph.fingerprint):
        raise MismatchError(
            f"{folder} is not what the model was trained on ({graph.name}): "
            f"train one by `powerlink train --data {folder} --links`"
        )
    links = [tuple(link) for link in data.links_of(split).tolist()]
    return KnownReasons.of_steps(data.name, graph, {link: data.truth[link] for link in links if link in data.truth})
