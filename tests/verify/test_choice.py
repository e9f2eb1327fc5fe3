from __future__ import annotations

import pytest
import torch

from builders import MessageSum, computation_graph, edges_without, evidence_of, model_of, random_rows, removal
from powerlink.evidence import EvidenceBatch, fact_of
from powerlink.paths.propose import propose
from powerlink.paths.search import SearchGraph, best_paths
from powerlink.verify.carried import Carried, measure_carried
from powerlink.verify.choice import (
    DECORATIVE,
    NOISE,
    SLIGHT,
    choose_by_carried,
    choose_by_largest_drop,
    choose_in_order,
    resolution,
    route_of,
)

N, R = 10, 2
QUERIES = [(0, 0, 1), (2, 3, 3), (4, 1, 9), (5, 0, 6), (0, 1, 9)]


def graph_and_paths(seed, queries=QUERIES, count=12, relations=R):
    graph = computation_graph(random_rows(seed, N, relations, 30), N, relations, queries, 2)
    generator = torch.Generator().manual_seed(seed)
    cost = torch.rand(graph.num_edges, generator=generator).clamp(min=0.01).double().reciprocal()
    search = SearchGraph(graph.source, graph.target, graph.num_nodes, graph.head, graph.tail)
    return graph, EvidenceBatch.of_paths(
        best_paths(search, cost, count=count, max_length=3)
    )  # parallel variants and all


def shown(choice):
    return choice.index, choice.witnesses


def fall(model, graph, paths, choice):
    oracle = removal(model, graph)
    gone = choice.edges_of(paths).flatten(1)
    return oracle.now() - oracle.without(torch.arange(graph.num_queries), gone)


def route(graph, path):
    return tuple(graph.target[path].tolist())


def path_of(paths, index):
    return [edge for edge in paths.edges[index].tolist() if edge >= 0]


def score_without(model, graph, query, removed):
    both = {*removed, *graph.reverse[list(removed)].tolist()} if removed else set()
    with torch.no_grad():
        embeddings = model.encode(edges_without(graph, sorted(both)))
        return model.score(embeddings, graph.triples[query : query + 1]).item()


def score_with_only(model, graph, query, edges):
    both = {*edges, *graph.reverse[list(edges)].tolist()}
    return score_without(model, graph, query, set(range(graph.num_edges)) - both)


def naive_choice(model, graph, paths, query, count):
    """Delete and encode again for every candidate of every turn; ties go to what suffices best, then to the first."""
    open_paths = [i for i in range(paths.count) if paths.query[i] == query]
    base = now = score_without(model, graph, query, [])
    chosen, gone = [], set()
    for _ in range(count):
        tried = [(score_without(model, graph, query, gone | set(path_of(paths, i))), i) for i in open_paths]
        if not tried:
            break
        best = min(score for score, _ in tried)
        noise = NOISE * max(abs(now), 1)
        if not best < now - noise:
            break
        rivals = [i for score, i in tried if score <= best + noise]
        support = [score_with_only(model, graph, query, gone | set(path_of(paths, i))) for i in rivals]
        enough = max(support) - NOISE * max(abs(max(support)), 1)
        winner = next(i for i, score in zip(rivals, support, strict=True) if score >= enough)
        chosen.append(winner)
        gone |= set(path_of(paths, winner))
        now = best
        taken = route(graph, path_of(paths, winner))
        open_paths = [i for i in open_paths if route(graph, path_of(paths, i)) != taken]
    return chosen, base - now


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", ["rgcn-transe", "wgcn-conve", "compgcn-distmult"])
def test_the_choice_by_proof_is_that_of_a_naive_greedy_search(name, layers):
    model = model_of(*name.split("-"), layers, N, R)
    for seed in range(2):
        graph, paths = graph_and_paths(seed)
        choice = choose_by_largest_drop(removal(model, graph), graph, paths, 3)
        assert choice.index.shape == (len(QUERIES), 3)
        for q in range(len(QUERIES)):
            expected, drop = naive_choice(model, graph, paths, q, 3)
            assert choice.index[q].tolist() == expected + [-1] * (3 - len(expected))
            assert fall(model, graph, paths, choice)[q].item() == pytest.approx(drop, abs=1e-9)


def test_no_two_chosen_paths_take_the_same_route():
    model = model_of("compgcn", "distmult", 2, N, 4)
    graph, paths = graph_and_paths(3, count=40, relations=4)
    for index in (
        choose_by_largest_drop(removal(model, graph), graph, paths, 5).index,
        choose_in_order(graph, paths, 5).index,
    ):
        for row in index.tolist():
            routes = [route(graph, path_of(paths, i)) for i in row if i >= 0]
            assert len(set(routes)) == len(routes)


def test_a_query_stops_when_nothing_lowers_its_score():
    graph, paths = graph_and_paths(0)
    harmless = MessageSum([0.0] * N)  # messages are all zero: removing them changes nothing
    choice = choose_by_largest_drop(removal(harmless, graph), graph, paths, 3)
    assert (choice.index == -1).all()
    assert (choice.index == -1).all()
    harmful = MessageSum([-1.0] * N, head_share=1.0)  # removing a message raises the score
    assert (choose_by_largest_drop(removal(harmful, graph), graph, paths, 3).index == -1).all()


def test_equal_candidates_go_to_the_earlier_one():
    rows = [(0, 0, 1), (1, 0, 3), (0, 0, 2), (2, 0, 3)]
    graph = computation_graph(rows, 4, 1, [(0, 0, 3)], 1)
    paths = EvidenceBatch.of_paths(
        propose(graph, torch.ones(graph.num_edges), cost="inverse", count=5, min_length=1, max_length=2)
    )
    assert paths.count == 2
    choice = choose_by_largest_drop(removal(MessageSum([1.0] * 4), graph), graph, paths, 2)
    assert choice.index.tolist() == [[0, 1]]
    assert fall(MessageSum([1.0] * 4), graph, paths, choice).item() == pytest.approx(2.0)


class SilentAlone(MessageSum):
    """A node that hears a single message knows nothing."""

    def encode(self, graph, edge_weight=None):
        found = super().encode(graph, edge_weight)
        heard = torch.bincount(graph.target, minlength=graph.num_nodes)
        return type(found)(found.entity.where((heard != 1).unsqueeze(1), torch.nan), found.relation)


def test_a_score_that_is_no_number_supports_nothing_and_the_earlier_path_is_chosen():
    rows = [(0, 0, 1), (1, 0, 4), (0, 0, 2), (2, 0, 4), (0, 0, 3), (3, 0, 4)]
    graph = computation_graph(rows, 5, 1, [(0, 0, 4)], 1)
    paths = EvidenceBatch.of_paths(
        propose(graph, torch.ones(graph.num_edges), cost="inverse", count=5, min_length=1, max_length=2)
    )
    assert paths.count == 3
    choice = choose_by_largest_drop(removal(SilentAlone([1.0] * 5), graph), graph, paths, 1)
    assert choice.index.tolist() == [[0]]


def test_choosing_in_order_takes_the_first_paths_of_different_routes():
    graph, paths = graph_and_paths(3, count=40, relations=4)
    found = choose_in_order(graph, paths, 4).index
    for q in range(len(QUERIES)):
        expected, seen = [], set()
        for i in range(paths.count):
            if paths.query[i] == q and route(graph, path_of(paths, i)) not in seen:
                seen.add(route(graph, path_of(paths, i)))
                expected.append(i)
        expected = expected[:4]
        assert found[q].tolist() == expected + [-1] * (4 - len(expected))


def test_routes_are_shared_by_parallel_variants_of_one_query_only():
    graph, paths = graph_and_paths(3, queries=[*QUERIES, QUERIES[0]], count=40, relations=4)
    numbers = route_of(graph, paths).tolist()
    keys = [(int(paths.query[i]), route(graph, path_of(paths, i))) for i in range(paths.count)]
    assert len(set(numbers)) == len(set(keys)) == len(set(zip(numbers, keys, strict=True))) < paths.count


def test_without_candidates_nothing_is_chosen():
    graph = computation_graph([(0, 0, 2)], 4, 1, [(0, 0, 1), (2, 0, 3)], 2)
    none = torch.empty(0, dtype=torch.int64)
    paths = evidence_of(none, none.reshape(0, 3))
    assert choose_in_order(graph, paths, 2).index.tolist() == [[-1, -1], [-1, -1]]
    choice = choose_by_largest_drop(removal(MessageSum([1.0] * 4), graph), graph, paths, 2)
    assert choice.index.tolist() == [[-1, -1], [-1, -1]]
    assert choice.witnesses.tolist() == [[0, 0], [0, 0]]


def naive_reasons(graph, paths, carried, query, count):
    """Reasons first, fewest facts first, then what is carried together, then the fall; one of each route and core."""
    own = [i for i in range(paths.count) if paths.query[i] == query]
    size = max(1.0, abs(carried.base[query].item()))
    step = resolution(torch.float64) * size
    largest = max((carried.drop[i].item() for i in own), default=0.0)

    def is_reason(i):
        return carried.together[i] > step and carried.alone[i].abs().max() >= max(SLIGHT * largest, NOISE * size)

    def core(i):
        length = int(paths.size[i])
        facts = fact_of(graph, paths.edges[i]).tolist()
        slight = [abs(a) < DECORATIVE * abs(carried.drop[i].item()) for a in carried.alone[i, :length].tolist()]
        spare = length > 2 and not all(slight)
        return tuple("any" if spare and slight[k] else facts[k] for k in range(length))

    def key(i):
        joint = round(carried.together[i].item() / step) if is_reason(i) else 0
        return (not is_reason(i), int(paths.size[i]), -joint, -round(carried.drop[i].item() / step), i)

    taken, routes, cores, witnesses = [], set(), set(), []
    for i in sorted((i for i in own if is_reason(i) or carried.drop[i] > NOISE * size), key=key):
        if route(graph, path_of(paths, i)) in routes:
            continue
        routes.add(route(graph, path_of(paths, i)))
        if core(i) in cores:
            continue
        cores.add(core(i))
        taken.append(i)
        witnesses.append(sum(core(j) == core(i) for j in own))
    return taken[:count], witnesses[:count]


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", ["rgcn-transe", "wgcn-conve", "compgcn-distmult"])
def test_the_choice_by_what_is_carried_is_that_of_a_naive_sort(name, layers):
    model = model_of(*name.split("-"), layers, N, R)
    some_stand_for_several = False
    for seed in range(2):
        graph, paths = graph_and_paths(seed, count=30)
        carried = measure_carried(removal(model, graph), graph, paths)
        index, witnesses = shown(choose_by_carried(graph, paths, carried, 4))
        for q in range(len(QUERIES)):
            expected, stands_for = naive_reasons(graph, paths, carried, q, 4)
            gap = 4 - len(expected)
            assert index[q].tolist() == expected + [-1] * gap
            assert witnesses[q].tolist() == stands_for + [0] * gap
            some_stand_for_several |= max(stands_for, default=0) > 1
    assert some_stand_for_several or layers == 2


def table_of(*rows):
    """What paths carry, from (together, fall, effects of each fact)."""
    alone = torch.zeros(len(rows), 3, dtype=torch.float64)
    for i, (_, _, effects) in enumerate(rows):
        alone[i, : len(effects)] = torch.tensor(effects)
    together, drop = (torch.tensor([row[i] for row in rows], dtype=torch.float64) for i in (0, 1))
    return Carried(drop, alone, together, torch.zeros(1, dtype=torch.float64))


def two_ways():
    """0 → 1 → 3 and the detour 0 → 2 → 1 → 3, and the graph they are in."""
    graph = computation_graph([(0, 0, 1), (1, 0, 3), (0, 0, 2), (2, 0, 1)], 4, 1, [(0, 0, 3)], 2)
    found = propose(graph, torch.ones(graph.num_edges), cost="inverse", count=5, min_length=1, max_length=3)
    paths = EvidenceBatch.of_paths(found)
    assert paths.size.tolist() == [2, 3]
    return graph, paths


def test_a_reason_of_two_facts_beats_the_detour_around_it_however_much_that_lowers_the_score():
    graph, paths = two_ways()
    carried = table_of((0.1, 0.3, (0.2, 0.2)), (0.2, 0.9, (0.3, 0.3, 0.3)))
    assert choose_by_carried(graph, paths, carried, 2).index.tolist() == [[0, 1]]


def test_a_path_whose_facts_carry_nothing_together_never_stands_above_one_whose_facts_do():
    graph, paths = two_ways()
    for nothing in (0.0, -0.5, 1e-17):
        carried = table_of((nothing, 0.9, (0.5, 0.5)), (0.01, 0.1, (0.1, 0.1, 0.1)))
        assert choose_by_carried(graph, paths, carried, 2).index.tolist() == [[1, 0]]


def test_a_short_path_that_does_next_to_nothing_is_no_reason():
    graph, paths = two_ways()
    carried = table_of((1e-4, 1e-3, (1e-3, 1e-3)), (0.2, 0.9, (0.3, 0.3, 0.3)))
    assert choose_by_carried(graph, paths, carried, 2).index.tolist() == [[1, 0]]


def test_paths_that_do_nothing_at_all_are_not_shown():
    graph, paths = two_ways()
    carried = table_of((NOISE / 2, NOISE / 2, (NOISE / 2, NOISE / 2)), (0.0, -0.1, (0.0, 0.0, -0.1)))
    index, witnesses = shown(choose_by_carried(graph, paths, carried, 2))
    assert index.tolist() == [[-1, -1]]
    assert witnesses.tolist() == [[0, 0]]


def test_paths_that_differ_in_a_hop_that_does_nothing_are_told_as_one():
    rows = [(0, 0, 1), (1, 0, 2), (1, 1, 5), (5, 0, 2), (2, 0, 3), (1, 1, 4), (4, 0, 2)]
    graph = computation_graph([*rows[:2], rows[4], (1, 1, 2)], 6, 2, [(0, 0, 3)], 2)
    path = [(0, 0, 1), (1, 0, 2), (2, 0, 3)]
    other = [(0, 0, 1), (1, 1, 2), (2, 0, 3)]
    places = {
        (int(graph.entity[s]), int(r), int(graph.entity[t])): e
        for e, (s, r, t) in enumerate(zip(graph.source, graph.relation, graph.target, strict=True))
    }
    edges = torch.tensor([[places[step] for step in steps] for steps in (path, other)])
    paths = evidence_of(torch.zeros(2, dtype=torch.int64), edges)
    carried = table_of((0.0, 0.5, (0.25, 0.001, 0.25)), (0.0, 0.5, (0.25, 0.0, 0.25)))
    index, witnesses = shown(choose_by_carried(graph, paths, carried, 2))
    assert index.tolist() == [[0, -1]]
    assert witnesses.tolist() == [[2, 0]]
