"""Stand-ins: an entity's own numbers, fitted again on other facts than it was trained on, all else frozen.

What would the model have learned of this entity without some of its facts? Kelpie (Rossi et al., SIGMOD 2022) lets a
stand-in tell: a new row, fitted on the facts that are left. One that is fitted on all of them tells what the fit itself
changes. From the same start, on the same drawn wrong answers, in the same steps of Adam,

    row without = own row + fit(facts that are left) − fit(all facts)

so that without a removal nothing changes, and what a removal changes is measured from the model as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from powerlink.graphs.edges import expand_rows
from powerlink.graphs.message_graph import MessageGraph
from powerlink.models.protocol import Retrainable
from powerlink.models.stand_in_loss import FactsOf, Setting, loss_of
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
        return Setting.of(self._model, self._messages, self.own, self._fit.drawn)

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
