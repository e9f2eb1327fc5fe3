"""Stage 2: every training fact as two directed edges, the fact and its inverse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from powerlink.graphs.edges import Edges
from powerlink.kg.knowledge_graph import KnowledgeGraph


@dataclass(frozen=True, eq=False, kw_only=True)
class MessageGraph(Edges):
    """The whole graph a GNN passes messages over; nodes are the entities themselves.

    Edges are sorted by (target, source, relation), so parallel edges lie side by side.
    """

    # A whole graph is trained on and ranked with: its messages are new, and weighted once, in every pass.
    reweighed: ClassVar[bool] = False

    fact: Tensor  # (num_edges,) row of the training fact an edge stands for
    reverse: Tensor  # (num_edges,) the edge of the same fact in the other direction

    def rows_of(self, table: Tensor) -> Tensor:
        """Return the table: here every entity is a node, in order."""
        return table

    @classmethod
    def from_facts(
        cls, facts: Tensor, num_entities: int, num_relations: int, device: torch.device | str = "cpu"
    ) -> MessageGraph:
        """Build the graph of the facts (n, 3): head, relation, tail."""
        head, relation, tail = facts.to(device).unbind(1)
        count = head.numel()
        source, target = torch.cat([head, tail]), torch.cat([tail, head])
        both = torch.cat([relation, relation + num_relations])
        order = ((target * num_entities + source) * (2 * num_relations) + both).argsort()
        place = torch.empty_like(order)
        place[order] = torch.arange(2 * count, device=order.device)
        twin = torch.cat([place[count:], place[:count]])  # where the other direction of each edge went
        degree = torch.bincount(target, minlength=num_entities).float()
        source, target = source[order], target[order]
        return cls(
            num_relations=num_relations,
            entity=torch.arange(num_entities, device=order.device),
            source=source,
            target=target,
            relation=both[order],
            norm=(degree[source] * degree[target]).rsqrt(),
            fact=order % count if count else order,
            reverse=twin[order],
        )

    @classmethod
    def of(cls, graph: KnowledgeGraph, device: torch.device | str = "cpu") -> MessageGraph:
        """Build the message graph of a knowledge graph's training facts."""
        facts = torch.from_numpy(graph.train.copy())
        return cls.from_facts(facts, graph.num_entities, graph.num_relations, device)


def inverse_relation(relation: Tensor, num_relations: int) -> Tensor:
    """Return the id of each relation's inverse: r ↔ r + R."""
    return torch.where(relation < num_relations, relation + num_relations, relation - num_relations)
