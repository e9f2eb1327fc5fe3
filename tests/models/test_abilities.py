"""What a class inherits to be fast is not used where it overrides what that was meant for."""

from __future__ import annotations

import torch

from builders import computation_graph, edges_without, knowledge_graph, model_of, random_rows
from powerlink.graphs.what_if import Removals
from powerlink.models.link_model import EncoderDecoder
from powerlink.models.protocol import Abilities, Embeddings, abilities_of, logits_by_weight
from powerlink.models.ranking import score_tails, score_tails_of
from powerlink.testing import check_link_model
from powerlink.verify.counterfactual import scores_without

N, R = 12, 2
ROWS = random_rows(0, N, R, 40)
QUERIES = [(0, 0, 1), (2, 1, 3), (4, 1, 9)]


class Spread(EncoderDecoder):
    """Nodes also read how unlike their messages are: that is no sum."""

    num_layers = 1

    def encode(self, graph, edge_weight=None):
        weight = torch.ones(graph.num_edges, dtype=torch.float64) if edge_weight is None else edge_weight.double()
        sent = self.encoder.entity[graph.entity][graph.source] * weight.unsqueeze(1)
        empty = torch.zeros(graph.num_nodes, sent.size(1), dtype=sent.dtype)
        square = empty.index_add(0, graph.target, sent**2)
        nodes = empty.index_add(0, graph.target, sent) + (square + 1e-3).sqrt()
        return Embeddings(nodes, self.encoder.relation, self.bias[graph.entity])


class Claiming(Spread):
    abilities = Abilities(Spread, adds_messages=True)


class Negated(EncoderDecoder):
    def score(self, embeddings, triples):
        return -super().score(embeddings, triples)

    def score_tails(self, embeddings, head, relation):
        return -super().score_tails(embeddings, head, relation)


class Tripled:
    """Hands everything on to another model, but for the score."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def score(self, embeddings, triples):
        return 3 * self._inner.score(embeddings, triples)


def of(kind):
    plain = model_of("rgcn", "distmult", 1, N, R)
    plain.__class__ = kind
    return plain


def test_a_subclass_that_passes_messages_otherwise_is_proved_by_real_removal():
    model = of(Spread)
    assert abilities_of(model_of("rgcn", "distmult", 1, N, R)).adds_messages
    assert not abilities_of(model).adds_messages
    graph = computation_graph(ROWS, N, R, QUERIES, 1)
    into = [(graph.target == head).nonzero()[0, 0] for head in graph.head]
    query = torch.arange(len(QUERIES))
    found = scores_without(model, graph, query, Removals.of(graph, len(QUERIES), query, torch.stack(into)))
    for place, edge in enumerate(into):
        real = model.score(model.encode(edges_without(graph, [int(edge)])), graph.triples[place : place + 1])
        torch.testing.assert_close(found[place : place + 1], real)


def test_a_model_that_claims_to_add_and_does_not_is_told():
    assert check_link_model(of(Spread), knowledge_graph(ROWS, N, R)) == []
    assert "adds_messages" in " ".join(check_link_model(of(Claiming), knowledge_graph(ROWS, N, R)))


def test_a_subclass_that_scores_otherwise_is_ranked_by_its_own_scores():
    model, graph = of(Negated), computation_graph(ROWS, N, R, QUERIES, 1)
    seen = model.encode(graph)
    head, relation = graph.head, graph.queries[:, 1]
    assert abilities_of(model) == Abilities(Negated)
    torch.testing.assert_close(
        score_tails_of(model, seen, seen, head, relation), score_tails(model, seen, head, relation)
    )


def test_a_wrapper_is_asked_itself_while_masks_are_learned():
    model, graph = Tripled(model_of("rgcn", "distmult", 1, N, R)), computation_graph(ROWS, N, R, QUERIES, 1)
    weight = torch.linspace(0, 1, graph.num_edges, dtype=torch.float64)
    expected = model.score(model.encode(graph, weight), graph.triples)
    torch.testing.assert_close(logits_by_weight(model, graph, graph.triples)(weight), expected)


def test_a_method_that_an_object_has_of_its_own_is_not_what_its_class_speaks_for():
    model = of(EncoderDecoder)
    assert abilities_of(model).score_tails
    model.score = lambda embeddings, triples: -EncoderDecoder.score(model, embeddings, triples)
    assert abilities_of(model) == Abilities(EncoderDecoder)


def test_a_subclass_that_scores_tails_otherwise_is_not_asked_for_those_beside_other_heads():
    class Doubled(EncoderDecoder):
        def score_tails(self, embeddings, head, relation):
            return 2 * super().score_tails(embeddings, head, relation)

    assert abilities_of(of(Doubled)) == Abilities(Doubled)


def test_a_subclass_that_leaves_the_methods_as_they_are_is_believed():
    class Named(EncoderDecoder):
        pass

    assert abilities_of(of(Named)).adds_messages
