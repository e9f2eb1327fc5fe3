"""check_link_model finds every mistake it names, and nothing in models that are right."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from builders import knowledge_graph, model_of, random_rows
from powerlink.kg.planted import plant
from powerlink.models.protocol import Abilities, Embeddings
from powerlink.models.rule_model import RuleModel
from powerlink.testing import check_link_model

N, R, WIDTH = 12, 3, 6
GRAPH = knowledge_graph(random_rows(0, N, R, 30), N, R)


class Right(nn.Module):
    """Two layers of weighted sums with residuals; broken below in one way each."""

    num_layers = 2

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.entity = nn.Parameter(torch.randn(N, WIDTH))
            self.relation = nn.Parameter(torch.randn(2 * R, WIDTH))
            self.layer = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("asked", torch.zeros(()))

    def start(self, graph):
        return self.entity[graph.entity]

    def receive(self, graph, nodes, weight):
        messages = nodes[graph.source] * self.relation[graph.relation]
        if weight is not None:
            messages = messages * weight.unsqueeze(1)
        return torch.zeros_like(nodes).index_add(0, graph.target, messages)

    def encode(self, graph, edge_weight=None):
        nodes = self.start(graph)
        for _ in range(2):
            nodes = torch.tanh(nodes + self.layer(self.receive(graph, nodes, edge_weight)))
        return Embeddings(nodes, self.relation)

    def score(self, embeddings, triples):
        head, relation, tail = triples.unbind(1)
        return (embeddings.entity[head] * embeddings.relation[relation] * embeddings.entity[tail]).sum(1)


def test_what_is_right_is_found_right():
    model = Right().train()
    assert check_link_model(model, GRAPH) == []
    assert model.training


@pytest.mark.parametrize("encoder", ["rgcn", "wgcn", "compgcn"])
@pytest.mark.parametrize("decoder", ["transe", "distmult", "conve"])
def test_our_own_models_are_found_right(encoder, decoder):
    assert check_link_model(model_of(encoder, decoder, 2, N, R).float(), GRAPH) == []


def test_a_model_without_parameters_is_found_right():
    planted = plant(0)
    graph = planted.graph
    assert check_link_model(RuleModel(planted.rules, graph.num_entities, graph.num_relations), graph) == []


def test_a_model_that_encodes_otherwise_than_its_parent_is_not_asked_by_its_parents_preparation():
    assert check_link_model(InheritsAnotherPreparation(), GRAPH) == []


class IgnoresWeights(Right):
    def receive(self, graph, nodes, weight):
        return super().receive(graph, nodes, None)


class WeighsOneLayer(Right):
    def encode(self, graph, edge_weight=None):
        nodes = self.start(graph)
        for weight in (edge_weight, None):
            nodes = torch.tanh(nodes + self.layer(self.receive(graph, nodes, weight)))
        return Embeddings(nodes, self.relation)


class BakedIn(Right):
    """Keeps the first graph it sees."""

    def encode(self, graph, edge_weight=None):
        self.__dict__.setdefault("kept", super().encode(graph).entity.detach())
        nodes = self.kept[graph.entity]
        return Embeddings(nodes if edge_weight is None else nodes * edge_weight.mean(), self.relation)


class ByNode(Right):
    def start(self, graph):
        return self.entity[torch.arange(graph.num_nodes) % N]


class AllEntities(Right):
    def encode(self, graph, edge_weight=None):
        return Embeddings(self.entity * 1.0, self.relation)


class NotDifferentiable(Right):
    def receive(self, graph, nodes, weight):
        return super().receive(graph, nodes, weight).detach()

    def start(self, graph):
        return super().start(graph).detach()


class DropoutLeftOn(Right):
    def start(self, graph):
        return nn.functional.dropout(super().start(graph), 0.5)


class TooFar(Right):
    num_layers = 1


class OneScore(Right):
    def score(self, embeddings, triples):
        return super().score(embeddings, triples).unsqueeze(1)


class NarrowRelations(Right):
    def encode(self, graph, edge_weight=None):
        return Embeddings(super().encode(graph, edge_weight).entity, self.relation[:, :2])


class FewRelations(Right):
    def encode(self, graph, edge_weight=None):
        return Embeddings(super().encode(graph, edge_weight).entity, self.relation[:R])


class Pair(Right):
    def encode(self, graph, edge_weight=None):
        found = super().encode(graph, edge_weight)
        return found.entity, found.relation


class Counts(Right):
    def encode(self, graph, edge_weight=None):
        self.asked += 1
        return super().encode(graph, edge_weight)


class Draws(Right):
    def encode(self, graph, edge_weight=None):
        torch.rand(1)
        return super().encode(graph, edge_weight)


class OnesMatter(Right):
    def encode(self, graph, edge_weight=None):
        found = super().encode(graph, edge_weight)
        return found if edge_weight is None else Embeddings(2 * found.entity, found.relation)


class OtherTails(Right):
    @property
    def abilities(self):
        return Abilities(Right, score_tails=self.score_tails)

    def score_tails(self, embeddings, head, relation):
        return embeddings.entity[head] @ embeddings.entity.t()


class OtherwisePrepared(Right):
    def encode(self, graph, edge_weight=None):
        return super().encode(graph, edge_weight)

    def score(self, embeddings, triples):
        return super().score(embeddings, triples)

    @property
    def abilities(self):
        return Abilities(OtherwisePrepared, prepare_logits=self.prepare_logits)

    def prepare_logits(self, graph, triples):
        return lambda weight: self.score(self.encode(graph, weight.flip(0)), triples)


class InheritsAnotherPreparation(OtherwisePrepared):
    def encode(self, graph, edge_weight=None):
        return super().encode(graph, edge_weight)


class NoScore:
    num_layers = 0

    def encode(self, graph, edge_weight=None):
        raise AssertionError


class Raises(Right):
    def encode(self, graph, edge_weight=None):
        raise KeyError("edge_attr")


class NotANumber(Right):
    def start(self, graph):
        return super().start(graph) / 0 * 0


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (IgnoresWeights, "ignores edge_weight"),
        (OtherwisePrepared, "prepare_logits and score disagree"),
        (WeighsOneLayer, "weight zero is not the graph without that edge"),
        (BakedIn, "baked into the model"),
        (ByNode, "index parameters by graph.entity"),
        (AllEntities, "row per node of the graph it is given, (24, d) here, not (12, 6)"),
        (NotDifferentiable, "has no gradient by edge_weight"),
        (DropoutLeftOn, "dropout or sampling is left on"),
        (TooFar, "num_layers = 1"),
        (OneScore, "one logit per triple, (8,) here, not (8, 1)"),
        (NarrowRelations, "equally wide"),
        (FewRelations, "a row per relation and per inverse, (6, d) here, not (3, 6)"),
        (Pair, "must return powerlink.Embeddings(entity, relation), not tuple"),
        (Counts, "changed its asked"),
        (Draws, "drew random numbers"),
        (OnesMatter, "weights of one change"),
        (OtherTails, "score_tails and score disagree"),
        (NoScore, "num_layers must be"),
        (Raises, "raised KeyError"),
        (NotANumber, "NaN"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_what_is_wrong_is_told_in_a_sentence(model, sentence):
    problems = check_link_model(model(), GRAPH)
    assert any(sentence in problem for problem in problems), problems
    assert all("\n" not in problem for problem in problems)


def test_missing_members_are_all_told():
    assert [problem.split("(")[0] for problem in check_link_model(NoScore(), GRAPH)][1:] == [
        "the model has no method score"
    ]


def test_a_graph_without_facts_checks_nothing():
    assert "no training facts" in check_link_model(Right(), knowledge_graph([], N, R))[0]
