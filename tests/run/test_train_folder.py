"""Training into a folder: half precision keeps the ranks, a kill anywhere costs nothing."""

from __future__ import annotations

import json
import pathlib

import pytest

from builders import knowledge_graph, random_rows, settings_of
from powerlink import ModelSettings, TrainingSettings, load_graph, load_model
from powerlink.errors import MismatchError, PowerlinkError
from powerlink.models import training_plan
from powerlink.models.checkpoint import save_model, start_folder
from powerlink.models.ranking import Accuracy, rank_facts
from powerlink.models.shards import save_weights
from powerlink.run.train_folder import FolderTraining, train

N, R = 30, 2
ROWS = random_rows(3, N, R, 70)
GRAPH = knowledge_graph(ROWS[12:], N, R, valid=ROWS[:6], test=ROWS[6:12])
MODEL = settings_of("compgcn", "conve", 1)
TRAINING = TrainingSettings(epochs=6, evaluate_every=2, batch_size=16, lr=0.01, patience=100)


class KilledError(BaseException):
    """What a kill looks like from inside: nothing catches it."""


def trained(folder, training=TRAINING, half=True):
    job = FolderTraining(folder, GRAPH, MODEL, training, half=half)
    return [report.epoch for report in job.run()], job


def contents(folder):
    """Everything that must not depend on kills: all files but the log, and the log without its times."""
    files = {
        path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != "training.jsonl"
    }
    log = [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]
    return files, [{key: value for key, value in line.items() if key != "seconds"} for line in log]


@pytest.fixture(autouse=True)
def in_small_shards(monkeypatch):
    monkeypatch.setitem(save_weights.__kwdefaults__, "most", 1500)


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    """A trained model's folder, and the same model in half precision."""
    folder, graph = tmp_path_factory.mktemp("atlas"), load_graph("atlas")
    settings = ModelSettings(encoder="compgcn", decoder="distmult", widths=(32, 32))
    training = TrainingSettings(epochs=60, evaluate_every=60, batch_size=128, lr=0.01)
    for _ in FolderTraining(folder / "full", graph, settings, training).run():
        pass
    model = load_model(folder / "full").model
    start_folder(folder / "half", graph)
    save_model(folder / "half", model, graph, training, {}, finished=True, half=True)
    return folder


@pytest.mark.parametrize("side", ["tails", "heads"])
def test_half_precision_keeps_the_metrics(atlas, side):
    accuracy = {}
    for kind in ("full", "half"):
        session = load_model(atlas / kind)
        ranks = rank_facts(session.model, session.graph, session.messages, "test")
        tails, heads = ranks.chunk(2)
        accuracy[kind] = Accuracy.of(tails if side == "tails" else heads)
    assert accuracy["full"].mrr > 0.15, "a model that learned something"
    for name in ("mrr", "hits_at_1", "hits_at_3", "hits_at_10"):
        assert getattr(accuracy["half"], name) == pytest.approx(getattr(accuracy["full"], name), abs=0.001)


def test_half_precision_is_nearly_half_the_size(atlas):
    full, half = (
        sum(path.stat().st_size for path in (atlas / kind).glob("model*.safetensors")) for kind in ("full", "half")
    )
    assert half < 0.6 * full


def test_the_accuracy_told_is_that_of_the_weights_as_saved(tmp_path):
    _, job = trained(tmp_path)
    session = load_model(tmp_path)
    ranks = rank_facts(session.model, GRAPH, session.messages, "test")
    assert job.accuracy["test"] == Accuracy.of(ranks).as_dict()


def test_every_epoch_is_timed(tmp_path):
    _, job = trained(tmp_path / "m")
    log = [json.loads(line) for line in (tmp_path / "m" / "training.jsonl").read_text().splitlines()]
    assert log == job.log
    assert all(line["seconds"] > 0 for line in log)


@pytest.mark.parametrize("schedule", ["constant", "one-cycle"])
def test_stopped_and_gone_on_with_is_the_same_as_never_stopped(tmp_path, schedule):
    training = TrainingSettings(**vars(TRAINING) | {"schedule": schedule})
    trained(tmp_path / "whole", training)
    job = FolderTraining(tmp_path / "m", GRAPH, MODEL, training, half=True)
    for report in job.run():
        if report.epoch == 3:
            break
    epochs, job = trained(tmp_path / "m", training)
    assert (job.resumed_at, epochs) == (2, [3, 4, 5, 6])
    assert contents(tmp_path / "m") == contents(tmp_path / "whole")


def test_a_kill_around_any_write_costs_nothing_and_never_loads_wrong(tmp_path, monkeypatch):
    trained(tmp_path / "whole")
    expected = contents(tmp_path / "whole")
    real = pathlib.Path.replace
    writes = 0

    def counted(path, target):
        nonlocal writes
        writes += 1
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "replace", counted)
        trained(tmp_path / "counted")
    assert writes > 10
    vouched = set()
    for last in range(3, writes, 7):
        folder, left = tmp_path / f"killed-{last}", last

        def killed(path, target):
            nonlocal left
            left -= 1
            if left < 0:
                raise KilledError
            return real(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(pathlib.Path, "replace", killed)
            with pytest.raises(KilledError):
                trained(folder)
        try:
            load_model(folder)
            vouched.add(True)
        except PowerlinkError:
            vouched.add(False)
        trained(folder)
        assert contents(folder) == expected
    assert vouched == {True, False}, "some kills fall between shards, some do not"


def test_a_kill_between_shards_does_not_leave_them_mixed_when_training_goes_another_way(tmp_path):
    """On a GPU the epochs after a restart are not the same to the last bit: what was half replaced must not stay."""
    job = FolderTraining(tmp_path, GRAPH, MODEL, TRAINING, half=True)
    for report in job.run():
        if report.epoch == 2:
            break
    shard = next(tmp_path.glob("model-00001-of-*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x01")
    job = FolderTraining(tmp_path, GRAPH, MODEL, TRAINING, half=True)
    job.trainer.best_mrr = 2.0  # nothing will be better again
    for _ in job.run():
        pass
    assert job.accuracy["epoch"] == 4
    load_model(tmp_path)


def test_what_a_training_takes_is_told_before_its_first_step_and_again_when_steps_were_timed(tmp_path):
    graph = knowledge_graph(random_rows(1, N, R, 300), N, R)
    told, before = [], []

    def hear(plan):
        told.append(plan)
        before.append(not (tmp_path / "training.jsonl").exists())

    train(graph, tmp_path, model=MODEL, training=TrainingSettings(epochs=2, batch_size=4, evaluate_every=1), told=hear)
    assert before == [True, True]
    assert 0 < told[0].memory < told[0].free
    assert [plan.epoch_seconds is None for plan in told] == [True, False]
    assert told[1].epoch_seconds > 0


def test_a_sampled_training_goes_on_as_it_was_chosen_and_is_found_finished(tmp_path, monkeypatch):
    open_settings = TrainingSettings(epochs=4, evaluate_every=2, batch_size=16, patience=100)
    with monkeypatch.context() as patch:
        patch.setattr(training_plan, "LONGEST_EPOCH", 0.0)  # too large for all of it
        for report in FolderTraining(tmp_path / "m", GRAPH, MODEL, open_settings).run():
            if report.epoch == 3:
                break
    job = FolderTraining(tmp_path / "m", GRAPH, MODEL, open_settings)  # where all of it would fit
    assert (job.resumed_at, job.training.neighbours, job.training.negatives) == (2, 10, 1024)
    assert [report.epoch for report in job.run()] == [3, 4]
    assert FolderTraining(tmp_path / "m", GRAPH, MODEL, open_settings).finished
    assert load_model(tmp_path / "m").calibration is None
    with pytest.raises(MismatchError, match="neighbours 10, not 0"):
        FolderTraining(tmp_path / "m", GRAPH, MODEL, TrainingSettings(**vars(open_settings) | {"neighbours": 0}))


def test_a_drawn_part_of_a_split_is_saved_as_one(tmp_path):
    training = TrainingSettings(**vars(TRAINING) | {"ranked_facts": 4})
    _, job = trained(tmp_path, training)
    assert job.accuracy["test"]["queries"] == job.accuracy["valid"]["queries"] == 8
    assert job.accuracy["test"]["drawn_from"] == job.accuracy["valid"]["drawn_from"] == 12


def test_another_precision_of_the_same_folder_is_refused(tmp_path):
    trained(tmp_path)
    with pytest.raises(MismatchError, match="keeps its weights in half precision"):
        trained(tmp_path, half=False)


def test_a_folder_of_an_older_version_is_known_as_trained_with_the_defaults(tmp_path):
    trained(tmp_path, half=False)
    path = tmp_path / "model.json"
    description = json.loads(path.read_text())
    for later in ("schedule", "weight_decay", "precision"):
        del description["training"][later]
    path.write_text(json.dumps(description))
    epochs, job = trained(tmp_path, half=False)
    assert job.finished
    assert not epochs
    with pytest.raises(MismatchError, match="schedule constant, not one-cycle"):
        trained(tmp_path, TrainingSettings(**vars(TRAINING) | {"schedule": "one-cycle"}), half=False)
