from __future__ import annotations

import itertools

import pytest
import torch

from builders import computation_graph, edges_without, messages_of, model_of, random_rows
from powerlink.graphs.what_if import Removals, changed_nodes, what_if
from powerlink.memory import Room
from powerlink.verify.counterfactual import edges_of_facts, scores_without

N, R = 14, 3
ENCODERS = ["rgcn", "wgcn", "compgcn"]


def model_for(encoder, layers, **others):
    return model_of(encoder, "distmult", layers, N, R, **others)


def random_removals(graph, scenarios, seed, *, both_directions):
    """A list of removed edges per scenario; the first scenario removes nothing."""
    generator = torch.Generator().manual_seed(seed)
    chosen = [[]]
    for _ in range(scenarios - 1):
        some = torch.randperm(graph.num_edges, generator=generator)[
            : int(torch.randint(1, 5, (1,), generator=generator))
        ]
        if both_directions:
            some = torch.cat([some, graph.reverse[some]]).unique()
        chosen.append(sorted(some.tolist()))
    return chosen


def removals_of(graph, chosen):
    pairs = [(s, e) for s, edges in enumerate(chosen) for e in [*edges, *edges[:1]]]  # with a repeat
    scenario, edge = torch.tensor(pairs[::-1], dtype=torch.int64).reshape(-1, 2).unbind(1)
    return Removals.of(graph, len(chosen), scenario, edge)


@pytest.mark.parametrize("by_difference", [True, False], ids=["by difference", "whole"])
@pytest.mark.parametrize("both_directions", [True, False], ids=["facts", "directed edges"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_copies_are_encoded_as_if_the_edges_were_deleted_and_all_other_nodes_stay(
    encoder, layers, both_directions, by_difference
):
    model = model_for(encoder, layers)
    inherited = 0
    for seed in range(4):
        graph = messages_of(random_rows(seed, N, R, 24), N, R)
        chosen = random_removals(graph, 6, seed, both_directions=both_directions)
        removals = removals_of(graph, chosen)
        changed = changed_nodes(graph, removals, layers)
        assert torch.equal(changed.keys, changed.keys.unique())
        world = what_if(graph, removals, changed, layers, focused=False, by_difference=by_difference)
        assert (world.target.diff() >= 0).all()
        inherited += world.heirs.row.numel() if world.heirs else 0
        copies = model.encode(world, world.sign).entity[: world.copy.numel()]
        base = model.encode(graph).entity
        for scenario, removed in enumerate(chosen):
            truth = model.encode(edges_without(graph, removed)).entity
            mine = changed.keys // N == scenario
            own = changed.keys[mine] % N
            torch.testing.assert_close(copies[mine], truth[own], rtol=0, atol=1e-10)
            unchanged = torch.ones(N, dtype=torch.bool)
            unchanged[own] = False
            torch.testing.assert_close(base[unchanged], truth[unchanged], rtol=0, atol=1e-10)
            if not removed:
                assert not mine.any()
    assert (inherited > 0) == by_difference


class Hidden:
    """A model that does not say that it adds up messages: every copy gets all its edges."""

    def __init__(self, model):
        self.num_layers, self.encode, self.score = model.num_layers, model.encode, model.score


def test_a_node_that_loses_all_its_facts_receives_exactly_nothing():
    rows = [(0, 0, v) for v in range(1, 5)] + [(v, 1, 0) for v in range(1, 5)]
    graph = messages_of(rows, N, R)
    at_hub = (graph.target == 0).nonzero().squeeze(1)
    removals = Removals.of(graph, 1, torch.zeros_like(at_hub), at_hub)
    world = what_if(graph, removals, changed_nodes(graph, removals, 1), 1, focused=False, by_difference=True)
    assert world.heirs is None  # what is left of its edges is less than what is gone
    assert not (world.target == 0).any()


def test_a_hub_that_loses_one_fact_is_told_by_one_edge():
    graph = messages_of([(0, 0, v) for v in range(1, N)], N, R)
    (lost,) = ((graph.target == 0) & (graph.source == 5)).nonzero()
    removals = Removals.of(graph, 3, torch.tensor([2]), lost)
    changed = changed_nodes(graph, removals, 1)
    world = what_if(graph, removals, changed, 1, focused=False, by_difference=True)
    assert (world.target < world.copy.numel()).sum() == 1
    assert world.sign[0] == -1
    assert world.entity[world.heirs.ancestor].tolist() == [0]


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_focused_scores_equal_those_of_graphs_with_the_edges_deleted_or_masked(encoder, layers):
    model = model_for(encoder, layers)
    queries = [(0, 0, 1), (2, 4, 3), (5, 1, 6), (0, 2, 1)]
    for seed in range(2):
        for hops in {1, layers, layers + 1}:
            graph = computation_graph(random_rows(seed, N, R, 24), N, R, queries, hops)
            query, owners, edges, expected = [], [], [], []
            generator = torch.Generator().manual_seed(seed)
            for q in range(len(queries)):
                first, last = graph.edge_row[q : q + 2].tolist()
                for size in (0, 1, 2, 4):
                    some = first + torch.randperm(last - first, generator=generator)[:size]
                    removed = some if size == 2 else torch.cat([some, graph.reverse[some]])  # 2: directed only
                    owners.append(torch.full_like(removed, len(query)))
                    edges.append(removed)
                    query.append(q)
                    encoded = model.encode(edges_without(graph, removed.tolist()))
                    deleted = model.score(encoded, graph.triples[q : q + 1])
                    weight = torch.ones(graph.num_edges, dtype=torch.float64).index_fill(0, removed, 0.0)
                    masked = model.score(model.encode(graph, weight), graph.triples[q : q + 1])
                    torch.testing.assert_close(masked, deleted, rtol=0, atol=1e-10)
                    expected.append(deleted.detach())
            removals = Removals.of(graph, len(query), torch.cat(owners), torch.cat(edges))
            for budget, asked in itertools.product((1, 40, 10**6), (model, Hidden(model))):
                found = scores_without(asked, graph, torch.tensor(query), removals, room=Room(edges=budget))
                torch.testing.assert_close(found, torch.cat(expected), rtol=0, atol=1e-10)


def test_every_composition_and_a_self_loop_are_exact_too():
    variants = [model_for("compgcn", 2, composition=c, layer_bias=True) for c in ("sub", "corr")]
    variants.append(model_for("wgcn", 2, self_loop=True))
    graph = computation_graph(random_rows(3, N, R, 24), N, R, [(0, 0, 1)], 2)
    removed = torch.tensor([0, 3, 4])
    owner, edge = edges_of_facts(graph, removed.unsqueeze(0))
    for model in variants:
        found = scores_without(model, graph, torch.tensor([0]), Removals.of(graph, 1, owner, edge))
        truth = model.score(model.encode(edges_without(graph, edge.tolist())), graph.triples)
        torch.testing.assert_close(found, truth.detach(), rtol=0, atol=1e-10)


def test_no_scenarios_give_no_scores():
    graph = computation_graph(random_rows(3, N, R, 24), N, R, [(0, 0, 1)], 2)
    none = torch.empty(0, dtype=torch.int64)
    assert scores_without(model_for("wgcn", 2), graph, none, Removals.of(graph, 0, none, none)).shape == (0,)


def test_removing_nothing_anywhere_changes_no_node():
    graph = messages_of(random_rows(0, N, R, 24), N, R)
    none = torch.empty(0, dtype=torch.int64)
    removals = Removals.of(graph, 3, none, none)
    changed = changed_nodes(graph, removals, 2)
    assert changed.keys.numel() == 0
    assert what_if(graph, removals, changed, 2, focused=False).num_nodes == 0


def test_a_slice_of_removals_is_renumbered():
    graph = messages_of(random_rows(0, N, R, 24), N, R)
    removals = removals_of(graph, [[1], [], [0, 5], [2]])
    part = removals.slice(graph, 1, 3)
    assert part.num_scenarios == 2
    assert part.keys.tolist() == [graph.num_edges, graph.num_edges + 5]


def test_edges_of_facts_takes_both_directions_and_drops_padding():
    graph = computation_graph([(0, 0, 1), (1, 0, 2)], 3, 1, [(0, 0, 2)], 1)
    path = [edge for edge in range(graph.num_edges) if int(graph.relation[edge]) == 0]
    owner, edge = edges_of_facts(graph, torch.tensor([[path[0], -1], [path[1], path[0]]]))
    found = sorted(zip(owner.tolist(), edge.tolist(), strict=True))
    twin = graph.reverse.tolist()
    assert found == sorted(
        [(0, path[0]), (0, twin[path[0]]), (1, path[0]), (1, twin[path[0]]), (1, path[1]), (1, twin[path[1]])]
    )
