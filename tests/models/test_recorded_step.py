"""Recorded steps do what plain ones do."""

from __future__ import annotations

import pytest
import torch

from builders import model_of, random_rows
from powerlink.explainers.learned import learner
from powerlink.explainers.learned.page_link import PaGELink
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.graphs.computation_graph import extract
from powerlink.graphs.message_graph import MessageGraph
from powerlink.models import recorded_step
from powerlink.models.recorded_step import RecordedIfPossible
from powerlink.models.session import undisturbed

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device to record on")


def test_without_a_gpu_every_step_is_taken_and_its_result_returned():
    total = torch.zeros(())

    def step():
        total.add_(1)
        return total.clone()

    run = RecordedIfPossible(step, torch.device("cpu"))
    assert [run().item() for _ in range(6)] == [1, 2, 3, 4, 5, 6]


@needs_cuda
def test_a_step_is_taken_once_per_call_whether_run_or_replayed():
    total = torch.zeros((), device="cuda")
    calls = []

    def step():
        calls.append(1)
        total.add_(1)
        return total * 2

    run = RecordedIfPossible(step, torch.device("cuda"))
    assert [run().item() for _ in range(9)] == [2, 4, 6, 8, 10, 12, 14, 16, 18]
    assert len(calls) < 9


@needs_cuda
def test_a_step_that_waits_for_the_device_is_never_recorded_and_still_taken_once_per_call():
    total = torch.zeros((), device="cuda")
    calls = []

    def step():
        calls.append(1)
        more = 1 + int((total > 3).sum().item())
        return total.add_(more).clone()

    run = RecordedIfPossible(step, torch.device("cuda"))
    assert [run().item() for _ in range(6)] == [1, 2, 3, 4, 6, 8]
    assert len(calls) == 7  # one was broken off
    assert torch.cuda.get_sync_debug_mode() == 0


@needs_cuda
@pytest.mark.parametrize("encoder", ["rgcn", "wgcn", "compgcn"])
@pytest.mark.parametrize("explainer", [PowerLink(steps=12), PowerLink(steps=12, combination="euclidean"), PaGELink()])
def test_masks_learned_by_replay_equal_those_of_the_plain_loop(encoder, explainer, monkeypatch):
    facts = torch.tensor(random_rows(3, 30, 3, 140))
    messages = MessageGraph.from_facts(facts, 30, 3, "cuda")
    model = model_of(encoder, "conve", 2, 30, 3).float().cuda()
    whole = model.encode(messages).detach()
    queries = torch.tensor([(0, 0, 1), (2, 1, 3), (4, 2, 9)])
    graph = extract(messages, queries, 2).with_features(whole.entity, whole.relation)
    with undisturbed(model):
        recorded = explainer.score_edges(model, graph, 0).values
        monkeypatch.setattr(learner, "RecordedIfPossible", lambda step, device: step)
        plain = explainer.score_edges(model, graph, 0).values
    torch.testing.assert_close(recorded, plain, rtol=1e-4, atol=1e-5)
    assert explainer.steps > recorded_step.RUNS_BEFORE_RECORDING + 2
