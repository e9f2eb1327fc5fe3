"""Read what is known to explain queries: a table, JSON Lines, or a folder of typed nodes and edges.

A table (.tsv, .txt, .csv, .parquet; .gz) has the columns head, relation, tail and known: entities joined by `|`. A line
of .jsonl is {"head", "relation", "tail"} with any of "entities", "facts" and "paths". Lines of one query
are taken together.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from powerlink.errors import DataError, MismatchError, UnknownNameError
from powerlink.kg.cleaning import contained
from powerlink.kg.explained_links import KnownReasons, Named, Reasons, Triple, facts_of
from powerlink.kg.knowledge_graph import KnowledgeGraph, Split, Triples
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
        collector = _Collector(graph, skip_unknown=skip_unknown)
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


def _read_table(path: Path, collector: _Collector) -> None:
    columns = [column.to_pylist() for column in read_columns(path, KNOWN)]
    for place, (*query, known) in enumerate(zip(*columns, strict=True)):
        if place or not header_in_lines(path, (*query, known), KNOWN):
            entities = [name.strip() for name in known.split(BETWEEN) if name.strip()]
            collector.add(line_of(path, place), _fact(query), entities=entities)


def _read_lines(path: Path, collector: _Collector) -> None:
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


class _Collector:
    """Brings named queries and reasons to a graph: an unknown query is refused, an unknown reason counted."""

    def __init__(self, graph: KnowledgeGraph, *, skip_unknown: bool = False) -> None:
        self._graph, self._skip = graph, skip_unknown
        self._train = np.sort(self._keys(graph.train))  # what is there, to be looked up
        self._of: dict[Triple, Reasons] = {}
        self._lost: Counter[str] = Counter()

    def add(
        self,
        where: str,
        query: Named,
        *,
        entities: Iterable[str] = (),
        facts: Iterable[Named] = (),
        paths: Iterable[Sequence[Named]] = (),
    ) -> None:
        """Add what one line of a file says; the lines of one query are taken together."""
        graph, asked = self._graph, self._find(query)
        if asked is None:
            self._lost["query"] += 1
            if not self._skip:
                try:
                    graph.triple(*query)
                except UnknownNameError as error:
                    raise DataError(f"{where}: {error}; --skip-unknown leaves such queries out") from None
            return
        found = [graph.entities.find(name) for name in entities]
        self._lost["entity"] += found.count(None)
        single = [self._steps([fact]) for fact in facts]
        whole = [self._steps(path) for path in paths]
        for number, steps in enumerate(whole, start=1):
            if steps is not None and not _leads(asked, steps):
                raise DataError(f"{where}: path {number} does not lead from head to tail; expected facts in a row")
        self._of[asked] = self._of.get(asked, Reasons()) | Reasons(
            frozenset(graph.entities[e] for e in found if e is not None and e not in (asked[0], asked[2])),
            frozenset[Named]().union(*(self._in_train("fact", steps) for steps in single)),
            frozenset(named for steps in whole if (named := self._in_train("path", steps))),
        )

    def collect(self, name: str) -> KnownReasons:
        """Return what the graph can speak of; queries of which it knows no reason are left out, and counted."""
        known = {query: reasons for query, reasons in self._of.items() if reasons}
        words = {"entity": "entities", "fact": "facts", "path": "paths"}
        lost = [(count, kind) for kind in words if (count := self._lost[kind])]
        notes = {
            "known reasons that the training graph does not have": ", ".join(
                f"{count:,} {kind if count == 1 else words[kind]}" for count, kind in lost
            ),
            "lines left out because the graph does not know head, relation or tail": f"{self._lost['query']:,}",
            "queries left out because the graph has none of their known reasons": f"{len(self._of) - len(known):,}",
        }
        return KnownReasons(name, known, notes=tuple(f"{why}: {n}" for why, n in notes.items() if n not in ("", "0")))

    def _find(self, fact: Named) -> Triple | None:
        graph = self._graph
        head, relation, tail = graph.entities.find(fact[0]), graph.relations.find(fact[1]), graph.entities.find(fact[2])
        return None if head is None or relation is None or tail is None else (head, relation, tail)

    def _steps(self, facts: Sequence[Named]) -> list[Triple] | None:
        steps = [step for fact in facts if (step := self._find(fact))]
        return steps if len(steps) == len(facts) else None

    def _in_train(self, kind: str, steps: Sequence[Triple] | None) -> frozenset[Named]:
        """Return the names of facts if the training graph has all of them; else nothing, and count what is lost."""
        if steps is not None and contained(self._keys(np.array(steps)), self._train).all():
            return facts_of(self._graph, steps)
        self._lost[kind] += 1
        return frozenset()

    def _keys(self, facts: Triples) -> NDArray[np.int64]:
        head, relation, tail = facts.T
        return np.asarray((head * self._graph.num_relations + relation) * self._graph.num_entities + tail)


def _leads(query: Triple, path: Sequence[Triple]) -> bool:
    """Say whether facts, each walked either way, lead from the query's head to its tail."""
    here = query[0]
    for head, _, tail in path:
        if here not in (head, tail):
            return False
        here = tail if here == head else head
    return bool(path) and here == query[2]
