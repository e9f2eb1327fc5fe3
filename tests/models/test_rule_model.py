"""The rule model against counting walks by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.graphs.computation_graph import extract
from powerlink.graphs.edges import Edges
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kg.planted import GOALS, Planted, PlantedSettings, Rule, plant
from powerlink.models.protocol import LinkModel
from powerlink.models.ranking import rank_facts
from powerlink.models.rule_model import RuleModel

SMALL = PlantedSettings(entities=30, instances=4, scattered=40, hubs=1, hub_facts=15)


@pytest.fixture(scope="module")
def planted() -> Planted:
    return plant(0, SMALL)


@pytest.fixture(scope="module")
def model(planted: Planted) -> RuleModel:
    return RuleModel(planted.rules, planted.graph.num_entities, planted.graph.num_relations, dtype=torch.float64)


@pytest.fixture(scope="module")
def messages(planted: Planted) -> MessageGraph:
    return MessageGraph.of(planted.graph)


def random_weight(graph: Edges, seed: int = 0) -> Tensor:
    return torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def all_triples(planted: Planted) -> Tensor:
    return torch.from_numpy(planted.graph.all_facts.copy())


def counted(model: RuleModel, graph: Edges, weight: Tensor, head: int, relation: int, tail: int) -> float:
    """Sum the products of weights over every rule walk, one walk at a time."""
    edges = list(
        zip(graph.source.tolist(), graph.relation.tolist(), graph.target.tolist(), weight.tolist(), strict=True)
    )
    leaving: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for source, hop, target, value in edges:
        leaving.setdefault((source, hop), []).append((target, value))
    total = 0.0
    for rule in model.rules:
        if rule.relation != relation:
            continue
        walks = [(head, rule.confidence)]
        for hop in rule.body:
            walks = [(t, value * w) for node, value in walks for t, w in leaving.get((node, hop), [])]
        total += sum(value for node, value in walks if node == tail)
    return model.scale * total + model.offset


def test_it_is_a_link_model(model: RuleModel) -> None:
    assert isinstance(model, LinkModel)
    assert model.num_layers == 3


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_count_walks(planted: Planted, model: RuleModel, messages: MessageGraph, weighted: bool) -> None:
    weight = random_weight(messages) if weighted else torch.ones(messages.num_edges, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    anything = torch.randint(planted.graph.num_entities, (60, 3), generator=generator)
    anything[:, 1] = anything[:, 1] % planted.graph.num_relations
    triples = torch.cat([all_triples(planted)[-40:], anything])
    scores = model.score(model.encode(messages, weight if weighted else None), triples)
    exact = [counted(model, messages, weight, *triple) for triple in triples.tolist()]
    expected = torch.tensor(exact, dtype=torch.float64)
    torch.testing.assert_close(scores, expected, rtol=1e-9, atol=1e-9)
    assert (expected > 0).any()
    assert (expected < 0).any()


def test_a_prediction_stands_with_its_paths_and_falls_without(planted: Planted, messages: MessageGraph) -> None:
    model = RuleModel(planted.rules, planted.graph.num_entities, planted.graph.num_relations)
    test = torch.from_numpy(planted.graph.test.copy())
    assert model.score(model.encode(messages), test).min() > 5
    nothing = model.score(model.encode(messages, torch.zeros(messages.num_edges)), test)
    torch.testing.assert_close(nothing, torch.full_like(nothing, model.offset))
    assert rank_facts(model, planted.graph, messages, "test").median() < 2


def test_an_inverse_query_has_the_score_of_the_fact(planted: Planted, model: RuleModel, messages: MessageGraph) -> None:
    triples = all_triples(planted)
    head, relation, tail = triples.unbind(1)
    inverse = torch.stack([tail, relation + planted.graph.num_relations, head], dim=1)
    embeddings = model.encode(messages, random_weight(messages))
    assert torch.equal(model.score(embeddings, triples), model.score(embeddings, inverse))


def test_all_tails_at_once_agree_with_one_by_one(planted: Planted, model: RuleModel, messages: MessageGraph) -> None:
    embeddings = model.encode(messages, random_weight(messages))
    relation = torch.arange(2 * planted.graph.num_relations)
    head = relation % planted.graph.num_entities
    nodes = torch.arange(messages.num_nodes)
    one_by_one = [
        model.score(embeddings, torch.stack([h.expand_as(nodes), r.expand_as(nodes), nodes], dim=1))
        for h, r in zip(head, relation, strict=True)
    ]
    torch.testing.assert_close(model.score_tails(embeddings, head, relation), torch.stack(one_by_one))


def test_gradients_by_edge_weight(planted: Planted, model: RuleModel, messages: MessageGraph) -> None:
    test = torch.from_numpy(planted.graph.test[:6].copy())
    weight = random_weight(messages).requires_grad_()
    assert torch.autograd.gradcheck(lambda w: model.score(model.encode(messages, w), test), weight, fast_mode=True)


def test_weight_zero_is_deletion(planted: Planted, model: RuleModel, messages: MessageGraph) -> None:
    kept = random_weight(messages) > 0.3
    fewer = Edges(
        num_relations=messages.num_relations,
        entity=messages.entity,
        source=messages.source[kept],
        target=messages.target[kept],
        relation=messages.relation[kept],
        norm=messages.norm[kept],
    )
    masked, deleted = model.encode(messages, kept.double()), model.encode(fewer)
    assert torch.equal(masked.entity, deleted.entity)


@pytest.mark.parametrize("inverse", [False, True])
def test_a_computation_graph_sees_all_that_matters(
    planted: Planted, model: RuleModel, messages: MessageGraph, inverse: bool
) -> None:
    queries = torch.from_numpy(planted.graph.test.copy())
    if inverse:
        head, relation, tail = queries.unbind(1)
        queries = torch.stack([tail, relation + planted.graph.num_relations, head], dim=1)
    whole = model.score(model.encode(messages, weight := random_weight(messages)), queries)
    graph = extract(messages, queries, model.num_layers)
    cut = model.score(model.encode(graph, weight[graph.edge]), graph.triples)
    torch.testing.assert_close(cut, whole, rtol=1e-9, atol=1e-9)


def test_a_relation_without_rules_is_never_believed(planted: Planted, model: RuleModel, messages: MessageGraph) -> None:
    noise = GOALS
    triples = torch.tensor([[0, noise, 0], [1, noise + planted.graph.num_relations, 1]])
    scores = model.score(model.encode(messages), triples)
    assert scores.tolist() == [model.offset, model.offset]


@pytest.mark.parametrize("rules", [(), (Rule(9, (0, 1), 1.0),), (Rule(0, (), 1.0),), (Rule(0, (7,), 1.0),)])
def test_rules_that_cannot_be_followed_are_refused(rules: tuple[Rule, ...]) -> None:
    with pytest.raises(SettingsError):
        RuleModel(rules, num_entities=5, num_relations=3)
