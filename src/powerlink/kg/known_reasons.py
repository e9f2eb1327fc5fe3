"""What is known to explain a query: entities, facts or whole paths that a right explanation runs through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from powerlink.errors import DataError, UnknownNameError
from powerlink.kg.cleaning import contained
from powerlink.kg.explained_links import GroundTruth, Triple
from powerlink.kg.knowledge_graph import KnowledgeGraph, Triples

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

        def facts(steps: Iterable[Triple]) -> frozenset[Named]:
            return frozenset(_names_of(graph, step) for step in steps)

        of = {
            link: Reasons(paths=frozenset(map(facts, known.paths)))
            if known.paths
            else Reasons(facts=facts(known.edges))
            for link, known in truth.items()
        }
        return cls(name, of, truth)


def _names_of(graph: KnowledgeGraph, step: Triple) -> Named:
    """Return the names of the fact that a step walks, in either direction."""
    source, relation, target = step
    head, tail = (source, target) if relation < graph.num_relations else (target, source)
    return graph.entities[head], graph.relations[relation % graph.num_relations], graph.entities[tail]


class ReasonCollector:
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
        asked = self._find(query)
        if asked is None:
            if not self._skip:
                raise DataError(f"{where}: {self._unknown(query)}; --skip-unknown leaves such queries out")
            self._lost["query"] += 1
            return
        graph = self._graph
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
        return KnownReasons(name, known, notes=self._notes(len(self._of) - len(known)))

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

    def _steps(self, facts: Sequence[Named]) -> list[Triple] | None:
        steps = [step for fact in facts if (step := self._find(fact))]
        return steps if len(steps) == len(facts) else None

    def _in_train(self, kind: str, steps: Sequence[Triple] | None) -> frozenset[Named]:
        """Return the names of facts if the training graph has all of them; else nothing, and count what is lost."""
        if steps is not None and contained(self._keys(np.array(steps)), self._train).all():
            return frozenset(_names_of(self._graph, step) for step in steps)
        self._lost[kind] += 1
        return frozenset()

    def _keys(self, facts: Triples) -> NDArray[np.int64]:
        head, relation, tail = facts.T
        return np.asarray((head * self._graph.num_relations + relation) * self._graph.num_entities + tail)

    def _notes(self, empty: int) -> tuple[str, ...]:
        words = {"entity": "entities", "fact": "facts", "path": "paths"}
        lost = [(count, kind) for kind in words if (count := self._lost[kind])]
        listed = ", ".join(f"{count:,} {kind if count == 1 else words[kind]}" for count, kind in lost)
        notes = {
            "known reasons that the training graph does not have": listed,
            "lines left out because the graph does not know head, relation or tail": f"{self._lost['query']:,}",
            "queries left out because the graph has none of their known reasons": f"{empty:,}",
        }
        return tuple(f"{what}: {said}" for what, said in notes.items() if said not in ("", "0"))


def _leads(query: Triple, path: Sequence[Triple]) -> bool:
    """Say whether facts, each walked either way, lead from the query's head to its tail."""
    here = query[0]
    for head, _, tail in path:
        if here not in (head, tail):
            return False
        here = tail if here == head else head
    return bool(path) and here == query[2]
