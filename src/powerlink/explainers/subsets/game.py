"""A query's game: a few of its facts, or of its nodes, are players, and the model says what any coalition is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from powerlink.evidence import fact_of
from powerlink.explainers.protocol import Oracle, Wish
from powerlink.explainers.slopes import FLOOR, fact_slopes, share_of_largest
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.edges import row_pointer
from powerlink.paths.propose import propose

Players = Literal["facts", "nodes"]
Rest = Literal["stays", "goes"]

MOST_PLAYERS = 62  # a coalition is a whole number of so many bits
ROUNDING = 64  # in units of the last place of a number: what a batch and its order may change
LEAST_STEP = 1e-9  # of the number's size; finer differences decide nothing


@dataclass(frozen=True, eq=False)
class Game:
    """Players are bits, the strongest first, and a coalition is a number. A fact is there if all that it needs are.

    Head, tail and foil are no players: nothing removes them.
    """

    facts: Sequence[int]  # an edge of the computation graph for each fact
    joins: Sequence[tuple[int, int]]  # the two nodes of each fact
    needs: Sequence[tuple[int, ...]]  # the players of each fact, two at most
    at: Sequence[tuple[int, ...]]  # the nodes of each player: a fact's two, or the node that it is
    ends: frozenset[int]

    @property
    def everyone(self) -> int:
        """The coalition of all players."""
        return (1 << len(self.at)) - 1

    @cached_property
    def _bonds(self) -> list[tuple[int, int, int, int]]:
        """What is needed for two nodes to be joined, the nodes, and by how many facts, parallel ones together."""
        found: dict[tuple[int, int, int], int] = {}
        for needs, joins in zip(self.needs, self.joins, strict=True):
            key = (sum(1 << player for player in needs), *joins)
            found[key] = found.get(key, 0) + 1
        return [(*key, count) for key, count in found.items()]

    def attached(self, coalition: int) -> int:
        """Return those of a coalition that facts of its own still connect with an end."""
        reached, found = set(self.ends), 0
        apart = [(need, one, other) for need, one, other, _ in self._bonds if not need & ~coalition]
        while True:
            left = []
            for need, one, other in apart:
                if one in reached or other in reached:
                    reached |= {one, other}
                    found |= need
                else:
                    left.append((need, one, other))
            if len(left) == len(apart):
                return found
            apart = left

    def without_one(self, coalition: int, most: int) -> list[int]:
        """Return what stays attached when one player is pruned, for at most so many players, and never nothing.

        Players of a low degree come first: a node's is how many of the coalition's facts it has, a fact's is how many
        its two nodes have. Of equals, the weakest one comes first.
        """
        degree: dict[int, int] = {}
        for need, *joins, count in self._bonds:
            if not need & ~coalition:
                for node in joins:
                    degree[node] = degree.get(node, 0) + count
        loosest = sorted(
            members(coalition), key=lambda player: (sum(degree.get(node, 0) for node in self.at[player]), -player)
        )
        left = (self.attached(coalition & ~(1 << player)) for player in loosest[:most])
        return list(dict.fromkeys(coalition for coalition in left if coalition))

    def there(self, coalitions: Sequence[int]) -> Tensor:
        """Tell which facts have all their players in each coalition (S): (S, facts) bool."""
        bits = (torch.tensor(coalitions).unsqueeze(1) >> torch.arange(len(self.at) + 1)) % 2 == 1
        bits[:, -1] = True  # what is needed where a fact needs fewer than two
        return bits[:, self._needed].all(2)

    @cached_property
    def _needed(self) -> Tensor:
        nobody = len(self.at)
        rows = [(*needs, nobody, nobody)[:2] for needs in self.needs]
        return torch.tensor(rows, dtype=torch.long).reshape(-1, 2)

    def facts_of(self, coalition: int) -> list[int]:
        """Return the facts of a coalition that connect with an end."""
        here = self.attached(coalition)
        return [fact for fact, there in zip(self.facts, self.there([here])[0].tolist(), strict=True) if there]

    def among(self, facts: Sequence[int]) -> Game:
        """Return the game that some of the facts play by themselves."""
        place = {fact: i for i, fact in enumerate(self.facts)}
        joins = [self.joins[place[fact]] for fact in facts]
        return Game(facts, joins, [(player,) for player in range(len(facts))], joins, self.ends)


def members(coalition: int) -> Iterator[int]:
    """Walk the players of a coalition, ascending."""
    while coalition:
        yield (coalition & -coalition).bit_length() - 1
        coalition &= coalition - 1


def games_of(oracle: Oracle, graph: ComputationGraph, wish: Wish, players: Players, budget: int) -> list[Game]:
    """Let the `budget` strongest facts of each query play, or the strongest nodes with the facts among them.

    Those on the best paths under the slopes are strongest, the best path's first; behind them come those of the
    steepest slopes. Facts that the model cannot see, or that were pruned, do not play.
    """
    fact, place = _strongest_first(oracle, graph, wish)
    source, target, is_end = graph.source[fact], graph.target[fact], torch.zeros_like(graph.entity, dtype=torch.bool)
    is_end[graph.ends] = True
    number = torch.full_like(graph.entity, -1)  # of each node among its query's players
    if players == "facts":
        inside = place < budget
    else:
        node, first = torch.cat([source, target]), torch.cat([place, place])
        first = torch.full_like(graph.entity, fact.numel()).scatter_reduce(0, node, first, "amin")
        node = node.unique()
        node = node[~is_end[node]]
        node = node[first[node].argsort(stable=True)]
        node = node[graph.query_of_node[node].argsort(stable=True)]
        rank = _place_in_query(graph.query_of_node[node], graph.num_queries)
        number[node[rank < budget]] = rank[rank < budget]
        inside = ((number[source] >= 0) | is_end[source]) & ((number[target] >= 0) | is_end[target])
    columns = torch.stack([graph.query_of_edge[fact], fact, source, target, number[source], number[target]], dim=1)
    rows: list[list[list[int]]] = [[] for _ in range(graph.num_queries)]
    for query, *row in columns[inside].tolist():
        rows[query].append(row)
    return [_game(rows[q], ends, players) for q, ends in enumerate(graph.ends.tolist())]


def _game(rows: list[list[int]], ends: list[int], players: Players) -> Game:
    """Set a game up from rows of a fact's edge, its nodes, and their places among the players, or −1."""
    facts, joins = [row[0] for row in rows], [(row[1], row[2]) for row in rows]
    if players == "facts":
        return Game(facts, joins, [(player,) for player in range(len(facts))], joins, frozenset(ends))
    place = {node: player for _, *nodes, one, other in rows for node, player in zip(nodes, (one, other), strict=True)}
    at = sorted((node for node in place if place[node] >= 0), key=place.__getitem__)
    number = {node: player for player, node in enumerate(at)}
    needs = [tuple({number[node]: None for node in both if node in number}) for both in joins]
    return Game(facts, joins, needs, [(node,) for node in at], frozenset(ends))


def _strongest_first(oracle: Oracle, graph: ComputationGraph, wish: Wish) -> tuple[Tensor, Tensor]:
    """Return the facts that may play, one edge for each, by query and strength, and their places in it: (n,) each."""
    everything = torch.arange(graph.num_edges, device=graph.device)
    kept = graph.kept & graph.kept[graph.reverse]
    slopes = fact_slopes(oracle.model, graph, points=2)
    shares = share_of_largest(slopes, graph, FLOOR)
    lengths = {"min_length": wish.min_length, "max_length": wish.max_length}
    paths = propose(graph.pruned_to(kept), shares, cost="log", count=wish.count, at_once=wish.at_once, **lengths)
    path, hop = (paths.edges >= 0).nonzero(as_tuple=True)
    first = torch.full_like(everything, paths.count)
    first.scatter_reduce_(0, fact_of(graph, paths.edges[path, hop]), path, "amin")
    fact = (kept & oracle.sees(everything) & (everything <= graph.reverse)).nonzero().squeeze(1)
    fact = fact[slopes[fact].argsort(descending=True, stable=True)]
    fact = fact[first[fact].argsort(stable=True)]
    fact = fact[graph.query_of_edge[fact].argsort(stable=True)]
    return fact, _place_in_query(graph.query_of_edge[fact], graph.num_queries)


def _place_in_query(query: Tensor, num_queries: int) -> Tensor:
    """Count from 0 within each query of a sorted column (n,): (n,)."""
    return torch.arange(query.numel(), device=query.device) - row_pointer(query, num_queries)[query]


@dataclass(frozen=True, eq=False)
class Worth:
    """What the model says where of some queries' players only a coalition is there: all queries' are asked at once.

    The rest of the computation graph stays as it is, or goes.
    """

    oracle: Oracle
    games: Sequence[Game]  # of each query
    rest: Rest
    step: Tensor  # (Q,) numbers are rounded to it, so that neither batch nor order decides between equals

    @classmethod
    def of(cls, oracle: Oracle, games: Sequence[Game], rest: Rest) -> Worth:
        """Ask an oracle, and round as its numbers allow."""
        now = oracle.now()
        step = max(ROUNDING * torch.finfo(now.dtype).eps, LEAST_STEP) * now.abs().clamp(min=1.0)
        return cls(oracle, games, rest, step.double())

    def __call__(self, coalitions: Mapping[int, Sequence[int]]) -> dict[int, list[float]]:
        """Return what each coalition of each query is worth."""
        most = max(len(self.games[query].facts) for query in coalitions)
        rows = [self._facts(self.games[query], asked, most) for query, asked in coalitions.items()]
        counts = [len(asked) for asked in coalitions.values()]
        device = self.step.device
        query = torch.tensor(list(coalitions)).repeat_interleave(torch.tensor(counts)).to(device)
        ask = self.oracle.with_only if self.rest == "goes" else self.oracle.without
        step = self.step[query]
        worth = ((ask(query, torch.cat(rows).to(device)).double() / step).round() * step).nan_to_num()
        return dict(zip(coalitions, (part.tolist() for part in worth.split(counts)), strict=True))

    def _facts(self, game: Game, coalitions: Sequence[int], width: int) -> Tensor:
        """Return the facts that are asked about: those there, or those gone, (S, width) padded with −1."""
        there = game.there(coalitions)
        facts = torch.tensor(game.facts).where(there if self.rest == "goes" else ~there, -1)
        return torch.nn.functional.pad(facts, (0, width - facts.size(1)), value=-1)
