"""SubgraphX (Yuan et al., ICML 2021): the connected subgraph with the greatest Shapley value, by tree search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.evidence import EvidenceBatch, pool
from powerlink.explain_settings import MOST_FACTS
from powerlink.explainers.protocol import SMALLEST_SCORE, Oracle, Proposal, Wish
from powerlink.explainers.subsets.game import MOST_PLAYERS, Game, Players, Rest, Worth, games_of
from powerlink.explainers.subsets.shapley import Shapley, in_lock_step, orders_of
from powerlink.explainers.subsets.tree_search import Subgraph, TreeSearch, best_of, kept_share
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.paths.propose import edge_cost, propose
from powerlink.settings import check_settings, setting

OUTSIDE = 0.5  # mask of what the search held on to longest, and left out in the end
TRIMMED = "no path runs inside the subgraph that was found, and it has {} facts: its {} strongest are shown"


@dataclass(frozen=True, kw_only=True)
class SubgraphX:
    """Paths inside the subgraph with the greatest Shapley value, and that subgraph as a set of facts.

    A tree search prunes one player after the other, a fact or a node, and what hangs on it, until few are left. Head
    and tail stay. A subgraph's reward is its Shapley value: what it adds to groups of the other players, on average.

    A tree over thousands of players would see next to nothing of them. So the game is played by the `budget` strongest
    ones, those on the best paths under the slopes before the others; the rest of the graph stays as it is.
    """

    name: str = "subgraphx"  # a field, because the published game is these settings under a name of its own
    proposes: ClassVar[str] = "paths, a set"

    players: Players = setting(
        "facts", "what is pruned: facts, or nodes with all their facts (as published)", among=get_args(Players)
    )
    budget: int = setting(20, "how many of them play: the strongest by slopes", least=1, most=MOST_PLAYERS)
    rest: Rest = setting("stays", "what becomes of all other facts while players are asked about", among=get_args(Rest))
    rollouts: int = setting(20, "how often the search goes from the whole to a small subgraph", least=1)
    children: int = setting(14, "at most so many players are tried at each step down, of low degree first", least=1)
    c_puct: float = setting(10.0, "how much the search explores instead of following the best rewards", least=0)
    samples: int = setting(16, "groups of other players that a Shapley value is a mean over", least=1)
    least: int = setting(3, "players at which a way down ends", least=1)
    most: int = setting(6, "players of the subgraph, at most", least=1)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.most < self.least:
            raise SettingsError(f"most must not be below least ({self.least}), and is {self.most}")

    def propose(self, oracle: Oracle, graph: ComputationGraph, wish: Wish, seed: int) -> Proposal:
        """Search all queries' trees together, a question to the model for all of them in each step."""
        precise = oracle.precisely()
        games = games_of(precise, graph, wish, self.players, self.budget)
        orders = orders_of(seed, graph.queries, self.samples)
        search = TreeSearch(rollouts=self.rollouts, children=self.children, c_puct=self.c_puct, least=self.least)
        growing = [search.grow(game, Shapley(game.everyone, order)) for game, order in zip(games, orders, strict=True)]
        worth = Worth.of(precise, games, self.rest)
        trees = in_lock_step(growing, worth)
        found = [game.facts_of(best_of(tree, self.most)) for game, tree in zip(games, trees, strict=True)]

        # Who stands where in the subgraph: its facts play the same game by themselves.
        inner = [game.among(facts[:MOST_PLAYERS]) for game, facts in zip(games, found, strict=True)]
        alone = [
            Shapley(game.everyone, order).of(1 << player for player in range(len(game.facts)))
            for game, order in zip(inner, orders, strict=True)
        ]
        values = in_lock_step(alone, replace(worth, games=inner))
        mask = _mask(graph, games, trees, found, values)
        evidence, remarks = _evidence(graph, found, mask, wish)
        return Proposal(evidence, mask, remarks)


def _mask(
    graph: ComputationGraph,
    games: Sequence[Game],
    trees: Sequence[dict[int, Subgraph]],
    found: Sequence[Sequence[int]],
    values: Sequence[Sequence[float]],
) -> Tensor:
    """Score the facts found above one half, by their own values, and other players below, by the search's visits.

    Both directions of a fact score alike; what did not play is next to nothing. Returns (num_edges,) float64.
    """
    score: dict[int, float] = {}
    for game, tree, facts, own in zip(games, trees, found, values, strict=True):
        kept = kept_share(tree, len(game.at))
        for fact, needs in zip(game.facts, game.needs, strict=True):
            score[fact] = OUTSIDE * min((kept[player] for player in needs), default=1.0)
        largest = max((value for value in own if value > 0), default=1.0)
        score |= dict.fromkeys(facts, OUTSIDE)
        for fact, value in zip(facts, own, strict=False):  # facts beyond the most players have no value of their own
            score[fact] = OUTSIDE + (1 - OUTSIDE) * max(value, 0.0) / largest
    mask = torch.zeros(graph.num_edges, dtype=torch.float64)
    mask[list(score)] = torch.tensor(list(score.values()), dtype=torch.float64)
    mask = mask.to(graph.device)
    return torch.maximum(mask, mask[graph.reverse]).clamp(min=SMALLEST_SCORE) * graph.kept


def _evidence(
    graph: ComputationGraph, found: Sequence[Sequence[int]], mask: Tensor, wish: Wish
) -> tuple[EvidenceBatch, list[tuple[str, ...]]]:
    """Name the best paths inside each query's subgraph, and behind them the subgraph as a set; also remarks."""
    inside = torch.zeros_like(graph.kept)
    inside[[fact for facts in found for fact in facts]] = True
    how = wish.cost or "log"
    paths = EvidenceBatch.of_paths(
        propose(
            graph.pruned_to(inside | inside[graph.reverse]),
            mask,
            cost=how,
            count=wish.count,
            min_length=wish.min_length,
            max_length=wish.max_length,
            at_once=wish.at_once,
        )
    )
    sets, remarks = _sets(graph, found, mask, paths, wish.count)
    padded = [[*facts, *[-1] * (MOST_FACTS - len(facts))] for facts in sets.values()]
    edges = torch.tensor(padded, dtype=torch.long, device=graph.device).reshape(-1, MOST_FACTS)
    owner = torch.tensor(list(sets), dtype=torch.long, device=graph.device)
    cost = edge_cost(mask, "inverse" if how == "inverse" else "log")
    # a set is no cheaper than the paths before it
    dearest = cost.new_zeros(graph.num_queries).scatter_reduce(0, paths.query, paths.cost, "amax")
    total = torch.where(edges >= 0, cost[edges], 0.0).sum(1)
    named = EvidenceBatch.of_sets(graph, owner, edges, torch.maximum(total, dearest[owner]))
    return pool([paths, named]).evidence, remarks


def _sets(
    graph: ComputationGraph, found: Sequence[Sequence[int]], mask: Tensor, paths: EvidenceBatch, most: int
) -> tuple[dict[int, list[int]], list[tuple[str, ...]]]:
    """Return the facts of each query's set, and a remark where they are not all of its subgraph.

    A set is left out where a path has all its facts, and where it has more facts than evidence may have. Only where
    there is no path to show are the strongest facts of such a large one shown.
    """
    count = torch.bincount(paths.query, minlength=graph.num_queries)
    longest = torch.zeros_like(count).scatter_reduce(0, paths.query, paths.size, "amax")
    sets: dict[int, list[int]] = {}
    remarks: list[tuple[str, ...]] = [()] * graph.num_queries
    for query, (facts, shown, hops) in enumerate(zip(found, count.tolist(), longest.tolist(), strict=True)):
        if len(facts) > MOST_FACTS and not shown:
            strongest = mask[list(facts)].argsort(descending=True, stable=True)[:MOST_FACTS].tolist()
            sets[query] = [facts[place] for place in strongest]
            remarks[query] = (TRIMMED.format(len(facts), MOST_FACTS),)
        elif hops < len(facts) <= MOST_FACTS and shown < most:
            sets[query] = list(facts)
    return sets, remarks
