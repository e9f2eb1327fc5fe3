from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import fact_lists, knowledge_graph, known_tails, model_of, naive_rank, random_rows, triple_tensor
from powerlink.graphs.message_graph import MessageGraph
from powerlink.models.ranking import Accuracy, KnownFacts, KnownTails, filtered_ranks, rank_facts

N, R = 6, 2
TRIPLES = st.lists(
    st.tuples(st.integers(0, N - 1), st.integers(0, 2 * R - 1), st.integers(0, N - 1)), min_size=1, max_size=6
)


@given(fact_lists(N, R, 15), TRIPLES)
def test_known_tails_are_those_of_a_dictionary_over_both_directions(rows, triples):
    known = KnownTails.of(triple_tensor(rows).numpy(), R)
    head, relation, _ = triple_tensor(triples).unbind(1)
    owner, tail = known.lookup(head, relation)
    truth = known_tails(rows, R)
    found = sorted(zip(owner.tolist(), tail.tolist(), strict=True))
    assert found == sorted((i, t) for i, (h, r, _) in enumerate(triples) for t in truth.get((h, r), ()))
    assert {(h, r) for h, r in known.pairs.tolist()} == set(truth)


@given(fact_lists(N, R, 15), fact_lists(N, R, 5), TRIPLES)
def test_facts_known_by_the_message_graph_are_those_known_by_their_index(rows, held_out, triples):
    graph = knowledge_graph(rows, N, R, held_out[:2], held_out[2:])
    by_row = KnownFacts.of(graph, MessageGraph.of(graph))
    by_index = KnownTails.of(graph.all_facts, R)
    head, relation, _ = triple_tensor(triples).unbind(1)
    one, other = (torch.stack(known.lookup(head, relation)).unique(dim=1) for known in (by_row, by_index))
    assert torch.equal(one, other)
    assert torch.equal(*(known.left_out(triple_tensor(triples), N) for known in (by_row, by_index)))


@given(fact_lists(N, R, 15), TRIPLES, st.data())
def test_filtered_ranks_equal_a_loop_with_ties_at_their_mean(rows, triples, data):
    draws = st.lists(st.integers(-2, 2), min_size=N, max_size=N)  # few values: many ties
    logits = [data.draw(draws) for _ in triples]
    known = KnownTails.of(triple_tensor(rows).numpy(), R)
    found = filtered_ranks(torch.tensor(logits, dtype=torch.float32), triple_tensor(triples), known)
    truth = known_tails(rows, R)
    expected = [
        naive_rank(scores, t, truth.get((h, r), set())) for scores, (h, r, t) in zip(logits, triples, strict=True)
    ]
    assert found.tolist() == expected
    assert found.dtype == torch.float64


def test_a_score_that_is_not_a_number_is_not_ranked_first():
    known = KnownTails.of(triple_tensor([]).numpy(), R)
    logits = torch.full((1, N), torch.nan)
    assert filtered_ranks(logits, triple_tensor([(0, 0, 1)]), known).item() != 1


@given(
    st.lists(st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1.0]), min_size=N, max_size=N), st.integers(0, N - 1)
)
def test_what_is_not_a_number_ranks_last_and_known_tails_are_left_out_whatever_they_score(scores, tail):
    rows = [(0, 0, 2), (0, 0, 3), (0, 0, tail), (0, 0, 3)]  # a fact may be in two splits
    known = KnownTails.of(triple_tensor(rows).numpy(), R)
    ordered = [-2.0 if math.isnan(score) else max(score, -1.0) for score in scores]  # no number is below every number
    found = filtered_ranks(torch.tensor([scores]), triple_tensor([(0, 0, tail)]), known)
    assert found.item() == naive_rank(ordered, tail, {2, 3})


@pytest.mark.parametrize("batch_size", [1, 3, 512])
def test_facts_are_ranked_in_both_directions_against_everything_not_known(batch_size):
    rows = random_rows(0, 10, 2, 30)
    graph = knowledge_graph(rows[8:], 10, 2, valid=rows[:4], test=rows[4:8])
    model = model_of("compgcn", "distmult", 1, 10, 2)
    messages = MessageGraph.of(graph)
    heard = []
    ranks = rank_facts(model, graph, messages, "test", batch_size=batch_size, told=heard.append)
    assert sum(heard) == len(ranks) == 8
    assert max(heard) <= batch_size
    scores = model.score_tails
    embeddings = model.encode(messages)
    known = known_tails(rows, 2)
    expected = []
    for asked in ([(h, r, t) for h, r, t in rows[4:8]], [(t, r + 2, h) for h, r, t in rows[4:8]]):
        for head, relation, tail in asked:
            row = scores(embeddings, torch.tensor([head]), torch.tensor([relation]))[0].tolist()
            expected.append(naive_rank(row, tail, known[head, relation]))
    assert ranks.tolist() == expected


@pytest.mark.parametrize("decoder", ["transe", "distmult", "conve"])
def test_a_split_without_facts_has_no_ranks(decoder):
    graph = knowledge_graph([(0, 0, 1)], 3, 1)
    model = model_of("wgcn", decoder, 1, 3, 1)
    ranks = rank_facts(model, graph, MessageGraph.of(graph), "test")
    assert ranks.shape == (0,)
    assert Accuracy.of(ranks).as_dict() == {"mrr": 0, "hits@1": 0, "hits@3": 0, "hits@10": 0, "queries": 0}


def test_accuracy_is_the_mean_of_reciprocal_ranks_and_hits():
    accuracy = Accuracy.of(torch.tensor([1.0, 2.5, 10.0, 11.0]))
    assert accuracy.mrr == pytest.approx((1 + 0.4 + 0.1 + 1 / 11) / 4)
    assert (accuracy.hits_at_1, accuracy.hits_at_3, accuracy.hits_at_10) == (0.25, 0.5, 0.75)
    assert accuracy.queries == 4


def test_of_a_large_split_a_seeded_sample_is_ranked_and_said_to_be_one():
    rows = random_rows(0, 10, 2, 60)
    graph = knowledge_graph(rows[20:], 10, 2, test=rows[:20])
    model, messages = model_of("compgcn", "distmult", 1, 10, 2), MessageGraph.of(graph)
    whole = rank_facts(model, graph, messages, "test").view(2, -1)
    first, again, other = (
        rank_facts(model, graph, messages, "test", most=5, seed=seed).view(2, -1) for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    drawn = [i for i in range(whole.size(1)) if (whole[:, i : i + 1] == first).all(0).any()]
    assert len(drawn) >= 5, "tails and heads are of the same facts"
    assert torch.equal(rank_facts(model, graph, messages, "test", most=20).view(2, -1), whole)
    assert Accuracy.of(first.flatten(), of_facts=20).as_dict()["drawn_from"] == 40
    assert "drawn_from" not in Accuracy.of(whole.flatten(), of_facts=20).as_dict()
    embeddings = model.encode(messages)
    assert torch.equal(rank_facts(model, graph, messages, "test", embeddings=embeddings).view(2, -1), whole)
