"""Links that come with what explains them: the ground truth an explainer can be held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from powerlink.kg.knowledge_graph import KnowledgeGraph, Names, Split, Triples

Triple = tuple[int, int, int]


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
