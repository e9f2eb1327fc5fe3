"""A graph passed layer by layer and in pieces, against encoding everything again for every scenario."""

from __future__ import annotations

import pytest
import torch

from builders import edges_without, messages_of, model_of, random_rows
from powerlink.graphs.what_if import Removals
from powerlink.models import layer_by_layer
from powerlink.models.layer_by_layer import LayerByLayer

N, R = 30, 3
HUB = [(i, i % R, 0) for i in range(1, 25)] + [(0, 1, i) for i in range(3, 20)]
ROWS = list(dict.fromkeys(HUB + random_rows(5, N, R, 40)))
MODELS = ["compgcn-distmult", "rgcn-distmult", "wgcn-distmult", "compgcn-transe"]


def scenarios(messages):
    """Some edges of each scenario, both directions of a fact, the hub's among them; one that removes nothing."""
    generator = torch.Generator().manual_seed(0)
    told = [[]]
    for count in (1, 2, 5, 40):
        some = torch.randperm(messages.num_edges, generator=generator)[:count]
        told.append(sorted({*some.tolist(), *messages.reverse[some].tolist()}))
    return told


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("numbers", "long"), [(2**22, 4096), (64, 6), (8, 2)])
def test_what_changes_equals_a_full_encoding_without_the_edges(monkeypatch, name, layers, numbers, long):
    monkeypatch.setattr(layer_by_layer, "NUMBERS_AT_ONCE", numbers)
    monkeypatch.setattr(layer_by_layer, "LONG", long)
    model, messages = model_of(*name.split("-"), layers, N, R), messages_of(ROWS, N, R)
    told = scenarios(messages)
    scenario = torch.cat([torch.full((len(edges),), s) for s, edges in enumerate(told)])
    removals = Removals.of(messages, len(told), scenario, torch.tensor([edge for edges in told for edge in edges]))
    passed = LayerByLayer.of(model, messages)
    inside = passed.changed_inside(removals)
    changed = passed.changed_at_last(removals, inside)
    everything = torch.arange(len(told) * N)
    found = passed.encode(everything, inside, removals).entity.view(len(told), N, -1)
    ends = torch.tensor([[0, 7]] * len(told))
    near = passed.changed_inside(removals, ends)
    at_ends = passed.encode((torch.arange(len(told)).unsqueeze(1) * N + ends).flatten(), near, removals)
    with torch.no_grad():
        before = model.encode(messages).entity
        for s, edges in enumerate(told):
            expected = model.encode(edges_without(messages, edges)).entity
            torch.testing.assert_close(found[s], expected, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(at_ends.entity.view(len(told), 2, -1)[s], expected[[0, 7]], atol=1e-5, rtol=1e-4)
            differs = ((expected - before).abs().amax(1) > 1e-5).nonzero().squeeze(1)
            assert set(differs.tolist()) <= set((changed[changed // N == s] % N).tolist())
