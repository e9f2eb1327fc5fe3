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
        count, kinds = head.numel(), 2 * num_relations
        # One column of keys is sorted, and all others are read off it: a hundred million facts leave room for few.
        key = torch.cat(
            [_key(tail, head, relation, num_entities, kinds), _key(head, tail, relation, num_entities, kinds)]
        )
        key[count:] += num_relations
        key, order = key.sort()
        place = torch.empty_like(order)
        place[order] = torch.arange(2 * count, device=order.device)
        twin = torch.cat([place[count:], place[:count]])  # where the other direction of each edge went
        del place
        reverse = twin[order]
        del twin
        relation, key = key % kinds, key.div_(kinds, rounding_mode="floor")
        source, target = key % num_entities, key.div_(num_entities, rounding_mode="floor")
        degree = torch.bincount(target, minlength=num_entities).float()
        return cls(
            num_relations=num_relations,
            entity=torch.arange(num_entities, device=order.device),
            source=source,
            target=target,
            relation=relation,
            norm=degree[source].mul_(degree[target]).rsqrt_(),
            fact=order.remainder_(max(count, 1)),
            reverse=reverse,
        )

    @classmethod
    def of(cls, graph: KnowledgeGraph, device: torch.device | str = "cpu") -> MessageGraph:
        """Build the message graph of a knowledge graph's training facts."""
        facts = torch.from_numpy(graph.train.copy())
        return cls.from_facts(facts, graph.num_entities, graph.num_relations, device)


def _key(target: Tensor, source: Tensor, relation: Tensor, num_entities: int, kinds: int) -> Tensor:
    """Number edges in the order of target, source and relation."""
    return (target * num_entities).add_(source).mul_(kinds).add_(relation)


def inverse_relation(relation: Tensor, num_relations: int) -> Tensor:
    """Return the id of each relation's inverse: r ↔ r + R."""
    return torch.where(relation < num_relations, relation + num_relations, relation - num_relations)
