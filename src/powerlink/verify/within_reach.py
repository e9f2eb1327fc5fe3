"""The ceiling: for how many queries does the graph hold any right path of the allowed length?"""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from powerlink.graphs.message_graph import MessageGraph
from powerlink.kg.explained_links import Triple
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.kg.known_reasons import Reasons
from powerlink.verify.first_right import Match

FAR = np.iinfo(np.int64).max // 4


class Reach:
    """Looks for right paths by distances from head, avoiding tail, and from tail, avoiding head.

    Up to three facts that is exact; behind that the two halves of a path may share a node, so it may say too much.
    Where paths must have several facts, distances do not tell: then only whole known paths do.
    """

    def __init__(self, graph: KnowledgeGraph, messages: MessageGraph, longest: int, shortest: int = 1) -> None:
        self._graph, self._longest, self._shortest = graph, longest, shortest
        self._row, self._source = messages.row.cpu().numpy(), messages.source.cpu().numpy()

    def holds(self, query: Triple, known: Reasons, match: Match | None = None) -> bool | None:
        """Say whether there is a right path; None where that is not cheap to tell."""
        if match != "touches" and any(self._shortest <= len(path) <= self._longest for path in known.paths):
            return True
        if self._shortest > 1 and (known.entities or known.facts):
            return None
        if match == "is":
            return None if known.entities or known.facts else False
        head, relation, tail = query
        near_head, near_tail = self._distances(head, tail), self._distances(tail, head)
        inner = map(self._graph.entities.index, known.entities)
        if any(near_head[e] + near_tail[e] <= self._longest for e in inner if e not in (head, tail)):
            return True
        facts = chain(known.facts, *known.paths) if match == "touches" else known.facts
        return any(
            min(near_head[u] + near_tail[v], near_head[v] + near_tail[u]) < self._longest
            for u, r, v in (self._graph.triple(*fact) for fact in facts)
            if u != v and (u, r, v) != (head, relation, tail)
        )

    def _distances(self, start: int, avoided: int) -> NDArray[np.int64]:
        distance = np.full(self._graph.num_entities, FAR, dtype=np.int64)
        distance[start] = 0
        border = np.array([start])
        for step in range(1, self._longest):
            parts = [self._source[self._row[node] : self._row[node + 1]] for node in border]
            reached = np.unique(np.concatenate(parts)) if parts else border
            border = reached[(distance[reached] == FAR) & (reached != avoided)]
            distance[border] = step
        return distance
