from __future__ import annotations

import pytest
import torch

from builders import MessageSum, computation_graph, edges_without, model_of, random_rows
from powerlink.paths.propose import propose
from powerlink.paths.search import PathBatch, SearchGraph, best_paths
from powerlink.verify.selection import NOISE, choose_by_largest_drop, choose_in_order, route_of

N, R = 10, 2
QUERIES = [(0, 0, 1), (2, 3, 3), (4, 1, 9), (5, 0, 6), (0, 1, 9)]


def graph_and_paths(seed, queries=QUERIES, count=12, relations=R):
    graph = computation_graph(random_rows(seed, N, relations, 30), N, relations, queries, 2)
    generator = torch.Generator().manual_seed(seed)
    cost = torch.rand(graph.num_edges, generator=generator).clamp(min=0.01).double().reciprocal()
    search = SearchGraph(graph.source, graph.target, cost, graph.num_nodes, graph.head, graph.tail)
    return graph, best_paths(search, count=count, max_length=3)  # parallel variants and all


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
        choice = choose_by_largest_drop(model, graph, paths, 3)
        assert choice.index.shape == (len(QUERIES), 3)
        for q in range(len(QUERIES)):
            expected, drop = naive_choice(model, graph, paths, q, 3)
            assert choice.index[q].tolist() == expected + [-1] * (3 - len(expected))
            assert choice.drop[q].item() == pytest.approx(drop, abs=1e-9)


def test_no_two_chosen_paths_take_the_same_route():
    model = model_of("compgcn", "distmult", 2, N, 4)
    graph, paths = graph_and_paths(3, count=40, relations=4)
    for index in (choose_by_largest_drop(model, graph, paths, 5).index, choose_in_order(graph, paths, 5)):
        for row in index.tolist():
            routes = [route(graph, path_of(paths, i)) for i in row if i >= 0]
            assert len(set(routes)) == len(routes)


def test_a_query_stops_when_nothing_lowers_its_score():
    graph, paths = graph_and_paths(0)
    harmless = MessageSum([0.0] * N)  # messages are all zero: removing them changes nothing
    choice = choose_by_largest_drop(harmless, graph, paths, 3)
    assert (choice.index == -1).all()
    assert (choice.drop == 0).all()
    harmful = MessageSum([-1.0] * N, head_share=1.0)  # removing a message raises the score
    assert (choose_by_largest_drop(harmful, graph, paths, 3).index == -1).all()


def test_equal_candidates_go_to_the_earlier_one():
    rows = [(0, 0, 1), (1, 0, 3), (0, 0, 2), (2, 0, 3)]
    graph = computation_graph(rows, 4, 1, [(0, 0, 3)], 1)
    paths = propose(graph, torch.ones(graph.num_edges), cost="inverse", count=5, min_length=1, max_length=2)
    assert paths.count == 2
    choice = choose_by_largest_drop(MessageSum([1.0] * 4), graph, paths, 2)
    assert choice.index.tolist() == [[0, 1]]
    assert choice.drop.item() == pytest.approx(2.0)


class SilentAlone(MessageSum):
    """A node that hears a single message knows nothing."""

    def encode(self, graph, edge_weight=None):
        found = super().encode(graph, edge_weight)
        heard = torch.bincount(graph.target, minlength=graph.num_nodes)
        return type(found)(found.entity.where((heard != 1).unsqueeze(1), torch.nan), found.relation)


def test_a_score_that_is_no_number_supports_nothing_and_the_earlier_path_is_chosen():
    rows = [(0, 0, 1), (1, 0, 4), (0, 0, 2), (2, 0, 4), (0, 0, 3), (3, 0, 4)]
    graph = computation_graph(rows, 5, 1, [(0, 0, 4)], 1)
    paths = propose(graph, torch.ones(graph.num_edges), cost="inverse", count=5, min_length=1, max_length=2)
    assert paths.count == 3
    choice = choose_by_largest_drop(SilentAlone([1.0] * 5), graph, paths, 1)
    assert choice.index.tolist() == [[0]]


def test_choosing_in_order_takes_the_first_paths_of_different_routes():
    graph, paths = graph_and_paths(3, count=40, relations=4)
    found = choose_in_order(graph, paths, 4)
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
    paths = PathBatch(none, none.reshape(0, 3), none, none.double())
    assert choose_in_order(graph, paths, 2).tolist() == [[-1, -1], [-1, -1]]
    choice = choose_by_largest_drop(MessageSum([1.0] * 4), graph, paths, 2)
    assert choice.index.tolist() == [[-1, -1], [-1, -1]]
    assert choice.drop.tolist() == [0.0, 0.0]
