"""A model is settled once: threads, odd states of torch and its owner's flags do not reach the answers."""

from __future__ import annotations

import itertools
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch

import powerlink
from builders import knowledge_graph, model_of, random_rows
from powerlink.errors import ModelError
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.models.link_model import ModelSettings
from powerlink.models.session import Session, rank
from powerlink.models.training import TrainingSettings
from powerlink.pipeline import ExplainSettings
from powerlink.report.schema import to_json
from powerlink.run.explain_many import explain

N, R = 14, 3
GRAPH = knowledge_graph(random_rows(1, N, R, 60), N, R, valid=[(0, 0, 5), (3, 1, 7)])
ASKED = [(h, r, t) for h, r, t in itertools.product((0, 2, 3), (0, 1), (5, 7, 9)) if h != t][:10]
QUICK = {"explainer": PowerLink(steps=3), "settings": ExplainSettings(candidates=8)}


@pytest.fixture(params=["compgcn-distmult", "wgcn-conve"])
def model(request):
    return model_of(*request.param.split("-"), 2, N, R).float()


def answers(session, triple, **how):
    names = [GRAPH.entities[triple[0]], GRAPH.relations[triple[1]], GRAPH.entities[triple[2]]]
    return to_json(explain(session, *names, **how))


@pytest.mark.parametrize("how", [{}, QUICK], ids=["default", "power-link"])
def test_eight_threads_answer_as_one_does_while_another_draws_and_the_owner_trains(model, how):
    session = Session.of(GRAPH, model.train())
    serial = {triple: answers(session, triple, **how) for triple in ASKED}
    next(model.parameters()).requires_grad_(False)
    flags = [m.training for m in model.modules()], [p.requires_grad for p in model.parameters()]
    stop = threading.Event()

    def noise():
        while not stop.wait(0.0005):
            torch.randn(10)

    asked = ASKED * (80 if not how else 10)
    with ThreadPoolExecutor(9) as pool:
        pool.submit(noise)
        try:
            got = list(pool.map(lambda triple: answers(session, triple, **how), asked))
        finally:
            stop.set()
    assert got == [serial[triple] for triple in asked]
    assert flags == ([m.training for m in model.modules()], [p.requires_grad for p in model.parameters()])


@contextmanager
def default_dtype(kind):
    before = torch.get_default_dtype()
    torch.set_default_dtype(kind)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


STATES = {
    "inference mode": torch.inference_mode,
    "no grad": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "float64": lambda: default_dtype(torch.float64),
    "float16": lambda: default_dtype(torch.float16),
    "another device": lambda: torch.device("meta"),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("how", [{}, QUICK], ids=["default", "power-link"])
def test_odd_states_of_torch_change_nothing_and_are_left_as_they_were(model, state, how):
    session = Session.of(GRAPH, model)
    plain, accuracy = [answers(session, triple, **how) for triple in ASKED[:3]], rank(session, "valid").mrr
    with STATES[state]():
        said = torch.get_default_dtype(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
        there = Session.of(GRAPH, model)
        for each in (session, there):
            assert [answers(each, triple, **how) for triple in ASKED[:3]] == plain
            assert rank(each, "valid").mrr == accuracy
        assert said == (torch.get_default_dtype(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"))


@pytest.mark.parametrize("state", STATES)
def test_a_model_is_trained_and_loaded_alike_in_odd_states_of_torch(state, tmp_path):
    how = {"model": ModelSettings(widths=(8, 8)), "training": TrainingSettings(epochs=3, evaluate_every=3)}
    plain = powerlink.train(GRAPH, tmp_path / "plain", **how)
    with STATES[state]():
        odd = powerlink.train(GRAPH, tmp_path / "odd", **how)
        again = powerlink.load_model(tmp_path / "plain")
    for one, exact in ((odd, False), (again, True)):
        assert (one.whole.entity.dtype, one.whole.entity.device.type) == (torch.float32, "cpu")
        assert torch.allclose(one.whole.entity, plain.whole.entity, atol=0 if exact else 1e-6)


def test_a_model_made_in_inference_mode_can_be_explained():
    with torch.inference_mode():
        made = model_of("compgcn", "distmult", 2, N, R).float()
    plain = model_of("compgcn", "distmult", 2, N, R).float()
    assert answers(Session.of(GRAPH, made), ASKED[0]) == answers(Session.of(GRAPH, plain), ASKED[0])


def test_what_is_settled_shares_the_numbers_and_nothing_else(model):
    session = Session.of(GRAPH, model.train())
    assert session.model is model
    assert all(module.training for module in model.modules())
    assert not any(module.training for module in session.settled.modules())
    own, theirs = model.state_dict(), session.settled.state_dict()
    assert {name: tensor.data_ptr() for name, tensor in own.items()} == {n: t.data_ptr() for n, t in theirs.items()}


def test_a_session_travels_to_another_process_and_a_half_model_is_told(model):
    session = Session.of(GRAPH, model)
    there = pickle.loads(pickle.dumps(session))
    assert answers(there, ASKED[0]) == answers(session, ASKED[0])
    with pytest.raises(ModelError, match=r"is in torch.float16, which cpu cannot compute in .*: give model.float\(\)"):
        Session.of(GRAPH, model.half())
