"""The layers and decoders against their formulas, written out node by node."""

from __future__ import annotations

import pytest
import torch

from builders import LAYERED, messages_of, model_of, random_rows
from powerlink.errors import SettingsError
from powerlink.models import link_model
from powerlink.models.decoders.conve import ScalarNorm, squarest_image
from powerlink.models.encoders.compgcn import compose
from powerlink.models.link_model import ModelSettings, build_model

N, R = 7, 2


@pytest.fixture
def graph():
    return messages_of(random_rows(2, N, R, 16), N, R)


def edges(graph):
    return zip(graph.source, graph.target, graph.relation, graph.norm, strict=True)


def test_rgcn_is_its_formula(graph):
    model = model_of("rgcn", "distmult", 1, N, R)
    layer = model.encoder.layers[0]
    out = model.encoder.entity @ layer.self_loop + layer.bias
    for source, target, relation, norm in edges(graph):
        message = norm * model.encoder.entity[source] @ torch.block_diag(*layer.blocks[relation])
        out = out + torch.nn.functional.one_hot(target, N).unsqueeze(1) * message
    torch.testing.assert_close(model.encode(graph).entity, out.tanh())


@pytest.mark.parametrize("degree_norm", [True, False])
@pytest.mark.parametrize("self_loop", [True, False])
def test_wgcn_is_its_formula(graph, self_loop, degree_norm):
    model = model_of("wgcn", "distmult", 1, N, R, self_loop=self_loop, degree_norm=degree_norm)
    layer = model.encoder.layers[0]
    mapped = model.encoder.entity @ layer.linear
    out = mapped.clone() if self_loop else torch.zeros_like(mapped)
    for source, target, relation, norm in edges(graph):
        alpha = layer.relation_weight[relation] + layer.relation_weight[(relation + R) % (2 * R)]
        if degree_norm:
            alpha = alpha * norm
        out = out + torch.nn.functional.one_hot(target, N).unsqueeze(1) * (alpha * mapped[source])
    torch.testing.assert_close(model.encode(graph).entity, layer.norm(out).tanh())


@pytest.mark.parametrize(
    ("asked", "first"), [({}, 1.0), ({"first_relation_weight": 0.1}, 0.1), ({"first_relation_weight": 0}, 0.0)]
)
def test_relations_of_an_untrained_wgcn_weigh_what_was_asked(asked, first):
    settings = ModelSettings(encoder="wgcn", widths=(6, 6, 6), **asked)
    for layer in build_model(settings, N, R).encoder.layers:
        torch.testing.assert_close(layer.relation_weight.detach(), torch.full((2 * R,), first))


@pytest.mark.parametrize("composition", ["mult", "sub", "corr"])
def test_compgcn_is_its_formula(graph, composition):
    model = model_of("compgcn", "distmult", 1, N, R, composition=composition, layer_bias=True)
    layer, entity, relations = model.encoder.layers[0], model.encoder.entity, model.encoder.relation
    out = compose(entity, layer.self_relation.expand_as(entity), composition) @ layer.self_loop
    for source, target, relation, norm in edges(graph):
        way = layer.direction[int(relation >= R)]
        message = norm * compose(entity[source], relations[relation], composition) @ way
        out = out + torch.nn.functional.one_hot(target, N).unsqueeze(1) * message
    found = model.encode(graph)
    torch.testing.assert_close(found.entity, layer.norm(out / 3 + layer.bias).tanh())
    torch.testing.assert_close(found.relation, relations @ layer.relation_map)


def test_circular_correlation_is_its_sum():
    a, b = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([sum(a[i] * b[(i + k) % 5] for i in range(5)) for k in range(5)])
    torch.testing.assert_close(compose(a, b, "corr"), expected)


def test_decoders_are_their_formulas(graph):
    head, relation, tail = 1, 3, 4
    triple = torch.tensor([[head, relation, tail]])
    transe = model_of("wgcn", "transe", 1, N, R, margin=7.0)
    seen = transe.encode(graph)
    distance = (seen.entity[head] + seen.relation[relation] - seen.entity[tail]).abs().sum()
    torch.testing.assert_close(transe.score(seen, triple)[0], 7.0 - distance)
    distmult = model_of("wgcn", "distmult", 1, N, R)
    seen = distmult.encode(graph)
    product = (seen.entity[head] * seen.relation[relation] * seen.entity[tail]).sum() + distmult.bias[tail]
    torch.testing.assert_close(distmult.score(seen, triple)[0], product)
    model = model_of("wgcn", "complex", 1, N, R)
    seen = model.encode(graph)
    h, r, t = (torch.complex(*row.chunk(2)) for row in (seen.entity[head], seen.relation[relation], seen.entity[tail]))
    torch.testing.assert_close(model.score(seen, triple)[0], (h * r * t.conj()).sum().real + model.bias[tail])
    rotate = model_of("wgcn", "rotate", 1, N, R, margin=7.0)
    seen = rotate.encode(graph)
    h, t = (torch.complex(*row.chunk(2)) for row in (seen.entity[head], seen.entity[tail]))
    angles = torch.pi * seen.relation[relation].chunk(2)[0]
    turned = h * torch.polar(torch.ones_like(angles), angles)
    torch.testing.assert_close(rotate.score(seen, triple)[0], 7.0 - (turned - t).abs().sum())


@pytest.mark.parametrize("interleave", [True, False])
def test_conve_reads_head_and_relation_in_turn_or_above_each_other_and_scores_each_triple_by_itself(graph, interleave):
    model = model_of("wgcn", "conve", 1, N, R, interleave=interleave)
    seen = model.encode(graph)
    rows, columns = model.decoder.image
    if interleave:
        numbers = [number for pair in zip(seen.entity[1], seen.relation[3], strict=True) for number in pair]
        image = torch.stack(numbers).view(2 * rows, columns)
    else:
        image = torch.cat([seen.entity[1].view(rows, columns), seen.relation[3].view(rows, columns)])
    decoder, filters = model.decoder, model.decoder.filters
    normed = torch.nn.functional.batch_norm(
        image[None, None],
        decoder.image_norm.running_mean,
        decoder.image_norm.running_var,
        decoder.image_norm.weight,
        decoder.image_norm.bias,
    )
    kernel = filters.weight.view(-1, 1, decoder.kernel, decoder.kernel)
    maps = torch.nn.functional.conv2d(normed, kernel).flatten(2)[0].t()  # (places, filters)
    query = decoder.project(decoder.feature_norm(maps).relu().flatten()[None])
    expected = (query @ seen.entity.t()).squeeze(0) + model.bias
    torch.testing.assert_close(model.score_tails(seen, torch.tensor([1]), torch.tensor([3]))[0], expected)


def test_the_norm_of_an_image_is_a_batch_norm_of_one_channel():
    ours, theirs = ScalarNorm(), torch.nn.BatchNorm1d(1)
    for seed in range(3):
        image = 3 * torch.randn(4, 2, 5, generator=torch.Generator().manual_seed(seed)) + 1
        torch.testing.assert_close(ours(image).view(4, 1, 10), theirs(image.view(4, 1, 10)))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    torch.testing.assert_close(ours.eval()(image).view(4, 1, 10), theirs.eval()(image.view(4, 1, 10)))


def test_images_are_as_square_as_they_can_be():
    assert [squarest_image(width) for width in (128, 200, 100, 7, 1)] == [(8, 16), (10, 20), (10, 10), (1, 7), (1, 1)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"encoder": "gat"},
        {"decoder": "gpt"},
        {"widths": (8,)},
        {"widths": (8, 0)},
        {"encoder": "rgcn", "widths": (9, 10), "blocks": 5},
        {"decoder": "complex", "widths": (8, 7)},
        {"decoder": "rotate", "widths": (8, 7)},
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(SettingsError):
        ModelSettings(**wrong)


def test_an_image_that_does_not_hold_the_vector_is_refused():
    with pytest.raises(SettingsError, match="image"):
        build_model(ModelSettings(decoder="conve", widths=(8, 8), image=(3, 3)), N, R)


def test_conve_convolves_once_per_head_and_relation_however_many_tails_are_asked_about(graph, monkeypatch):
    model = model_of("wgcn", "conve", 1, N, R)
    seen = model.encode(graph)
    triples = torch.tensor([(head, relation, tail) for head in (0, 3) for relation in (1, 2) for tail in range(N)])
    triples = triples[torch.randperm(len(triples), generator=torch.Generator().manual_seed(0))]
    expected = torch.stack([model.score(seen, triple.unsqueeze(0)).squeeze(0) for triple in triples])
    convolved, plain = [], model.decoder.query

    def counted(head, relation):
        convolved.append(len(head))
        return plain(head, relation)

    monkeypatch.setattr(model.decoder, "query", counted)
    torch.testing.assert_close(model.score(seen, triples), expected)
    assert sum(convolved) == 4


@pytest.mark.parametrize("most", [1, 7, 10**6])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("encoder", list(LAYERED))
def test_a_whole_graph_passed_in_pieces_is_encoded_as_at_once(encoder, layers, most, monkeypatch):
    rows = random_rows(2, 20, 3, 90)
    messages, model = messages_of(rows, 20, 3), model_of(encoder, "distmult", layers, 20, 3)
    with torch.no_grad():
        expected = model.encode(messages)
        pieces = model.encoder.in_pieces(messages, most)
        monkeypatch.setattr(link_model, "NUMBERS_AT_ONCE", (8 * most, 0))
        found = model.encode(messages)
    assert torch.allclose(pieces, expected.entity, rtol=1e-9)
    assert torch.allclose(found.entity, expected.entity, rtol=1e-9)
    assert torch.equal(found.relation, expected.relation)
    assert torch.equal(found.bias, expected.bias)
    learning = model.encode(messages)  # with slopes it is passed at once
    assert learning.entity.requires_grad
