"""What is known to explain a query: entities, facts or whole paths that a right explanation runs through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import cast

import numpy as np
import torch
from torch import Tensor

from powerlink.errors import DataError, UnknownNameError
from powerlink.kg.explained_links import GroundTruth, Triple
from powerlink.kg.knowledge_graph import KnowledgeGraph

Named = tuple[str, str, str]  # the names of head, relation and tail


@dataclass(frozen=True)
class Reasons:
    """What is known to explain one query, in the names that the graph shows; a path is told by its facts."""

    entities: frozenset[str] = frozenset()
    facts: frozenset[Named] = frozenset()
    paths: frozenset[frozenset[Named]] = frozenset()

    def __or__(self, other: Reasons) -> Reasons:
        return Reasons(self.entities | other.entities, self.facts | other.facts, self.paths | other.paths)

    def __bool__(self) -> bool:
        return bool(self.entities or self.facts or self.paths)


@dataclass(frozen=True, eq=False)
class KnownReasons:
    """Queries of one graph with what explains each."""

    name: str
    of: Mapping[Triple, Reasons]
    steps: Mapping[Triple, GroundTruth] = field(default_factory=dict)  # all that explains, where all of it is known
    notes: tuple[str, ...] = ()  # what could not be used, a sentence each

    @property
    def queries(self) -> Tensor:
        """The queries, in their order: (Q, 3)."""
        return torch.tensor(list(self.of), dtype=torch.long).reshape(-1, 3)

    @classmethod
    def of_steps(cls, name: str, graph: KnowledgeGraph, truth: Mapping[Triple, GroundTruth]) -> KnownReasons:
        """Take links whose whole paths are known, or their edges where there are no paths."""
        return cls(name, {link: _named(graph, known) for link, known in truth.items()}, truth)


def _named(graph: KnowledgeGraph, known: GroundTruth) -> Reasons:
    def fact(step: Triple) -> Named:
        source, relation, target = step
        inverse = relation >= graph.num_relations
        head, tail = (target, source) if inverse else (source, target)
        return graph.entities[head], graph.relations[relation % graph.num_relations], graph.entities[tail]

    if known.paths:
        return Reasons(paths=frozenset(frozenset(map(fact, path)) for path in known.paths))
    return Reasons(facts=frozenset(map(fact, known.edges)))


@dataclass(frozen=True)
class _Indices:
    """What is known of one query while it is collected."""

    entities: set[int] = field(default_factory=set)
    facts: set[Triple] = field(default_factory=set)
    paths: set[tuple[Triple, ...]] = field(default_factory=set)


class ReasonCollector:
    """Brings named queries and reasons to a graph: an unknown query is refused, an unknown reason counted."""

    def __init__(self, graph: KnowledgeGraph, *, skip_unknown: bool = False) -> None:
        self._graph, self._skip = graph, skip_unknown
        self._of: dict[Triple, _Indices] = {}
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
        found = self._find(query)
        if found is None:
            if not self._skip:
                raise DataError(f"{where}: {self._unknown(query)}; --skip-unknown leaves such queries out")
            self._lost["query"] += 1
            return
        here = self._of.setdefault(found, _Indices())
        for name in entities:
            entity = self._graph.entities.find(name)
            if self._there("entity", entity is not None):
                here.entities.add(cast(int, entity))
        for fact in facts:
            step = self._find(fact)
            if self._there("fact", step is not None):
                here.facts.add(cast(Triple, step))
        for number, path in enumerate(paths, start=1):
            steps = [step for fact in path if (step := self._find(fact)) is not None]
            if not self._there("path", len(steps) == len(path)):
                continue
            if not _leads(found, steps):
                raise DataError(f"{where}: path {number} does not lead from head to tail; expected facts in a row")
            here.paths.add(tuple(steps))

    def collect(self, name: str) -> KnownReasons:
        """Return what the graph can speak of; queries of which it knows no reason are left out, and counted."""
        present = self._present()
        of: dict[Triple, Reasons] = {}
        shown = self._graph.entities.shown
        for query, known in self._of.items():
            facts = {fact for fact in known.facts if self._there("fact", fact in present)}
            paths = {path for path in known.paths if self._there("path", present.issuperset(path))}
            of[query] = Reasons(
                frozenset(shown[entity] for entity in known.entities if entity not in (query[0], query[2])),
                frozenset(map(self._name, facts)),
                frozenset(frozenset(map(self._name, path)) for path in paths),
            )
        empty = sum(not reasons for reasons in of.values())
        return KnownReasons(name, {query: known for query, known in of.items() if known}, notes=self._notes(empty))

    def _find(self, fact: Named) -> Triple | None:
        graph = self._graph
        head, relation, tail = graph.entities.find(fact[0]), graph.relations.find(fact[1]), graph.entities.find(fact[2])
        return None if head is None or relation is None or tail is None else (head, relation, tail)

    def _unknown(self, query: Named) -> UnknownNameError:
        try:
            self._graph.triple(*query)
        except UnknownNameError as error:
            return error
        raise AssertionError(query)

    def _there(self, kind: str, is_there: bool) -> bool:
        self._lost[kind] += not is_there
        return is_there

    def _present(self) -> set[Triple]:
        """Return those of the facts spoken of that the training graph has."""
        wanted = {fact for known in self._of.values() for fact in chain(known.facts, *known.paths)}
        rows = np.array(sorted(wanted), dtype=np.int64).reshape(-1, 3)
        return set(map(tuple, rows[np.isin(self._keys(rows), self._keys(self._graph.train))].tolist()))

    def _keys(self, facts: np.ndarray) -> np.ndarray:
        head, relation, tail = facts.T
        keys: np.ndarray = (head * self._graph.num_relations + relation) * self._graph.num_entities + tail
        return keys

    def _name(self, fact: Triple) -> Named:
        head, relation, tail = fact
        return self._graph.entities[head], self._graph.relations[relation], self._graph.entities[tail]

    def _notes(self, empty: int) -> tuple[str, ...]:
        words = {"entity": "entities", "fact": "facts", "path": "paths"}
        lost = [(count, kind) for kind in words if (count := self._lost[kind])]
        told = ", ".join(f"{count:,} {kind if count == 1 else words[kind]}" for count, kind in lost)
        notes = [f"known reasons that the training graph does not have: {told}"] if told else []
        if self._lost["query"]:
            notes.append(
                f"lines left out because the graph does not know head, relation or tail: {self._lost['query']:,}"
            )
        if empty:
            notes.append(f"queries left out because the graph has none of their known reasons: {empty:,}")
        return tuple(notes)


def _leads(query: Triple, path: Sequence[Triple]) -> bool:
    """Say whether facts, each walked either way, lead from the query's head to its tail."""
    here = query[0]
    for head, _, tail in path:
        if here not in (head, tail):
            return False
        here = tail if here == head else head
    return bool(path) and here == query[2]
