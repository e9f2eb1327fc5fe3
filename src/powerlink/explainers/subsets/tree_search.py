"""Monte Carlo tree search for the subgraph with the greatest reward: every step down prunes one player."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from powerlink.explainers.subsets.game import Game, members
from powerlink.explainers.subsets.shapley import Shapley, Talk


@dataclass(eq=False)
class Subgraph:
    """A coalition that the search has seen; its figures are the same however it was reached."""

    coalition: int
    reward: float  # R: its Shapley value
    visits: int = 0  # N
    total: float = 0.0  # W: of the rewards at the ends of the rollouts that came through
    pruned: list[Subgraph] | None = None  # what is left without one more player; None: nobody looked

    @property
    def size(self) -> int:
        return self.coalition.bit_count()

    def promise(self, exploration: float) -> float:
        """Return W / N + `exploration` · R / (1 + N), what a search goes by."""
        mean = self.total / self.visits if self.visits else 0.0
        return mean + exploration * self.reward / (1 + self.visits)


@dataclass(frozen=True, kw_only=True)
class TreeSearch:
    """How a tree is grown: rollouts from the whole to subgraphs of `least` players."""

    rollouts: int
    children: int  # of a subgraph, at most
    c_puct: float
    least: int

    def grow(self, game: Game, shapley: Shapley) -> Talk[dict[int, Subgraph]]:
        """Tell all subgraphs that were seen, by coalition; none where nobody plays."""
        whole = game.attached(game.everyone)
        if not whole:
            return {}
        (reward,) = yield from shapley.of([whole])
        seen = {whole: Subgraph(whole, reward)}
        for _ in range(self.rollouts):
            here = seen[whole]
            way = [here]
            while here.size > self.least:
                if here.pruned is None:
                    left = game.without_one(here.coalition, self.children)
                    fresh = [coalition for coalition in left if coalition not in seen]
                    rewards = yield from shapley.of(fresh)
                    seen |= {c: Subgraph(c, reward) for c, reward in zip(fresh, rewards, strict=True)}
                    here.pruned = [seen[coalition] for coalition in left]
                if not here.pruned:
                    break
                here = self._most_promising(here.pruned)
                way.append(here)
            for passed in way:
                passed.visits += 1
                passed.total += here.reward
        return seen

    def _most_promising(self, children: list[Subgraph]) -> Subgraph:
        """Choose by promise; before anyone was there, by reward. Of equals, the first."""
        exploration = self.c_puct * sqrt(sum(child.visits for child in children))
        return max(children, key=lambda child: (child.promise(exploration), child.reward))


def best_of(seen: dict[int, Subgraph], most: int) -> int:
    """Return the coalition of at most so many players with the greatest reward, the smaller of equals; 0: nobody."""
    small = [subgraph for subgraph in seen.values() if subgraph.size <= most] or list(seen.values())
    best = max(small, key=lambda subgraph: (subgraph.reward, -subgraph.size), default=None)
    return 0 if best is None else best.coalition


def kept_share(seen: dict[int, Subgraph], players: int) -> list[float]:
    """Return, for each player, the share of all visits that were to subgraphs with it: the search held on to it."""
    visits = [0] * players
    for subgraph in seen.values():
        for player in members(subgraph.coalition):
            visits[player] += subgraph.visits
    return [count / max(*visits, 1) for count in visits] if players else []
