"""The twin of a model that computes in float64: the same function, more exactly, and no second copy of its entities."""

from __future__ import annotations

import copy

import pytest
import torch

from builders import knowledge_graph, model_of, random_rows, triple_tensor
from powerlink.models.protocol import abilities_of
from powerlink.models.subject import Subject

N, R = 12, 3
GRAPH = knowledge_graph(random_rows(1, N, R, 40), N, R)
TRIPLES = triple_tensor([(0, 0, 1), (2, 4, 3), (5, 1, 6)])


@pytest.fixture(params=["rgcn-transe", "wgcn-conve", "compgcn-distmult"])
def model(request):
    return model_of(*request.param.split("-"), 2, N, R).float()


def test_the_twin_is_the_model_in_float64(model):
    messages = Subject.of(GRAPH, model).messages
    exact = copy.deepcopy(model).double()
    twin = model.in_double()
    with torch.no_grad():
        expected = exact.score(exact.encode(messages), TRIPLES)
        found = twin.score(twin.encode(messages), TRIPLES)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_entities_are_shared_and_the_model_is_left_as_it_was(model):
    model.train()
    before = {name: (numbers.dtype, numbers.clone()) for name, numbers in model.state_dict().items()}
    learning = [parameter.requires_grad for parameter in model.parameters()]
    twin = model.in_double()
    assert twin.encoder.entity is model.encoder.entity
    assert not twin.training
    assert model.training
    for name, numbers in model.state_dict().items():
        assert numbers.dtype == before[name][0]
        assert torch.equal(numbers, before[name][1])
    assert [parameter.requires_grad for parameter in model.parameters()] == learning


def test_a_subject_asks_the_twin_where_there_is_one(model):
    subject = Subject.of(GRAPH, model)
    assert abilities_of(model).in_double
    assert subject.precise is subject.precise
    assert subject.precise is not model
    white_box = torch.nn.Linear(1, 1)
    white_box.num_layers = 1
    white_box.encode = lambda graph, edge_weight=None: subject.model.encode(graph, edge_weight)
    white_box.score = subject.model.score
    plain = Subject.of(GRAPH, white_box)
    assert plain.precise is plain.settled
