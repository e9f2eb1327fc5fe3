"""What a stand-in is fitted by: the loss of its own facts, as its model was trained, against wrong answers drawn once.

An entity's facts are those that lead into it, both directions included. In each the entity answers twice: asked for
the other end, and as the other end's answer. Facts that were removed are wrong answers, as they would have been in
training.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.edges import find_sorted
from powerlink.graphs.message_graph import MessageGraph, inverse_relation
from powerlink.kernels.keyed_random import keyed_uniform, keys_of
from powerlink.models.protocol import Embeddings, Queries, Retrainable


@dataclass(frozen=True, eq=False)
class FactsOf:
    """The facts of some stand-ins, as edges that lead into them."""

    owner: Tensor  # (n,) which stand-in
    relation: Tensor  # (n,) of the edge
    other: Tensor  # (n,) the entity it comes from
    there: Tensor  # (n,) bool: fitted on; else a wrong answer


@dataclass(frozen=True, eq=False)
class Setting:
    """What stand-ins are fitted against: everybody else as trained, and the wrong answers that were drawn."""

    whole: Embeddings
    start: Tensor  # (k,) where every fit begins: the mean of all rows
    spread: float  # of the entities' numbers
    drawn: Tensor  # (K,) entities, ascending
    pairs: Tensor  # (K,) drawn from the distinct pairs of an other end and a relation, as keys, ascending
    num_pairs: int

    @classmethod
    def of(cls, model: Retrainable, messages: MessageGraph, own: Tensor, drawn: int) -> Setting:
        """Draw what all stand-ins of a model are held against."""
        count, kinds = messages.num_nodes, 2 * messages.num_relations
        pairs = (messages.source * kinds + messages.relation).unique()
        everyone = torch.arange(count, device=messages.device)
        spread = float(own.std())
        whole = model.stood_in(own)
        return cls(whole, own.mean(0), spread, _drawn(everyone, drawn), _drawn(pairs, drawn), pairs.numel())


def _drawn(keys: Tensor, most: int) -> Tensor:
    """Draw some of the keys, (·,) ascending; all of them where there are not more, or `most` is 0."""
    if not 0 < most < keys.numel():
        return keys
    lots = keyed_uniform(keys_of(0, keys), 1).squeeze(1)
    return keys[lots.argsort(stable=True)[:most]].sort().values


def loss_of(model: Retrainable, against: Setting, entity: Tensor, facts: FactsOf) -> Callable[[Tensor], Tensor]:
    """Return the sum of the stand-ins' losses as a function of their rows (S, k)."""
    kinds = against.whole.relation.size(0)
    asked = inverse_relation(facts.relation, kinds // 2)
    group, of_group = (facts.owner * kinds + asked).unique(return_inverse=True)  # a stand-in and what it is asked for
    others, place = facts.other.unique(return_inverse=True)
    pair, of_pair = (facts.other * kinds + facts.relation).unique(return_inverse=True)
    sides = _Sides(
        model=model,
        facts=facts,
        owner=group // kinds,
        relation=group % kinds,
        of_group=of_group,
        tails=against.whole.rows(others),
        tail=place,
        heads=model.queries(against.whole, pair // kinds, pair % kinds),
        of_pair=of_pair,
    )
    column, met = find_sorted(against.drawn, facts.other)
    wrong = _Wrong.of(against.drawn, against.whole.entity.size(0), group.numel(), of_group[met], column[met])
    rest = against.whole.rows(against.drawn)
    match model.objective.kind:
        case "softmax":
            return _softmax_loss(sides, wrong, rest, against, entity)
        case "margin":
            return _margin_loss(sides, wrong, rest, against, entity)
        case "all-tails":
            return _all_tails_loss(sides, wrong, rest, against, entity)


softplus = torch.nn.functional.softplus


@dataclass(frozen=True, eq=False)
class _Sides:
    """Both of a fact's questions: the stand-in asked for the other end, and the other end asked for the stand-in."""

    model: Retrainable
    facts: FactsOf
    owner: Tensor  # (G,) stand-in of a group: its facts of one relation
    relation: Tensor  # (G,)
    of_group: Tensor  # (n,)
    tails: Embeddings  # of the other ends
    tail: Tensor  # (n,) place among them
    heads: Queries  # of the other ends, which nothing changes
    of_pair: Tensor  # (n,) place among these

    def logits(self, stand_ins: Embeddings, rest: Embeddings) -> tuple[Tensor, Tensor, Tensor]:
        """Return the logits of all facts' other ends (n,), of the rest in their place (G, K), and of stand-ins (n,)."""
        asked = self.model.queries(stand_ins, self.owner, self.relation)
        out = asked.match(self.tails, self.of_group, self.tail)
        return out, asked.match_all(rest), self.heads.match(stand_ins, self.of_pair, self.facts.owner)


@dataclass(frozen=True, eq=False)
class _Wrong:
    """Wrong answers that were drawn, each of which stands for several; those that are told one by one are left out."""

    told: Tensor  # (rows, K) bool
    shift: Tensor  # (rows, 1) log of how many each of the others stands for

    @classmethod
    def of(cls, drawn: Tensor, count: int, rows: int, row: Tensor, column: Tensor) -> _Wrong:
        told = torch.zeros(rows, drawn.numel(), dtype=torch.bool, device=drawn.device)
        told[row, column] = True
        left = (~told).sum(1, keepdim=True)
        many = (count - told.sum(1, keepdim=True)).double() / left.clamp(min=1)
        return cls(told, many.clamp(min=1).log())

    def softplus(self, logits: Tensor) -> Tensor:
        """Return their losses as wrong answers (rows, K); see `drawn_tails_loss` for why logits are raised."""
        return softplus(logits + self.shift).masked_fill(self.told, 0.0)

    def mean(self, losses: Tensor, row: Tensor | None = None) -> Tensor:
        """Return the mean of their losses (n, K), of some of the rows (n,) or of all: (n,)."""
        told = self.told if row is None else self.told[row]
        return losses.masked_fill(told, 0.0).sum(1) / (~told).sum(1).clamp(min=1)

    def logsumexp(self, logits: Tensor) -> Tensor:
        """Return the log of the sum of all they stand for: (rows,)."""
        return (logits + self.shift).masked_fill(self.told, -math.inf).logsumexp(1)


def _all_tails_loss(
    sides: _Sides, wrong: _Wrong, rest: Embeddings, against: Setting, entity: Tensor
) -> Callable[[Tensor], Tensor]:
    """Return the binary cross-entropy of all answers, as our own models are trained."""
    model, facts, kinds = sides.model, sides.facts, against.whole.relation.size(0)
    column, met = find_sorted(against.pairs, facts.other * kinds + facts.relation)
    pairs = _Wrong.of(against.pairs, against.num_pairs, entity.numel(), facts.owner[met], column[met])
    asking = model.queries(against.whole, against.pairs // kinds, against.pairs % kinds)
    sign, margin = torch.where(facts.there, -1.0, 1.0), model.objective.margin

    def loss(rows: Tensor) -> Tensor:
        stand_ins = model.stood_in(rows)
        right_out, of_rest, right_in = sides.logits(stand_ins, rest)
        known = softplus(sign * (right_out + margin)) + softplus(sign * (right_in + margin))
        others = asking.match_all(stand_ins).t()
        return known.sum() + wrong.softplus(of_rest + margin).sum() + pairs.softplus(others + margin).sum()

    return loss


def _margin_loss(
    sides: _Sides, wrong: _Wrong, rest: Embeddings, against: Setting, entity: Tensor
) -> Callable[[Tensor], Tensor]:
    """Return by how much wrong answers come nearer to each fact's than the margin, on average."""
    facts, margin = sides.facts, sides.model.objective.margin
    of_all, but_own = _rivals(sides, rest, against, entity)

    def loss(rows: Tensor) -> Tensor:
        right_out, of_rest, right_in = sides.logits(sides.model.stood_in(rows), rest)
        out = wrong.mean((margin + of_rest[sides.of_group] - right_out.unsqueeze(1)).relu(), sides.of_group)
        into = but_own.mean((margin + of_all - right_in.unsqueeze(1)).relu())
        return torch.where(facts.there, out + into, 0.0).sum()

    return loss


def _rivals(sides: _Sides, rest: Embeddings, against: Setting, entity: Tensor) -> tuple[Tensor, _Wrong]:
    """Return the logits of drawn entities in a stand-in's place, (n, K), and which of them is the entity itself."""
    drawn = against.drawn
    own, met = find_sorted(drawn, entity[sides.facts.owner])
    row = torch.arange(own.numel(), device=drawn.device)
    but_own = _Wrong.of(drawn, against.whole.entity.size(0) - 1, row.numel(), row[met], own[met])
    return sides.heads.match_all(rest)[sides.of_pair], but_own


def _softmax_loss(
    sides: _Sides, wrong: _Wrong, rest: Embeddings, against: Setting, entity: Tensor
) -> Callable[[Tensor], Tensor]:
    """Return the negative log-likelihood of each fact's answer among all entities, as Kelpie trains ComplEx."""
    facts = sides.facts
    of_all, but_own = _rivals(sides, rest, against, entity)
    rivals = but_own.logsumexp(of_all)  # (n,) of which none is the stand-in

    def loss(rows: Tensor) -> Tensor:
        stand_ins = sides.model.stood_in(rows)
        right_out, of_rest, right_in = sides.logits(stand_ins, rest)
        told = _logsumexp_by(right_out, sides.of_group, sides.owner.numel())
        out = torch.logaddexp(wrong.logsumexp(of_rest), told)[sides.of_group] - right_out
        return torch.where(facts.there, out + softplus(rivals - right_in), 0.0).sum()

    return loss


def _logsumexp_by(values: Tensor, group: Tensor, count: int) -> Tensor:
    """Return log Σ exp of the values (n,) of each group: (count,)."""
    highest = values.detach().new_full((count,), -math.inf).scatter_reduce(0, group, values.detach(), "amax")
    return highest + values.new_zeros(count).index_add(0, group, (values - highest[group]).exp()).log()
