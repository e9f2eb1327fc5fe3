"""What every model must do, whatever is in it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn

from builders import (
    LAYERED,
    edges_without,
    knowledge_graph,
    messages_of,
    model_of,
    random_rows,
    settings_of,
    triple_tensor,
)
from powerlink.adapters import from_pyg
from powerlink.graphs.computation_graph import extract
from powerlink.models.catalog import DECODERS
from powerlink.models.decoders import RotatE, TransE
from powerlink.models.link_model import build_model
from powerlink.models.protocol import LinkModel
from powerlink.models.ranking import score_tails
from powerlink.models.session import undisturbed
from pyg_encoders import LAYERS, draw_encoder

N, R = 12, 3
NAMES = [f"{encoder}-{decoder}" for encoder, decoder in itertools.product(LAYERED, DECODERS)]
ADAPTED = [f"{layer} {reading}" for layer in LAYERS for reading in ("fixed", "recomputed")]
CASES = [*((name, layers) for name in NAMES for layers in (1, 2)), *((name, 2) for name in ADAPTED)]
ROWS = random_rows(0, N, R, 30)
TRIPLES = [(0, 0, 1), (2, 4, 3), (5, 2, 5), (1, 3, 0), (11, 5, 7)]


@pytest.fixture(params=CASES, ids=[f"{name}-{layers}" for name, layers in CASES])
def model(request):
    name, layers = request.param
    if name in NAMES:
        return model_of(*name.split("-"), layers, N, R)
    layer, reading = name.split()
    encoder = draw_encoder(layer, N, 2 * R, layers=layers)
    decoder = ["distmult", "transe", "complex"][list(LAYERS).index(layer) % 3]
    return from_pyg(
        encoder, decoder, knowledge_graph(ROWS, N, R), nodes="node_emb", relations=encoder.rel_emb, normaliser=reading
    ).model


@pytest.fixture
def graph():
    return messages_of(ROWS, N, R)


def test_every_encoder_is_here_with_every_decoder():
    assert len(NAMES) == 15


def test_it_is_a_link_model(model):
    assert isinstance(model, LinkModel)


def test_weights_of_one_are_no_weights(model, graph):
    plain = model.encode(graph)
    ones = model.encode(graph, torch.ones(graph.num_edges))
    assert torch.allclose(plain.entity, ones.entity, rtol=0, atol=1e-12)


def test_a_weight_of_zero_is_a_deletion(model, graph):
    removed = [0, 3, 4, 17]
    weight = torch.ones(graph.num_edges).index_fill(0, torch.tensor(removed), 0.0)
    masked, deleted = model.encode(graph, weight), model.encode(edges_without(graph, removed))
    assert torch.allclose(masked.entity, deleted.entity, rtol=0, atol=1e-12)
    triples = triple_tensor(TRIPLES)
    assert torch.allclose(model.score(masked, triples), model.score(deleted, triples), rtol=0, atol=1e-10)


def test_the_score_has_a_gradient_by_edge_weight_and_none_out_of_reach(model, graph):
    weight = torch.ones(graph.num_edges, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(model.score(model.encode(graph, weight), triple_tensor([(0, 0, 1)])), weight)
    assert gradient.isfinite().all()
    assert gradient.abs().max() > 1e-6
    if model.num_layers == 1:
        near = (graph.target == 0) | (graph.target == 1)
        assert (gradient[~near] == 0).all()


def test_the_gradient_by_edge_weight_is_the_slope_of_the_score(model, graph):
    if isinstance(model.decoder, TransE) and not isinstance(model.decoder, RotatE):
        pytest.skip("a sum of absolute values has no slope at its corners")
    weight = torch.full((graph.num_edges,), 0.7, dtype=torch.float64, requires_grad=True)
    triples = triple_tensor([(0, 0, 1)])
    (gradient,) = torch.autograd.grad(model.score(model.encode(graph, weight), triples).sum(), weight)
    edge, step = int(gradient.abs().argmax()), 1e-6
    with torch.no_grad():
        nudge = torch.zeros(graph.num_edges, dtype=torch.float64).index_fill(0, torch.tensor([edge]), step)
        above = model.score(model.encode(graph, weight + nudge), triples)
        below = model.score(model.encode(graph, weight - nudge), triples)
    assert ((above - below) / (2 * step)).item() == pytest.approx(gradient[edge].item(), rel=1e-4)


def test_scoring_all_tails_equals_scoring_each(model, graph):
    embeddings = model.encode(graph)
    head, relation = torch.tensor([0, 3, 3]), torch.tensor([1, 0, 5])
    found = model.score_tails(embeddings, head, relation)
    assert found.shape == (3, N)
    for i in range(3):
        triples = triple_tensor([(int(head[i]), int(relation[i]), t) for t in range(N)])
        assert torch.allclose(found[i], model.score(embeddings, triples), rtol=0, atol=1e-10)


def test_a_model_without_a_fast_way_is_asked_triple_by_triple(model, graph):
    class Slow:
        num_layers, encode, score = model.num_layers, model.encode, model.score

    embeddings = model.encode(graph)
    head, relation = torch.tensor([0, 3]), torch.tensor([1, 0])
    slow, fast = (score_tails(m, embeddings, head, relation) for m in (Slow(), model))
    assert torch.allclose(slow, fast, rtol=0, atol=1e-10)
    assert score_tails(Slow(), embeddings, head[:0], relation[:0]).shape == (0, N)


def test_no_triples_get_no_scores(model, graph):
    none = torch.empty(0, dtype=torch.int64)
    assert model.score(model.encode(graph), none.reshape(0, 3)).shape == (0,)
    assert model.score_tails(model.encode(graph), none, none).shape == (0, N)


def test_a_graph_without_edges_can_be_encoded(model):
    empty = messages_of([], N, R)
    assert model.encode(empty).entity.isfinite().all()
    assert torch.equal(model.encode(empty, torch.ones(0)).entity, model.encode(empty).entity)


def test_in_eval_mode_the_same_question_gets_the_same_answer(model, graph):
    first, second = model.encode(graph), model.encode(graph)
    assert torch.equal(first.entity, second.entity)
    assert torch.equal(model.score(first, triple_tensor(TRIPLES)), model.score(second, triple_tensor(TRIPLES)))


def test_the_order_of_edges_does_not_matter_beyond_rounding(model, graph):
    order = torch.randperm(graph.num_edges, generator=torch.Generator().manual_seed(0))
    order = order[graph.target[order].argsort(stable=True)]
    shuffled = replace(
        edges_without(graph, []),
        source=graph.source[order],
        target=graph.target[order],
        relation=graph.relation[order],
        norm=graph.norm[order],
    )
    assert torch.allclose(model.encode(graph).entity, model.encode(shuffled).entity, rtol=0, atol=1e-10)


@pytest.mark.parametrize("extra_hops", [0, 1])
def test_a_computation_graph_of_enough_hops_scores_like_the_whole_graph(model, graph, extra_hops):
    queries = [q for q in random_rows(7, N, 2 * R, 12) if q[0] != q[2]]
    present = set(zip(graph.source.tolist(), graph.relation.tolist(), graph.target.tolist(), strict=True))
    queries = triple_tensor([q for q in queries if q not in present])
    part = extract(graph, queries, model.num_layers + extra_hops)
    cut, whole = model.score(model.encode(part), part.triples), model.score(model.encode(graph), queries)
    assert torch.allclose(cut, whole, rtol=0, atol=1e-9)
    single = model.float()
    cut, whole = single.score(single.encode(part), part.triples), single.score(single.encode(graph), queries)
    assert torch.allclose(cut.float(), whole.float(), rtol=1e-5, atol=1e-4)


def test_the_fact_in_question_counts_as_absent_from_the_computation_graph(model, graph):
    edge = 5
    query = (int(graph.source[edge]), int(graph.relation[edge]), int(graph.target[edge]))
    part = extract(graph, triple_tensor([query]), model.num_layers)
    without = edges_without(graph, [edge, int(graph.reverse[edge])])
    truth = model.score(model.encode(without), triple_tensor([query]))
    assert torch.allclose(model.score(model.encode(part), part.triples), truth, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_weights_and_leaves_the_global_generator_alone(name):
    settings = settings_of(*name.split("-"), 2)
    before = torch.get_rng_state()
    first, again, other = (build_model(settings, N, R, seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("name", NAMES)
def test_in_training_mode_dropout_is_on_and_undisturbed_switches_it_off_and_back(name):
    model = build_model(settings_of(*name.split("-"), 2), N, R).train()
    frozen = next(m for m in model.modules() if isinstance(m, nn.Dropout)).eval()
    graph = messages_of(random_rows(0, N, R, 30), N, R)
    with undisturbed(model):
        assert torch.equal(model.encode(graph).entity, model.encode(graph).entity)
        assert not any(module.training for module in model.modules())
    assert model.training
    assert not frozen.training
    assert sum(not module.training for module in model.modules()) == 1


def test_undisturbed_leaves_a_model_as_it_was_whatever_was_done_to_it():
    model = build_model(settings_of("compgcn", "distmult", 2), N, R).eval()
    model.encoder.entity.requires_grad_(False)

    def meddle():
        with undisturbed(model):
            model.train().requires_grad_(True)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        meddle()
    assert not any(module.training for module in model.modules())
    assert [name for name, p in model.named_parameters() if not p.requires_grad] == ["encoder.entity"]
