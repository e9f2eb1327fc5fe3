"""What a coalition adds to what others are worth, on average over who came before it: its Shapley value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from math import comb
from typing import TypeVar

import torch
from torch import Tensor

from powerlink.explainers.subsets.game import MOST_PLAYERS
from powerlink.kernels.keyed_random import keyed_uniform, keys_of

Told = TypeVar("Told")
Talk = Generator[list[int], list[float], Told]  # asks what coalitions are worth, hears it, and tells something at last


def orders_of(seed: int, queries: Tensor, samples: int) -> list[list[int]]:
    """Draw, for each query (Q, 3), groups of players that come before a point of a random order, as coalitions.

    A point is a share of the order, one in each of `samples` equal parts, and a player comes before it with that
    chance. Given its size, every group is then equally likely, and every size is: what a Shapley value averages over.
    """
    numbers = keyed_uniform(keys_of(seed, *queries.unbind(1)), samples * (MOST_PLAYERS + 1)).cpu().double()
    point, player = numbers.view(-1, samples, MOST_PLAYERS + 1).split([1, MOST_PLAYERS], dim=2)
    before = player < (torch.arange(samples).unsqueeze(1) + point) / samples
    drawn: list[list[int]] = (before.long() << torch.arange(MOST_PLAYERS)).sum(2).tolist()
    return drawn


def groups_before(coalition: int, everyone: int, orders: Sequence[int]) -> list[tuple[float, int]]:
    """Return who may come before a coalition that acts as one, with weights that add up to 1.

    Of n others that are all groups, a group of k by 1 / ((n + 1) · (n over k)), where these are no more than were
    drawn; else those that were drawn.
    """
    others = everyone & ~coalition
    size = others.bit_count()
    if 1 << size <= len(orders):
        return [(1 / ((size + 1) * comb(size, group.bit_count())), group) for group in subsets(others)]
    return [(count / len(orders), group) for group, count in Counter(order & others for order in orders).items()]


def subsets(coalition: int) -> Iterator[int]:
    """Walk all groups within a coalition, the whole one first and nobody last."""
    group = coalition
    while group:
        yield group
        group = (group - 1) & coalition
    yield 0


class Shapley:
    """The Shapley values of coalitions of one game, each acting as one player beside all others.

    No group is asked about twice, and all coalitions are held against the same orders: what chance does to one it does
    to the other.
    """

    def __init__(self, everyone: int, orders: Sequence[int]) -> None:
        self._everyone, self._orders = everyone, orders
        self._worth: dict[int, float] = {}

    def of(self, coalitions: Iterable[int]) -> Talk[list[float]]:
        """Tell the values of coalitions, in their order."""
        before = {coalition: groups_before(coalition, self._everyone, self._orders) for coalition in coalitions}
        needed = dict.fromkeys(
            group | joined for coalition, groups in before.items() for _, group in groups for joined in (0, coalition)
        )
        unknown = [group for group in needed if group not in self._worth]
        if unknown:
            self._worth.update(zip(unknown, (yield unknown), strict=True))
        return [
            sum(weight * (self._worth[group | coalition] - self._worth[group]) for weight, group in groups)
            for coalition, groups in before.items()
        ]


def in_lock_step(
    talks: Sequence[Talk[Told]], ask: Callable[[Mapping[int, list[int]]], Mapping[int, list[float]]]
) -> list[Told]:
    """Let talks go on together, and return what they tell: what all of them ask in a round is asked at once."""
    told: dict[int, Told] = {}
    heard: Mapping[int, list[float]] = {}
    asking: list[int] = list(range(len(talks)))
    while asking:
        asked: dict[int, list[int]] = {}
        for i in asking:
            try:
                asked[i] = talks[i].send(heard[i]) if i in heard else next(talks[i])
            except StopIteration as end:
                told[i] = end.value
        asking = list(asked)
        heard = ask(asked) if asked else {}
    return [told[i] for i in range(len(talks))]
