"""A focus holds exactly what its nodes depend on, and models say the same on it as on the whole."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import computation_graph, fact_lists, messages_of, model_of, random_rows
from powerlink.graphs.focus import focus

N, R = 6, 2


@given(fact_lists(N, R, 14), st.lists(st.integers(0, N - 1), min_size=1, max_size=2), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_nodes_and_edges_are_those_within_reach_sorted_by_their_distance(rows, wanted, layers):
    graph = messages_of(rows, N, R)
    found, place = focus(graph, torch.tensor(wanted), layers)
    distance = dict.fromkeys(wanted, 0)
    edges = list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    for depth in range(1, layers + 1):
        for source, target in edges:
            if distance.get(target, layers + 1) < depth:
                distance.setdefault(source, depth)
    assert dict(zip(found.entity.tolist(), found.level.tolist(), strict=True)) == distance
    assert found.entity[place].tolist() == wanted
    inside = [i for i, (_, target) in enumerate(edges) if distance.get(target, layers) < layers]
    assert sorted(found.edge.tolist()) == inside
    assert torch.equal(found.entity[found.source], graph.source[found.edge])
    assert torch.equal(found.entity[found.target], graph.target[found.edge])
    assert torch.equal(found.target, found.target.sort().values)
    for remaining in range(layers):
        part = found.layer(remaining)
        assert part.num_targets == sum(level <= remaining for level in distance.values())
        assert part.num_sources == sum(level <= remaining + 1 for level in distance.values())
        assert part.source.numel() == sum(distance.get(target, layers) <= remaining for _, target in edges)


MODELS = [
    ("rgcn", "transe", {}),
    ("wgcn", "conve", {"self_loop": False}),
    ("wgcn", "distmult", {"self_loop": True}),
    ("compgcn", "conve", {"composition": "mult", "layer_bias": True}),
    ("compgcn", "transe", {"composition": "sub"}),
    ("compgcn", "distmult", {"composition": "corr"}),
]


@pytest.mark.parametrize(("encoder", "decoder", "others"), MODELS)
@given(rows=fact_lists(N, R, 14), layers=st.integers(1, 3), asked=fact_lists(N, 2 * R, 4, 1))
@settings(max_examples=15, deadline=None)
def test_logits_of_prepared_models_and_their_slopes_equal_those_of_a_full_pass(
    encoder, decoder, others, rows, layers, asked
):
    # isolated nodes, parallel edges, a head that is the tail, and triples that share both are all drawn
    graph = messages_of(rows, N, R)
    model, triples = model_of(encoder, decoder, layers, N, R, **others), torch.tensor(asked)
    weight = torch.rand(graph.num_edges, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    full, sliced = weight.clone().requires_grad_(), weight.clone().requires_grad_()
    expected = model.score(model.encode(graph, full), triples)
    logits = model.prepare_logits(graph, triples)
    torch.testing.assert_close(logits(sliced), expected)
    if graph.num_edges:
        weights = torch.linspace(-1, 2, expected.numel(), dtype=torch.float64)
        wanted = torch.autograd.grad((expected * weights).sum(), full, materialize_grads=True)
        for _ in range(2):  # prepared once, asked often
            found = torch.autograd.grad((logits(sliced) * weights).sum(), sliced, materialize_grads=True)
            torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("encoder", ["rgcn", "wgcn", "compgcn"])
def test_of_the_rows_of_a_computation_graph_the_last_layer_computes_head_and_tail(encoder):
    graph = computation_graph(random_rows(0, 20, R, 40), 20, R, [(0, 0, 1), (2, 1, 3)], 2)
    found, place = focus(graph.kept_edges, torch.cat([graph.head, graph.tail]), 2)
    entity = model_of(encoder, "distmult", 2, 20, R).encode(found).entity
    full = model_of(encoder, "distmult", 2, 20, R).encode(graph.everywhere).entity
    assert entity.size(0) == 4
    torch.testing.assert_close(entity[place], full[torch.cat([graph.head, graph.tail])])
