from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch

from builders import LAYERED, knowledge_graph, random_rows, settings_of
from powerlink.errors import ModelError
from powerlink.models import training
from powerlink.models.catalog import DECODERS
from powerlink.models.link_model import ModelSettings, build_model
from powerlink.models.training import Trainer, TrainingSettings

N, R = 12, 2
ROWS = random_rows(0, N, R, 30)
MODELS = ["rgcn-distmult", "wgcn-transe", "compgcn-conve"]


def graph_of(valid=4):
    return knowledge_graph(ROWS[valid:], N, R, valid=ROWS[:valid])


def trainer_of(name="compgcn-distmult", graph=None, seed=0, **settings):
    model = build_model(settings_of(*name.split("-"), 1), N, R, seed)
    defaults = {"epochs": 6, "batch_size": 10, "lr": 0.01, "evaluate_every": 2, "patience": 100}
    return Trainer(model, graph or graph_of(), TrainingSettings(**defaults | settings), "cpu")


@pytest.mark.parametrize("name", MODELS)
def test_training_lowers_the_loss(name):
    losses = [report.loss for report in trainer_of(name, epochs=40, evaluate_every=100).run()]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("name", [f"{encoder}-{decoder}" for encoder in LAYERED for decoder in DECODERS])
def test_an_untrained_model_starts_near_the_loss_of_saying_one_in_n(name):
    """Logits that scatter widely, or all lie far off, cost epochs before anything is learned."""
    encoder, decoder = name.split("-")
    shape = ModelSettings(encoder=encoder, decoder=decoder, widths=(100, 100))
    trainer = Trainer(build_model(shape, N, R), graph_of(), TrainingSettings(batch_size=10**6), "cpu")
    pairs, targets = trainer.targets.pairs.size(0), trainer.targets.tail.numel()
    right = 0.9 * targets / (pairs * N) + 1 / N  # mean label
    prior = torch.tensor(1 / N)
    expected = -(right * prior.log() + (1 - right) * (1 - prior).log()).item()
    assert 0.7 * expected < trainer._step(torch.arange(pairs)).item() < 4 * expected


def test_the_loss_of_the_first_step_is_smoothed_cross_entropy_over_all_tails():
    trainer = trainer_of(batch_size=10**6)
    trainer.model.eval()  # no dropout: the first step's loss can be computed by hand
    pairs, targets = trainer.targets.pairs, trainer.targets
    logits = trainer.model.score_tails(trainer.model.encode(trainer.messages), *pairs.unbind(1))
    labels = torch.full_like(logits, 1 / N)
    for row, (first, last) in enumerate(zip(targets.row[:-1].tolist(), targets.row[1:].tolist(), strict=True)):
        for tail in targets.tail[first:last].tolist():
            labels[row, tail] = 0.9 + 1 / N
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
    assert trainer._step(torch.arange(len(pairs))).item() == pytest.approx(expected.item(), rel=1e-6)


def snapshot(trainer):
    tensors, counters = trainer.state()
    return {name: value.clone() for name, value in tensors.items()}, dict(counters)


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


@pytest.mark.parametrize("name", MODELS)
def test_resuming_gives_to_the_last_bit_what_an_uninterrupted_run_gives(name):
    whole = trainer_of(name)
    reports = list(whole.run())
    first = trainer_of(name)
    running = first.run()
    head = [next(running) for _ in range(3)]
    saved = snapshot(first)
    second = trainer_of(name, seed=99)  # other initial weights: all must come from the saved state
    second.restore(*saved)
    tail = list(second.run())
    assert [*head, *tail] == reports
    assert_same(snapshot(whole)[0], snapshot(second)[0])
    assert snapshot(whole)[1] == snapshot(second)[1]


def test_a_state_taken_in_the_middle_is_not_changed_by_further_training():
    trainer = trainer_of()
    running = trainer.run()
    next(running)
    tensors, _ = trainer.state()
    copy = {name: value.clone() for name, value in tensors.items()}
    next(running)
    assert_same(copy, tensors)


def test_the_same_seed_gives_the_same_model_and_another_another():
    runs = [trainer_of(), trainer_of(), trainer_of(**{"seed": 0, "batch_size": 10})]
    runs[2].settings = TrainingSettings(**{**vars(runs[2].settings), "seed": 1})
    for trainer in runs:
        list(trainer.run())
    first, same, other = (snapshot(trainer)[0] for trainer in runs)
    assert_same(first, same)
    assert not torch.equal(first["model.encoder.entity"], other["model.encoder.entity"])


def test_training_depends_neither_on_the_global_generator_nor_moves_it():
    torch.manual_seed(1)
    first = trainer_of()
    before = torch.get_rng_state()
    list(first.run())
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    second = trainer_of()
    list(second.run())
    assert_same(snapshot(first)[0], snapshot(second)[0])


def test_training_stops_when_validation_gets_no_better():
    trainer = trainer_of(epochs=50, evaluate_every=1, patience=2, lr=1e-12)
    reports = list(trainer.run())
    assert len(reports) == 3  # the best at once, then two without improvement
    assert [report.improved for report in reports] == [True, False, False]
    assert [report.stop for report in reports] == [False, False, True]
    assert trainer.finished
    assert list(trainer.run()) == []


def test_validation_happens_as_often_as_asked_and_at_the_end():
    reports = list(trainer_of(epochs=5, evaluate_every=2).run())
    assert [report.validation is not None for report in reports] == [False, True, False, True, True]


def test_a_graph_without_validation_facts_is_judged_by_its_training_facts():
    trainer = trainer_of(graph=knowledge_graph(ROWS, N, R))
    assert trainer.validate().queries == 2 * len(ROWS)


@pytest.mark.parametrize("name", ["rgcn-transe", "wgcn-distmult", "compgcn-conve"])
def test_a_last_batch_of_one_pair_trains_too(name):
    trainer = trainer_of(name, epochs=1)
    pairs = len(trainer.targets.pairs)
    trainer.settings = TrainingSettings(epochs=1, batch_size=pairs - 1)
    assert len(list(trainer.run())) == 1


def test_memory_is_kept_while_it_trains_and_only_then(monkeypatch):
    told = []

    @contextmanager
    def heard():
        told.append("kept")
        try:
            yield
        finally:
            told.append("let go")

    monkeypatch.setattr(training, "freed_memory_kept", heard)
    trainer = trainer_of()
    step = trainer.step
    monkeypatch.setattr(trainer, "step", lambda batch: (told.append("step"), step(batch))[1])
    epochs = trainer.run()
    next(epochs)
    next(epochs)
    epochs.close()  # whoever watches has seen enough
    assert told[0] == "kept"
    assert told[-1] == "let go"
    assert set(told[1:-1]) == {"step"}


def test_a_diverging_run_says_so():
    trainer = trainer_of()
    with torch.no_grad():
        trainer.model.encoder.entity[0, 0] = torch.nan
    with pytest.raises(ModelError, match="diverged in epoch 1"):
        list(trainer.run())
