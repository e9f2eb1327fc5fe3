"""SubgraphX against brute force: Shapley values over all orders, games on rebuilt graphs, and planted reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations
from random import Random as Chance

import networkx as nx
import pytest
import torch
from torch import Tensor

from builders import edges_without, knowledge_graph, model_of, random_rows, removal, triple_tensor
from powerlink.errors import SettingsError
from powerlink.explainers.protocol import SMALLEST_SCORE, Wish
from powerlink.explainers.subsets.game import Game, Worth, games_of, members
from powerlink.explainers.subsets.shapley import Shapley, groups_before, in_lock_step, orders_of
from powerlink.explainers.subsets.subgraphx import SubgraphX
from powerlink.explainers.subsets.tree_search import Subgraph, TreeSearch, best_of
from powerlink.graphs.edges import Edges
from powerlink.kg.planted import plant, true_paths
from powerlink.memory import Room
from powerlink.models.rule_model import RuleModel
from powerlink.models.session import Session
from powerlink.pipeline import ExplainSettings, computation_graph, explain_batch
from powerlink.questions import Questions
from powerlink.run.explain_many import explain_many
from powerlink.run.remake import with_paper_figures
from powerlink.settings import check_settings
from powerlink.verify.oracle import Removal

N, R = 14, 3
ROWS = random_rows(4, N, R, 55)
QUERIES = [(0, 0, 1), ROWS[3], (2, 4, 6), (5, 1, 7)]
BY_MASK = ExplainSettings(select="mask", core=0)
QUICK = {"budget": 8, "rollouts": 4, "samples": 8}
KINDS = ["facts", "nodes"]


@pytest.fixture(scope="module")
def session() -> Session:
    return Session.of(knowledge_graph(ROWS, N, R), model_of("compgcn", "distmult", 2, N, R))


def value_over_all_orders(coalition: int, everyone: int, worth: Callable[[int], float]) -> float:
    """What a coalition adds in every order of itself and the others, one by one: the definition."""
    players = [coalition, *(1 << player for player in members(everyone & ~coalition))]
    added = []
    for order in permutations(players):
        before = sum(order[: order.index(coalition)])
        added.append(worth(before | coalition) - worth(before))
    return sum(added) / len(added)


def drawn_worth(players: int, seed: int) -> Callable[[int], float]:
    """A worth of its own for every coalition."""
    chance = Chance(seed)
    table = [chance.uniform(-1, 1) for _ in range(1 << players)]
    return table.__getitem__


def told(talk, worth):
    return in_lock_step([talk], lambda asked: {i: [worth(c) for c in asked[i]] for i in asked})[0]


@pytest.mark.parametrize(("players", "coalition"), [(1, 1), (2, 2), (6, 0b000100), (7, 0b1010001), (4, 0b1111)])
def test_where_all_groups_are_asked_about_the_value_is_that_over_all_orders(players, coalition):
    everyone, worth = (1 << players) - 1, drawn_worth(players, players)
    (orders,) = orders_of(0, triple_tensor([(0, 0, 1)]), 64)
    (found,) = told(Shapley(everyone, orders).of([coalition]), worth)
    assert found == pytest.approx(value_over_all_orders(coalition, everyone, worth), abs=1e-12)


@pytest.mark.parametrize(("samples", "coalition"), [(1, 0b0000001), (6, 0b0000001), (6, 0b0011000)])
def test_where_groups_are_drawn_the_value_is_right_on_average(samples, coalition):
    everyone, worth, times = 0b1111111, drawn_worth(7, 1), 4000
    queries = torch.stack([torch.arange(times), torch.zeros(times).long(), torch.arange(times) % 7], dim=1)
    found = torch.tensor(
        [told(Shapley(everyone, orders).of([coalition]), worth)[0] for orders in orders_of(3, queries, samples)]
    ).double()
    error = found.std() / times**0.5
    assert 0 < error < 0.02
    assert abs(found.mean() - value_over_all_orders(coalition, everyone, worth)) < 4 * error  # one in 16,000 by chance


def test_the_weights_of_groups_add_up_to_one_and_more_samples_come_closer():
    everyone, worth = (1 << 9) - 1, drawn_worth(9, 2)
    exact = told(Shapley(everyone, [0] * 256).of([1]), worth)[0]
    queries = torch.stack([torch.arange(300), torch.zeros(300).long(), torch.arange(300)], dim=1)
    spread = []
    for samples in (4, 16, 64):
        orders = orders_of(0, queries, samples)
        for order in orders[:20]:
            groups = groups_before(1, everyone, order)
            assert sum(weight for weight, _ in groups) == pytest.approx(1)
            assert not any(group & 1 for _, group in groups)
        found = torch.tensor([told(Shapley(everyone, order).of([1]), worth)[0] for order in orders])
        spread.append((found - exact).square().mean().sqrt().item())
    assert spread[0] > 1.5 * spread[1] > 2 * spread[2]


def test_orders_depend_on_the_seed_and_the_query_alone():
    queries = triple_tensor([(0, 0, 1), (3, 1, 2), (5, 2, 4)])
    together = orders_of(7, queries, 8)
    assert [orders_of(7, queries[i : i + 1], 8)[0] for i in range(3)] == together
    assert orders_of(7, queries.flip(0), 8) == together[::-1]
    assert orders_of(8, queries, 8)[0] != together[0] != together[1]


def games(session: Session, players: str, budget: int = 8) -> tuple[Removal, list[Game]]:
    graph = computation_graph(session, triple_tensor(QUERIES), BY_MASK)
    oracle = removal(session.model, graph)
    return oracle, games_of(oracle, graph, Wish.of(BY_MASK), players, budget)


@pytest.mark.parametrize("rest", ["stays", "goes"])
@pytest.mark.parametrize("players", KINDS)
def test_what_a_coalition_is_worth_is_what_a_rebuilt_graph_says(session, players, rest):
    oracle, played = games(session, players)
    graph = oracle.graph
    asked = {q: [0, game.everyone, *range(3, game.everyone, 37)] for q, game in enumerate(played)}
    found = Worth.of(oracle, played, rest)(asked)
    in_little_room = Worth.of(removal(session.model, graph, Room(edges=1, logits=1)), played, rest)(asked)
    for q, game in enumerate(played):
        assert 4 < len(game.at) <= 8
        assert in_little_room[q] == pytest.approx(found[q], abs=1e-8)
        for coalition, worth in zip(asked[q], found[q], strict=True):
            there = {f for f, need in zip(game.facts, game.needs, strict=True) if all(coalition >> p & 1 for p in need)}
            if rest == "goes":
                gone = [e for e in range(graph.num_edges) if not {e, int(graph.reverse[e])} & there]
            else:
                gone = [e for f in game.facts if f not in there for e in (f, int(graph.reverse[f]))]
            score = session.model.score(session.model.encode(edges_without(graph, gone)), graph.triples[q : q + 1])
            assert worth == pytest.approx(score.item(), abs=1e-8)


def is_attached(game: Game, graph: Edges, coalition: int) -> bool:
    """Whether each of a coalition's players is connected, over its facts, with head or tail."""
    drawn = nx.Graph()
    drawn.add_nodes_from(game.ends)
    for fact, need in zip(game.facts, game.needs, strict=True):
        if all(coalition >> player & 1 for player in need):
            drawn.add_edge(int(graph.source[fact]), int(graph.target[fact]))
    reached = set().union(*(nx.node_connected_component(drawn, end) for end in game.ends))
    return all(set(game.at[player]) <= reached for player in members(coalition))


@pytest.mark.parametrize("players", KINDS)
def test_all_that_a_search_sees_hangs_on_head_or_tail_which_nobody_prunes(session, players):
    oracle, played = games(session, players)
    search = TreeSearch(rollouts=6, children=4, c_puct=10.0, least=2)
    orders = orders_of(0, oracle.graph.queries, 4)
    growing = [search.grow(game, Shapley(game.everyone, order)) for game, order in zip(played, orders, strict=True)]
    trees = in_lock_step(growing, Worth.of(oracle, played, "stays"))
    for game, tree in zip(played, trees, strict=True):
        assert len(tree) > 10
        assert all(coalition and is_attached(game, oracle.graph, coalition) for coalition in tree)
        assert tree[game.attached(game.everyone)].visits == 6
        if players == "nodes":
            assert not game.ends & {node for at in game.at for node in at}


def test_no_coalition_of_a_query_is_asked_about_twice(session):
    oracle, played = games(session, "facts")
    worth, asked = Worth.of(oracle, played, "stays"), []

    def ask(coalitions: Mapping[int, list[int]]) -> Mapping[int, list[float]]:
        asked.extend((q, coalition) for q in coalitions for coalition in coalitions[q])
        rounds.append(len(coalitions))
        return worth(coalitions)

    rounds: list[int] = []
    search = TreeSearch(rollouts=8, children=4, c_puct=10.0, least=2)
    orders = orders_of(0, oracle.graph.queries, 4)
    in_lock_step([search.grow(g, Shapley(g.everyone, o)) for g, o in zip(played, orders, strict=True)], ask)
    assert len(asked) == len(set(asked)) > 100
    assert rounds[0] == len(QUERIES), "all queries ask together"


def test_a_player_of_low_degree_is_tried_first_and_what_hung_on_it_goes_with_it():
    #  0 –a– 1 –b– 2 –c– 3, and 0 –d– 3: head is 0 and tail is 3; 2 –e– 4 is a loose end
    joins = [(0, 1), (1, 2), (2, 3), (0, 3), (2, 4)]
    by_fact = Game([10, 11, 12, 13, 14], joins, [(p,) for p in range(5)], joins, frozenset({0, 3}))
    # facts touch 4, 5, 5, 4 and 4 by their nodes' degrees: of equals, the weakest first
    assert by_fact.without_one(0b11111, 5) == [0b01111, 0b10111, 0b11110, 0b11011, 0b11101]
    assert by_fact.without_one(0b11111, 2) == [0b01111, 0b10111]
    assert by_fact.attached(0b10011) == 0b10011
    assert by_fact.attached(0b10010) == 0, "1, 2 and 4 hang together, and on nothing"
    assert by_fact.without_one(0b00001, 5) == []
    assert by_fact.facts_of(0b11001) == [10, 13]
    nodes = [(0,), (0, 1), (1,), (), (1, 2)]  # 1, 2 and 4 are the players
    by_node = Game([10, 11, 12, 13, 14], joins, nodes, [(1,), (2,), (4,)], frozenset({0, 3}))
    assert by_node.without_one(0b111, 3) == [0b011, 0b110, 0b001], "without 2, 4 is gone as well"
    assert by_node.facts_of(0b001) == [10, 13]


def test_the_search_finds_the_subgraph_with_the_greatest_reward():
    joins = [(0, 1), (1, 9), (0, 2), (2, 9), (0, 3), (3, 4)]
    game = Game(list(range(6)), joins, [(p,) for p in range(6)], joins, frozenset({0, 9}))
    gain = [0.1, -0.2, 0.5, 0.4, -0.3, 0.9]
    search = TreeSearch(rollouts=80, children=6, c_puct=10.0, least=1)
    tree = told(
        search.grow(game, Shapley(63, orders_of(0, triple_tensor([(0, 0, 9)]), 4)[0])),
        lambda coalition: sum(gain[player] for player in members(coalition)),
    )
    reward = {c: sum(gain[p] for p in members(c)) for c in range(1, 64) if game.attached(c) == c}
    assert {c: s.reward for c, s in tree.items()} == pytest.approx({c: reward[c] for c in tree})
    for most in (1, 2, 3, 4, 6):
        best = max((c for c in reward if c.bit_count() <= most), key=reward.__getitem__)
        assert best_of(tree, most) == best
    assert best_of({}, 3) == 0


def test_a_rollout_goes_by_mean_and_reward_until_visits_pull_it_elsewhere():
    seen = Subgraph(0b1, reward=0.5, visits=3, total=6.0)
    assert seen.promise(8.0) == pytest.approx(6.0 / 3 + 8.0 * 0.5 / (1 + 3))
    assert Subgraph(0b1, reward=0.5).promise(8.0) == pytest.approx(8.0 * 0.5)
    joins = [(0, 9)] * 4  # four parallel facts, worth 4, 3, 2 and 1, are pruned to one
    game = Game(list(range(4)), joins, [(p,) for p in range(4)], joins, frozenset({0, 9}))
    orders, grown = orders_of(0, triple_tensor([(0, 0, 9)]), 4)[0], {}
    for rollouts, c_puct in ((1, 0.0), (2, 0.0), (2, 5.0)):
        search = TreeSearch(rollouts=rollouts, children=4, c_puct=c_puct, least=1)
        tree = told(search.grow(game, Shapley(15, orders)), lambda c: sum(4 - player for player in members(c)))
        grown[rollouts, c_puct] = {coalition for coalition, subgraph in tree.items() if subgraph.visits}
    assert grown[1, 0.0] == {0b1111, 0b0111, 0b0011, 0b0001}, "the first time, the greatest reward"
    assert grown[2, 0.0] == grown[1, 0.0], "without exploration, where it went well"
    # means and rewards of its siblings: 4 + 5·√1·9/2 for the one that was visited, 5·√1·8/1 for the next
    assert 0b1011 in grown[2, 5.0]


def test_what_a_batch_or_its_order_may_change_of_a_number_decides_nothing():
    class Unsteady:
        def now(self) -> Tensor:
            return torch.tensor([100.0], dtype=torch.float64)

        def without(self, question: Tensor, facts: Tensor) -> Tensor:
            return 3.5 + 1e-11 * torch.arange(question.numel()).double()

    game = Game([4, 6], [(0, 1), (1, 2)], [(0,), (1,)], [(0, 1), (1, 2)], frozenset({0, 2}))
    (found,) = Worth.of(Unsteady(), [game], "stays")({0: [0, 1, 2, 3]}).values()
    assert len(set(found)) == 1
    assert found[0] == pytest.approx(3.5)


@pytest.mark.parametrize("rest", ["stays", "goes"])
@pytest.mark.parametrize("players", KINDS)
def test_a_batch_is_told_as_its_queries_one_by_one_and_again(session, players, rest):
    explainer = SubgraphX(players=players, rest=rest, **QUICK)
    ask = {"explainer": explainer, "settings": BY_MASK, "seed": 3}
    together = explain_batch(session, triple_tensor(QUERIES), **ask)
    alone = [explain_batch(session, triple_tensor([query]), **ask)[0] for query in QUERIES]
    for one, other, again in zip(together, alone, explain_batch(session, triple_tensor(QUERIES), **ask), strict=True):
        assert one == again
        assert [piece.facts for piece in one.evidence] == [piece.facts for piece in again.evidence]
        assert [[(f.head, f.relation, f.tail) for f in piece.facts] for piece in one.evidence] == [
            [(f.head, f.relation, f.tail) for f in piece.facts] for piece in other.evidence
        ]
    assert any(one.evidence for one in together)


@pytest.mark.parametrize("players", KINDS)
def test_paths_come_before_the_set_they_run_in_and_the_mask_says_who_is_inside(session, players):
    graph = computation_graph(session, triple_tensor(QUERIES), BY_MASK)
    proposal = SubgraphX(players=players, **QUICK).propose(removal(session.model, graph), graph, Wish.of(BY_MASK), 0)
    evidence, mask = proposal.evidence, proposal.mask
    sets = 0
    for q in range(graph.num_queries):
        own = (evidence.query == q).nonzero().squeeze(1)
        kinds, costs = evidence.is_path[own].tolist(), evidence.cost[own].tolist()
        assert kinds == sorted(kinds, reverse=True)
        assert costs == sorted(costs)
        named = [{e for e in row if e >= 0} for row in evidence.edges[own].tolist()]
        outside = (mask < 0.5).nonzero().squeeze(1).tolist()
        longest = max((len(edges) for edges, is_path in zip(named, kinds, strict=True) if is_path), default=0)
        for edges, is_path in zip(named, kinds, strict=True):
            assert not edges & set(outside)
            assert is_path or len(edges) > longest
        sets += kinds.count(False)
    assert sets
    torch.testing.assert_close(mask, mask[graph.reverse])
    played = mask > SMALLEST_SCORE
    assert (mask[graph.kept & ~played] == SMALLEST_SCORE).all()
    assert ((mask > 0) == graph.kept).all()


def test_a_large_subgraph_without_a_path_shows_its_strongest_facts_and_says_so():
    rows = [*((0, relation, 2) for relation in range(12)), (1, 0, 3), (2, 0, 4), (4, 1, 2)]
    model = model_of("compgcn", "distmult", 1, 5, 12)
    session = Session.of(knowledge_graph(rows, 5, 12), model)
    explainer = SubgraphX(players="nodes", least=1, most=1, samples=4)
    (said,) = explain_batch(session, triple_tensor([(0, 0, 1)]), explainer=explainer, settings=BY_MASK)
    assert [(piece.kind, len(piece.facts)) for piece in said.evidence] == [("set", 10)]
    assert said.remarks == (
        "no path runs inside the subgraph that was found, and it has 12 facts: its 10 strongest are shown",
    )


def test_a_foil_is_an_end_as_well_and_barred_facts_do_not_play(session):
    questions = Questions(triple_tensor(QUERIES[:2]), torch.tensor([8, -1]), not_through=(3,))
    said = explain_batch(session, questions, explainer=SubgraphX(**QUICK), settings=BY_MASK)
    assert all(one.evidence for one in said)
    assert not any("e3" in (fact.head, fact.tail) for one in said[:1] for piece in one.evidence for fact in piece.facts)


def test_the_papers_figures_are_measured_of_its_mask_also_afterwards(session):
    ask = {"explainer": SubgraphX(**QUICK), "seed": 2}
    at_once = explain_many(session, triple_tensor(QUERIES), settings=replace(BY_MASK, metrics="paper"), **ask)
    before = explain_many(session, triple_tensor(QUERIES), settings=BY_MASK, **ask)
    assert all(one.paper is None for one in before)
    afterwards, refused = with_paper_figures(session, before)
    assert refused == []
    assert [one.paper for one in afterwards] == [one.paper for one in at_once]
    assert all(one.paper is not None and 0 < one.paper.sparsity < 1 for one in at_once)


def test_the_planted_facts_come_first():
    """With default settings it is 96 of 96, on the three graphs of tests/contract/test_known_reasoning.py."""
    hits = []
    settings = ExplainSettings(select="mask", hops=1, max_length=3)
    for seed in (100, 101):
        planted = plant(seed)
        graph = planted.graph
        session = Session.of(graph, RuleModel(planted.rules, graph.num_entities, graph.num_relations))
        queries = torch.from_numpy(graph.test[::4].copy())
        explainer = SubgraphX(rollouts=4, samples=8)
        for query, one in zip(
            queries.tolist(), explain_batch(session, queries, explainer=explainer, settings=settings), strict=True
        ):
            hits.append(bool(one.paths) and planted.steps_of(one.paths[0]) in true_paths(planted, *query))
    assert len(hits) == 16
    assert sum(hits) / len(hits) >= 0.9


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"players": "edges"}, "players must be facts or nodes, not 'edges'"),
        ({"rest": "hides"}, "rest must be stays or goes"),
        ({"budget": 63}, "budget must be at most 62, not 63"),
        ({"samples": 0}, "samples must be at least 1"),
        ({"least": 4, "most": 3}, r"most must not be below least \(4\), and is 3"),
        ({"c_puct": -1.0}, "c_puct must be at least 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong, said):
    with pytest.raises(SettingsError, match=said):
        SubgraphX(**wrong)
    check_settings(SubgraphX())
