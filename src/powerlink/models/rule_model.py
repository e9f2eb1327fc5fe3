"""A white box: a link model that reasons by known rules, so that explanations of it can be checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.graphs.edges import Edges
from powerlink.kernels.segments import gather, segment_sum
from powerlink.kg.planted import Rule
from powerlink.models.protocol import Abilities, Embeddings


@dataclass(frozen=True, eq=False)
class RuleModel:
    """logit(h, r, t) = scale · Σ over rules of confidence · Σ over their walks h → t of Π edge weights + offset.

    Every entity has a code of N numbers, orthogonal to all others. A node's vector is 1 + J blocks: its entity's
    code, then for each of the J relations that have rules the codes of the entities it is reached from, times how
    strongly. The score of a triple is the product of one block of its head with one of its tail. An inverse query
    (t, r⁻¹, h) has the score of the fact (h, r, t), read off the same walks.
    """

    rules: tuple[Rule, ...]
    num_entities: int  # N
    num_relations: int  # R
    scale: float = 60.0
    offset: float = -30.0
    code_length: float = 0.1
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        if not self.rules:
            raise SettingsError("a rule model needs at least one rule")
        for rule in self.rules:
            if not 0 <= rule.relation < self.num_relations:
                raise SettingsError(f"a rule's relation must lie below {self.num_relations}, not {rule.relation}")
            if not rule.body or not all(0 <= hop < 2 * self.num_relations for hop in rule.body):
                raise SettingsError(f"a rule's body must name relations of the graph, not {rule.body}")

    @property
    def num_layers(self) -> int:
        """How many hops a message can travel: the longest body."""
        return max(len(rule.body) for rule in self.rules)

    @cached_property
    def goals(self) -> tuple[int, ...]:
        """The J relations that have rules, in the order of their blocks."""
        return tuple(sorted({rule.relation for rule in self.rules}))

    @cached_property
    def _blocks(self) -> Tensor:
        """Which block of head and of tail a relation compares: (2R, 2); the entity block twice where no rule speaks."""
        blocks = torch.zeros(2 * self.num_relations, 2, dtype=torch.long)
        for block, goal in enumerate(self.goals, start=1):
            blocks[goal, 1] = block
            blocks[goal + self.num_relations, 0] = block
        return blocks

    @cached_property
    def _codes(self) -> Tensor:
        """The entities' codes, (N, N): orthogonal, dense and short.

        One-hot codes would score alike, but what reads these vectors (a learned edge scorer) was made for those of
        trained models, which are dense, and learns differently on one-hot rows.
        """
        orthogonal: Tensor = torch.linalg.qr(self._draw(self.num_entities, self.num_entities)).Q
        return self.code_length * orthogonal.to(self.dtype)

    @cached_property
    def _relation_codes(self) -> Tensor:
        """Fixed rows for what reads relations as vectors, (2R, (1 + J)·N): dense, as long as the entities' codes."""
        rows = self._draw(2 * self.num_relations, (1 + len(self.goals)) * self.num_entities)
        return self.code_length * torch.nn.functional.normalize(rows).to(self.dtype)

    @staticmethod
    def _draw(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    @property
    def abilities(self) -> Abilities:
        return Abilities(RuleModel, score_tails=self.score_tails)

    def encode(self, graph: Edges, edge_weight: Tensor | None = None) -> Embeddings:
        """Chain the rules over the graph, each hop multiplied by its edge's weight (num_edges,).

        Entity rows are (num_nodes, (1 + J)·N), relation rows (2R, (1 + J)·N). All edges are used, whatever the level:
        that is always right at level 0, and elsewhere as right as the graph's edges allow.
        """
        weight = graph.norm.new_ones(graph.num_edges) if edge_weight is None else edge_weight
        weight = weight.to(self.dtype)
        identity = gather(self._codes.to(graph.device), graph.entity)  # (n, N)
        on = {hop: (graph.relation == hop).nonzero().squeeze(1) for rule in self.rules for hop in rule.body}
        blocks = dict.fromkeys(self.goals, torch.zeros_like(identity))
        for rule in self.rules:
            reached = rule.confidence * identity
            for hop in rule.body:
                edge = on[hop]
                messages = gather(reached, graph.source[edge]) * gather(weight, edge).unsqueeze(1)  # (e, N)
                reached = segment_sum(messages, graph.target[edge], graph.num_nodes)
            blocks[rule.relation] = blocks[rule.relation] + reached
        entity = torch.cat([identity, *blocks.values()], dim=1)
        return Embeddings(entity, self._relation_codes.to(graph.device))

    def score(self, embeddings: Embeddings, triples: Tensor) -> Tensor:
        """Return the logits (n,) of triples (n, 3) of node, relation, node."""
        head, relation, tail = triples.unbind(1)
        size = 1 + len(self.goals)
        rows = embeddings.entity.reshape(-1, self.num_entities)  # (nodes · blocks, N)
        of_head, of_tail = self._blocks.to(relation.device)[relation].unbind(1)
        walks = (gather(rows, head * size + of_head) * gather(rows, tail * size + of_tail)).sum(1)
        return self._logit(walks, of_head + of_tail > 0)

    def score_tails(self, embeddings: Embeddings, head: Tensor, relation: Tensor) -> Tensor:
        """Score every node as the tail of (head, relation, ?), both (n,): logits (n, num_nodes)."""
        blocks = embeddings.entity.view(-1, 1 + len(self.goals), self.num_entities)
        of_head, of_tail = self._blocks.to(relation.device)[relation].unbind(1)
        queries = blocks[head, of_head]  # (n, N)
        walks = queries.new_zeros(head.numel(), blocks.size(0))
        for block in of_tail.unique().tolist():
            asked = (of_tail == block).nonzero().squeeze(1)
            walks = walks.index_copy(0, asked, queries[asked] @ blocks[:, block].t())
        return self._logit(walks, (of_head + of_tail > 0).unsqueeze(1))

    def _logit(self, walks: Tensor, has_rule: Tensor) -> Tensor:
        return self.scale / self.code_length**2 * walks * has_rule + self.offset
