"""Stand-ins: an entity's own numbers, fitted again on other facts than it was trained on, all else frozen.

What would the model have learned of this entity without some of its facts? Kelpie (Rossi et al., SIGMOD 2022) lets a
stand-in tell: a new row, fitted on the facts that are left. One that is fitted on all of them tells what the fit itself
changes. From the same start, on the same drawn wrong answers, in the same steps of Adam,

    row without = own row + fit(facts that are left) − fit(all facts)

so that without a removal nothing changes, and what a removal changes is measured from the model as it is.

An entity's facts are those that lead into it, both directions included. In each the entity answers twice: asked for
the other end, and as the other end's answer. Facts that were removed are wrong answers, as they would have been in
training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from powerlink.graphs.edges import expand_rows, find_sorted
from powerlink.graphs.message_graph import MessageGraph, inverse_relation
from powerlink.kernels.keyed_random import keyed_uniform, keys_of
from powerlink.models.protocol import Embeddings, Queries, Retrainable
from powerlink.settings import check_settings, setting

BETAS, EPS = (0.9, 0.999), 1e-8  # of Adam, torch's own
NUMBERS_AT_ONCE = 2**24, 2**28  # that a CPU, a GPU holds of a fit's logits and vectors: 128 MiB and 2 GiB


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How a stand-in is fitted."""

    steps: int = setting(100, "steps of Adam that fit a stand-in", least=1)
    rate: float = setting(0.1, "Adam's first rate, in standard deviations of the entities' numbers; it falls in a line")
    drawn: int = setting(
        512, "wrong answers that a stand-in is held against, drawn once for all; 0: every entity", least=0
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def __str__(self) -> str:
        against = f"{self.drawn:,} drawn wrong answers" if self.drawn else "all wrong answers"
        return f"{self.steps} steps of Adam at {self.rate:g}, {against}"


@dataclass(frozen=True, eq=False)
class FactsOf:
    """The facts of some stand-ins, as edges that lead into them."""

    owner: Tensor  # (n,) which stand-in
    relation: Tensor  # (n,) of the edge
    other: Tensor  # (n,) the entity it comes from
    there: Tensor  # (n,) bool: fitted on; else a wrong answer


# An entity, how it is fitted, and the facts that are behind: 0 on all but these, 1 on only these, −1 − g on all its own
# and these of g's
Key = tuple[int, ...]


class StandIns:
    """Fits stand-ins of a model's entities; one that was fitted is kept."""

    def __init__(self, model: Retrainable, messages: MessageGraph, fit: Fit | None = None) -> None:
        self._model, self._messages, self._fit = model, messages, fit or Fit()
        self._kept: dict[Key, Tensor] = {}

    @cached_property
    def own(self) -> Tensor:
        """The entities' own numbers: (N, k) float64."""
        return self._model.rows().detach().double()

    @cached_property
    def _setting(self) -> Setting:
        return Setting.of(self._model, self._messages, self.own, self._fit)

    @torch.no_grad()
    def rows(self, entity: Tensor, named: Tensor, *, only: bool = False) -> Tensor:
        """Return what entities' numbers (n,) would be without the facts `named`, or with `only` these: (n, k) float64.

        `named` (n, w) are rows of training facts, padded with −1; facts of others change nothing.
        """
        own, named = self.own[entity], self._own_facts(entity, named)
        changed = (
            torch.arange(entity.numel(), device=entity.device) if only else (named >= 0).any(1).nonzero().squeeze(1)
        )
        if not changed.numel():
            return own
        keys = [
            (who, int(only), *(fact for fact in facts if fact >= 0))
            for who, facts in zip(entity[changed].tolist(), named[changed].tolist(), strict=True)
        ]
        return own.index_add(0, changed, self._changes(keys))

    @torch.no_grad()
    def rows_given(self, entity: Tensor, giver: Tensor, facts: Tensor) -> Tensor:
        """Return what entities' numbers (n,) would be if facts of givers (n,) were theirs, too: (n, k) float64.

        `facts` (n, w) are rows of training facts, padded with −1.
        """
        own, facts = self.own[entity], self._own_facts(giver, facts)
        changed = (facts >= 0).any(1).nonzero().squeeze(1)
        if not changed.numel():
            return own
        columns = (entity[changed].tolist(), giver[changed].tolist(), facts[changed].tolist())
        keys = [(who, -1 - whose, *(f for f in some if f >= 0)) for who, whose, some in zip(*columns, strict=True)]
        return own.index_add(0, changed, self._changes(keys))

    def _changes(self, keys: list[Key]) -> Tensor:
        """Return how fits differ from those on all of their entities' facts: (n, k)."""
        wanted = dict.fromkeys([*keys, *((key[0], 0) for key in keys)])
        for part, rows in self._fitted([key for key in wanted if key not in self._kept]):
            self._kept.update(zip(part, rows.unbind(0), strict=True))
        return torch.stack([self._kept[key] - self._kept[key[0], 0] for key in keys])

    def _own_facts(self, entity: Tensor, named: Tensor) -> Tensor:
        """Leave of the facts named (n, w) those of the entity (n,), ascending, padding first: (n, w)."""
        if not named.size(1):
            return named
        messages, place = self._messages, named.clamp(min=0)
        edge = self._edge_of_fact[place]
        own = (messages.source[edge] == entity.unsqueeze(1)) | (messages.target[edge] == entity.unsqueeze(1))
        return torch.where(own & (named >= 0), named, -1).sort(dim=1).values

    @cached_property
    def _edge_of_fact(self) -> Tensor:
        """One edge of each training fact."""
        fact = self._messages.fact
        return torch.zeros_like(fact[: fact.numel() // 2]).index_copy(
            0, fact, torch.arange(fact.numel(), device=fact.device)
        )

    def _fitted(self, keys: list[Key]) -> Iterator[tuple[list[Key], Tensor]]:
        """Fit stand-ins, in runs that fit into the memory."""
        row, numbers = self._messages.row, NUMBERS_AT_ONCE[self._messages.device.type == "cuda"]
        each = 2 * self.own.size(1) + self._setting.drawn.numel()  # of a fact, at most
        first, held = 0, 0
        for place, key in enumerate(keys):
            size = int(row[key[0] + 1] - row[key[0]]) * each
            if place > first and held + size > numbers:
                yield keys[first:place], self._fit_run(keys[first:place])
                first, held = place, 0
            held += size
        if keys[first:]:
            yield keys[first:], self._fit_run(keys[first:])

    def _fit_run(self, keys: list[Key]) -> Tensor:
        messages, device = self._messages, self._messages.device
        entity = torch.tensor([key[0] for key in keys], device=device)
        owner, edge = expand_rows(messages.row, entity)
        facts = messages.num_edges  # more than there are
        own = [i * facts + fact for i, key in enumerate(keys) if key[1] >= 0 for fact in key[2:]]
        named = torch.tensor(own, dtype=torch.long, device=device)
        only = torch.tensor([key[1] == 1 for key in keys], device=device)
        there = torch.isin(owner * facts + messages.fact[edge], named) == only[owner]
        of = FactsOf(owner, messages.relation[edge], messages.source[edge], there)
        return fit_rows(self._model, self._setting, entity, self._with_given(of, keys), self._fit)

    def _with_given(self, facts: FactsOf, keys: list[Key]) -> FactsOf:
        """Add the facts that stand-ins are given of others'."""
        gifts = [(i, -1 - key[1], fact) for i, key in enumerate(keys) if key[1] < 0 for fact in key[2:]]
        if not gifts:
            return facts
        messages = self._messages
        owner, giver, fact = torch.tensor(gifts, device=facts.owner.device).unbind(1)
        edge = self._edge_of_fact[fact]
        edge = torch.where(messages.target[edge] == giver, edge, messages.reverse[edge])  # the one that leads into it
        columns = (facts.owner, owner), (facts.relation, messages.relation[edge]), (facts.other, messages.source[edge])
        of, relation, other = (torch.cat(both) for both in columns)
        there = torch.cat([facts.there, torch.ones_like(owner, dtype=torch.bool)])
        fresh = ~_repeated(of, relation, other)  # perhaps it has the fact already
        return FactsOf(of[fresh], relation[fresh], other[fresh], there[fresh])


def _repeated(*columns: Tensor) -> Tensor:
    """Tell which rows of columns (n,) stand there before: bool."""
    number = torch.stack(columns, dim=1).unique(dim=0, return_inverse=True)[1]
    place = torch.arange(number.numel(), device=number.device)
    first = torch.full_like(number, number.numel()).scatter_reduce(0, number, place, "amin")
    return first[number] != place


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
    def of(cls, model: Retrainable, messages: MessageGraph, own: Tensor, fit: Fit) -> Setting:
        """Draw what all stand-ins of a model are held against."""
        count, kinds = messages.num_nodes, 2 * messages.num_relations
        pairs = (messages.source * kinds + messages.relation).unique()
        everyone = torch.arange(count, device=messages.device)
        spread = float(own.std())
        drawn, some = _drawn(everyone, fit.drawn), _drawn(pairs, fit.drawn)
        return cls(model.stood_in(own), own.mean(0), spread, drawn, some, pairs.numel())


def _drawn(keys: Tensor, most: int) -> Tensor:
    """Draw some of the keys, (·,) ascending; all of them where there are not more, or `most` is 0."""
    if not 0 < most < keys.numel():
        return keys
    lots = keyed_uniform(keys_of(0, keys), 1).squeeze(1)
    return keys[lots.argsort(stable=True)[:most]].sort().values


def fit_rows(model: Retrainable, against: Setting, entity: Tensor, facts: FactsOf, fit: Fit) -> Tensor:
    """Fit rows that stand in for entities (S,): (S, k). No row's fit depends on another's."""
    loss = loss_of(model, against, entity, facts)
    rows = against.start.expand(entity.numel(), -1).clone()
    first, second = torch.zeros_like(rows), torch.zeros_like(rows)
    for step in range(fit.steps):
        rows.requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(loss(rows), rows)
        rows = rows.detach()
        first.lerp_(slope, 1 - BETAS[0])
        second.mul_(BETAS[1]).addcmul_(slope, slope, value=1 - BETAS[1])
        rate = fit.rate * against.spread * (1 - step / fit.steps)
        size = (second / (1 - BETAS[1] ** (step + 1))).sqrt_().add_(EPS)
        rows = model.constrained(rows.addcdiv(first, size, value=-rate / (1 - BETAS[0] ** (step + 1))))
    return rows


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
