from __future__ import annotations

import pytest
import torch

from builders import edges_of_fact, edges_without, knowledge_graph, model_of, random_rows, triple_tensor
from powerlink.evidence import EvidenceBatch
from powerlink.graphs.computation_graph import extract
from powerlink.models.session import Session
from powerlink.paths.propose import propose
from powerlink.verify.choice import choose_in_order
from powerlink.verify.oracle import Removal
from powerlink.verify.verdict import judge

N, R = 12, 2
ROWS = random_rows(4, N, R, 30)
QUERIES = [(0, 0, 1), ROWS[3], (ROWS[5][2], ROWS[5][1] + R, ROWS[5][0]), (4, 1, 9)]


@pytest.fixture(params=[1, 2])
def case(request):
    layers = request.param
    session = Session.of(knowledge_graph(ROWS, N, R), model_of("compgcn", "distmult", layers, N, R))
    graph = extract(session.messages, triple_tensor(QUERIES), 2)
    scores = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0)).clamp(min=0.05)
    candidates = propose(graph, scores, cost="inverse", count=9, min_length=1, max_length=3)
    candidates = EvidenceBatch.of_paths(candidates)
    paths = choose_in_order(graph, candidates, 4).edges_of(candidates)
    return session, graph, paths, judge(Removal.of(session, graph), paths, paper_mask=scores)


def score_without(session, graph, query, edges):
    gone = set(edges_of_fact(session.messages, tuple(graph.queries[query].tolist())))
    for edge in edges:
        if edge >= 0:
            gone |= {int(graph.edge[edge]), int(graph.edge[graph.reverse[edge]])}
    with torch.no_grad():
        encoded = session.model.encode(edges_without(session.messages, sorted(gone)))
        return session.model.score(encoded, graph.queries[query : query + 1]).item()


def test_each_path_the_first_m_and_all_are_judged_on_the_whole_graph(case):
    session, graph, paths, verdict = case
    for q in range(len(QUERIES)):
        for place in range(4):
            expected = score_without(session, graph, q, paths[q, place].tolist())
            assert verdict.without_each.score[q, place].item() == pytest.approx(expected, abs=1e-9)
        for top in (1, 3, 5):
            expected = score_without(session, graph, q, paths[q, :top].flatten().tolist())
            assert verdict.without_top[top].score[q].item() == pytest.approx(expected, abs=1e-9)
        expected = score_without(session, graph, q, paths[q].flatten().tolist())
        assert verdict.without_all.score[q].item() == pytest.approx(expected, abs=1e-9)
    assert list(verdict.without_top) == [1, 3, 5]


def test_a_hop_is_visible_exactly_where_the_models_score_can_feel_it(case):
    session, graph, paths, verdict = case
    weight = torch.ones(graph.num_edges, dtype=torch.float64, requires_grad=True)
    score = session.model.score(session.model.encode(graph, weight), graph.triples)
    (gradient,) = torch.autograd.grad(score.sum(), weight)
    felt = (gradient != 0) | (gradient[graph.reverse] != 0)
    expected = felt[paths.clamp(min=0)] & (paths >= 0)
    assert torch.equal(verdict.visible, expected)
    if session.model.num_layers == 1:
        assert not verdict.visible[paths >= 0].all()  # the middle hop of three is out of sight
