"""PyKEEN's models without message passing: TransE, DistMult, ComplEx, RotatE, ConvE, TuckER and whatever reads vectors.

All vectors of an entity, its bias among them, lie side by side in one row of real numbers. PyKEEN's own interaction
reads them, normalised and constrained as PyKEEN does it. A model without inverse relations is asked for heads as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from powerlink.errors import ModelError
from powerlink.graphs.edges import Edges
from powerlink.kg.pykeen_data import pykeen_module
from powerlink.models.protocol import Abilities, Embeddings, Objective

NUMBERS_AT_ONCE = 20_000_000  # of the vectors that are scored at a time
POINTWISE = ("BCEWithLogitsLoss", "BCEAfterSigmoidLoss", "SoftplusLoss", "NSSALoss")  # each answer is right or wrong
SETWISE = ("CrossEntropyLoss", "InfoNCELoss")  # one of all answers is right


class PyKEENVectors(nn.Module):
    """A LinkModel of vectors and an interaction function, whose entities' rows can be fitted again."""

    def __init__(self, model: Any, num_relations: int) -> None:
        super().__init__()
        self.entities = nn.ModuleList(model.entity_representations)
        self.relations = nn.ModuleList(model.relation_representations)
        self.interaction = model.interaction
        self.num_relations, self.has_inverses = num_relations, bool(model.use_inverse_triples)
        self.objective = objective_of(model.loss)
        relation = torch.arange(num_relations)
        both = [2 * relation, 2 * relation + 1] if self.has_inverses else [relation, relation]
        self.register_buffer("relation_rows", torch.cat(both), persistent=False)

    num_layers = 0
    relation_rows: Tensor  # (2R,) the row of each relation, and of each inverse

    @property
    def abilities(self) -> Abilities:
        return Abilities(
            PyKEENVectors,
            score_tails=self.score_tails,
            score_tails_of=self.score_tails_of,
            retrainable=self,
            in_double=self.in_double,
        )

    def in_double(self) -> PyKEENVectors:
        """Return a copy that computes in float64."""
        return deepcopy(self).double().eval()

    def encode(self, graph: Edges, edge_weight: Tensor | None = None) -> Embeddings:
        """Return the entities' rows: the graph is not read."""
        return self.stood_in(graph.rows_of(self.rows()))

    def rows(self) -> Tensor:
        """Return all vectors of every entity, side by side and as real numbers: (N, k)."""
        return torch.cat([_table(one) for one in self.entities], dim=1)

    def stood_in(self, rows: Tensor) -> Embeddings:
        """Return stand-ins with these numbers (n, k)."""
        table = torch.cat([_table(one) for one in self.relations], dim=1)
        return Embeddings(rows.to(table.dtype), table.index_select(0, self.relation_rows))

    def constrained(self, rows: Tensor) -> Tensor:
        """Return rows (n, k) as PyKEEN puts them right after a step."""
        parts = rows.split([_table(one).size(1) for one in self.entities], dim=1)
        return torch.cat([_constrained(one, part) for one, part in zip(self.entities, parts, strict=True)], dim=1)

    def queries(self, heads: Embeddings, head: Tensor, relation: Tensor) -> PyKEENQueries:
        """Ask about heads and relations (n,)."""
        return PyKEENQueries(self, heads.entity.index_select(0, head), relation)

    def score(self, embeddings: Embeddings, triples: Tensor) -> Tensor:
        """Return the interaction's scores (n,) of triples (n, 3) of node, relation, node."""
        head, relation, tail = triples.unbind(1)
        return self.queries(embeddings, head, relation).match(embeddings, torch.arange(len(triples)).to(head), tail)

    def score_tails(self, embeddings: Embeddings, head: Tensor, relation: Tensor) -> Tensor:
        """Score every node as the tail of (head, relation, ?), both (n,): (n, num_nodes)."""
        return self.score_tails_of(embeddings, embeddings, head, relation)

    def score_tails_of(self, heads: Embeddings, tails: Embeddings, head: Tensor, relation: Tensor) -> Tensor:
        """Score every node of one encoding as the tail for heads (n,) of another: (n, num_nodes of tails)."""
        return self.queries(heads, head, relation).match_all(tails)

    def interact(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Score rows that broadcast: entities (…, k), relation ids of the interaction's own direction (…)."""
        reads = self.interaction
        ends = (
            [_parts(self.entities, rows)[i] for i in places]
            for rows, places in ((head, reads.head_indices), (tail, reads.tail_indices))
        )
        table = torch.cat([_table(one) for one in self.relations], dim=1)
        kinds = _parts(self.relations, table[self.relation_rows[relation]])
        h, r, t = (part[0] if len(part) == 1 else tuple(part) for part in (next(ends), kinds, next(ends)))
        scores: Tensor = reads(h=h, r=r, t=t)
        return scores


@dataclass(frozen=True, eq=False)
class PyKEENQueries:
    """Rows of heads (n, k) and relations (n,); without inverse relations, a question for heads is asked as it is."""

    model: PyKEENVectors
    rows: Tensor
    relation: Tensor

    def match(self, tails: Embeddings, query: Tensor, tail: Tensor) -> Tensor:
        """Return the logits (m,) of some queries and tails, places (m,) of each."""
        return self._asked(
            self.rows.index_select(0, query), self.relation.index_select(0, query), tails.entity.index_select(0, tail)
        )

    def match_all(self, tails: Embeddings) -> Tensor:
        """Return the logits (queries, tails) of all pairs."""
        at_once = max(1, NUMBERS_AT_ONCE // max(tails.entity.numel(), 1))
        some = zip(self.rows.split(at_once), self.relation.split(at_once), strict=True)
        parts = [self._asked(rows.unsqueeze(1), kind.unsqueeze(1), tails.entity.unsqueeze(0)) for rows, kind in some]
        return torch.cat(parts) if parts else tails.entity.new_zeros(0, tails.entity.size(0))

    def _asked(self, given: Tensor, relation: Tensor, answer: Tensor) -> Tensor:
        count = self.model.num_relations
        if self.model.has_inverses:
            return self.model.interact(given, relation, answer)
        backward = relation >= count
        if not backward.any():
            return self.model.interact(given, relation, answer)
        if backward.all():
            return self.model.interact(answer, relation - count, given)
        # Both kinds in one call: each is asked in its own direction.
        shape = torch.broadcast_shapes(given.shape[:-1], answer.shape[:-1])
        scores = given.new_empty(shape)
        for side, ask in ((~backward, self._forward), (backward, self._backward)):
            place = side.flatten().nonzero().squeeze(1)
            theirs = answer if answer.size(0) == 1 else answer[place]
            scores[place] = ask(given[place], relation[place] % count, theirs)
        return scores

    def _forward(self, given: Tensor, relation: Tensor, answer: Tensor) -> Tensor:
        return self.model.interact(given, relation, answer)

    def _backward(self, given: Tensor, relation: Tensor, answer: Tensor) -> Tensor:
        return self.model.interact(answer, relation, given)


def objective_of(loss: Any) -> Objective:
    """Return what comes near a loss of PyKEEN's."""
    name, margin = type(loss).__name__, float(getattr(loss, "margin", 0.0) or 0.0)
    if name in POINTWISE:
        return Objective("all-tails", margin)
    return Objective("softmax") if name in SETWISE else Objective("margin", margin or 1.0)


def check_vectors(model: Any) -> None:
    """Refuse, in one sentence, a model of which more is read than vectors that belong to one entity each."""
    kinds = pykeen_module("pykeen.nn.representation")
    representations = getattr(model, "entity_representations", None), getattr(model, "relation_representations", None)
    if None in representations or not hasattr(model, "interaction"):
        raise ModelError(
            f"{type(model).__name__} has no vectors and interaction that can be read: it cannot be explained"
        )
    for what, some in zip(("entity", "relation"), representations, strict=True):
        for one in some or []:
            if type(one) is not kinds.Embedding:
                raise ModelError(
                    f"{type(model).__name__} reads {type(one).__name__} of an {what}, and not a vector that the "
                    f"{what} has to itself: nothing of it could be fitted again, so it cannot be explained"
                )
            if not one._embeddings.weight.requires_grad:
                raise ModelError(
                    f"the vectors of {type(model).__name__} are frozen: nothing of them was learned from facts"
                )


def _table(one: Any) -> Tensor:
    weight: Tensor = one._embeddings.weight
    return weight


def _parts(representations: nn.ModuleList | Sequence[Any], rows: Tensor) -> list[Tensor]:
    """Cut rows (…, k) into what an interaction reads: vectors of each representation's shape, complex where it is."""
    sizes = [_table(one).size(1) for one in representations]
    return [_shaped(one, part) for one, part in zip(representations, rows.split(sizes, dim=-1), strict=True)]


def _shaped(one: Any, rows: Tensor) -> Tensor:
    vectors = rows.reshape(*rows.shape[:-1], *one._shape)
    if one.is_complex:
        vectors = torch.view_as_complex(vectors.contiguous())
    return vectors if one.normalizer is None else one.normalizer(vectors)


def _constrained(one: Any, rows: Tensor) -> Tensor:
    if one.constrainer is None:
        return rows
    vectors = rows.reshape(*rows.shape[:-1], *one._shape)
    found: Tensor = one.constrainer(torch.view_as_complex(vectors.contiguous()) if one.is_complex else vectors)
    return (torch.view_as_real(found) if one.is_complex else found).reshape(rows.shape)
