"""Queries that come with what explains them: the ground truth an explainer can be held against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from powerlink.kg.knowledge_graph import KnowledgeGraph, Names, Split, Triples

Triple = tuple[int, int, int]
Named = tuple[str, str, str]  # the names of head, relation and tail


@dataclass(frozen=True)
class GroundTruth:
    """What explains one link, as steps (source, relation, target) from node to node.

    A relation index + `num_relations` means that the step walks a fact backwards, as in a message graph.
    """

    edges: tuple[Triple, ...]
    paths: tuple[tuple[Triple, ...], ...]


@dataclass(frozen=True, eq=False)
class ExplainedLinks:
    """A graph of facts, links between its entities that a model is to predict, and the reasons for each link."""

    name: str
    entities: Names
    relations: Names
    node_types: tuple[str, ...]  # (N,) the type of each entity
    relation: int  # the one that is predicted
    facts: Triples  # (n, 3) all facts of other relations
    links: Triples  # (m, 3) all links, in stored order
    splits: Mapping[Split, NDArray[np.int64]]  # rows of `links`
    negatives: Mapping[Split, Triples]  # pairs that are neither joined nor linked
    truth: Mapping[Triple, GroundTruth] = field(default_factory=dict)  # by link
    notes: tuple[str, ...] = ()

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """All of it as a knowledge graph: facts and training links are train."""
        return self._graph(np.concatenate([self.facts, self.links[self.splits["train"]]]))

    @cached_property
    def background(self) -> KnowledgeGraph:
        """The same without any link in train: what a model passes messages over when links are targets only."""
        return self._graph(self.facts)

    def links_of(self, split: Split) -> Triples:
        """Return one split's links, (n, 3)."""
        return self.links[self.splits[split]]

    def _graph(self, train: Triples) -> KnowledgeGraph:
        valid, test = self.links_of("valid"), self.links_of("test")
        return KnowledgeGraph(self.name, self.entities, self.relations, train.copy(), valid, test, self.notes)


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

        of = {}
        for link, known in truth.items():
            paths = frozenset(facts_of(graph, path) for path in known.paths)
            of[link] = Reasons(paths=paths) if paths else Reasons(facts=facts_of(graph, known.edges))
        return cls(name, of, truth)


def facts_of(graph: KnowledgeGraph, steps: Iterable[Triple]) -> frozenset[Named]:
    """Return the names of the facts that steps walk, in either direction."""
    ends = (((u, r, v) if r < graph.num_relations else (v, r - graph.num_relations, u)) for u, r, v in steps)
    return frozenset((graph.entities[head], graph.relations[r], graph.entities[tail]) for head, r, tail in ends)
