"""Killed and run again: the same as if nothing had happened."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from command_line import call_once
from safetensors.torch import load_file

from powerlink import memory
from powerlink.report.schema import read_explanations
from powerlink.run import claim
from powerlink.run.claim import claimed

# The command line with batches of four queries, so that there is something to interrupt.
IN_SMALL_BATCHES = """
from powerlink import memory
memory.MOST_QUERIES = 4
from powerlink.cli.main import main
main()
"""
LIMIT = 40


@pytest.fixture(scope="module", autouse=True)
def small_batches_here_too():
    before = memory.MOST_QUERIES
    memory.MOST_QUERIES = 4
    yield
    memory.MOST_QUERIES = before


@pytest.fixture(scope="module")
def atlas_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "atlas"
    call_once("train", "--data", "atlas", "--epochs", 10, "--dim", 20, "--out", folder)
    return folder


@pytest.fixture(scope="module")
def uninterrupted(atlas_model, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "whole.jsonl"
    call_once("explain", atlas_model, "--split", "test", "--limit", LIMIT, "--out", out)
    return out


def assert_same_explanations(found, expected):
    """Same queries, statuses and paths, each once, numbers to 1e-5."""
    assert len(found) == len(expected) == len({e.query for e in found})
    by_query = {e.query: e for e in found}
    for whole in expected:
        again = by_query[whole.query]
        assert again.status == whole.status
        assert [p.facts for p in again.paths] == [p.facts for p in whole.paths]
        assert again.score == pytest.approx(whole.score, abs=1e-5)
        assert again.rank == whole.rank
        for one, other in zip(again.paths, whole.paths, strict=True):
            assert one.score_without == pytest.approx(other.score_without, abs=1e-5)
            assert one.score == pytest.approx(other.score, abs=1e-5)


def start(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def wait_until(reached, process):
    deadline = time.monotonic() + 60
    while not reached():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, "nothing happened for a minute"
        time.sleep(0.005)


def stop(process, how):
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors.decode()


def lines_in(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_explaining_killed_again_and_again_ends_like_an_uninterrupted_run(
    powerlink, atlas_model, uninterrupted, tmp_path
):
    out = tmp_path / "f.jsonl"
    arguments = ("explain", atlas_model, "--split", "test", "--limit", LIMIT, "--out", out)

    process = start(IN_SMALL_BATCHES, *arguments)
    wait_until(lambda: lines_in(out) >= 4, process)
    assert stop(process, signal.SIGKILL)[0] == -signal.SIGKILL
    first = lines_in(out)
    assert 4 <= first < LIMIT

    process = start(IN_SMALL_BATCHES, *arguments)
    wait_until(lambda: lines_in(out) > first, process)
    code, errors = stop(process, signal.SIGINT)
    second = lines_in(out)
    assert first < second < LIMIT
    assert code == 130
    assert f"{first} of {LIMIT} are already in {out}" in errors
    assert errors.splitlines()[-1] == (
        f"powerlink: stopped; what was explained is safe in {out}; run the same command again to go on"
    )

    outcome = powerlink(*arguments)
    assert outcome.code == 0
    assert f"{second} of {LIMIT} are already in {out}" in outcome.said
    assert f"{LIMIT} explanations in {out}" in outcome.said
    assert_same_explanations(read_explanations(out), read_explanations(uninterrupted))


def test_a_file_cut_anywhere_is_completed(powerlink, atlas_model, uninterrupted, tmp_path):
    """Whatever byte a kill, or a full disk, stopped at: in a line, in a letter, at a line's end, at the start."""
    lines = uninterrupted.read_bytes().splitlines(keepends=True)[:12]
    whole = b"".join(lines)
    ends = [0, 1, len(lines[0]) - 1, len(lines[0]), len(lines[0]) + 5, len(whole) - 1]
    ends += [i + 1 for i in range(len(lines[0]), len(whole)) if whole[i] >= 0xC0][:1]  # inside some é, if there is one
    for end in ends:
        out = tmp_path / f"cut-at-{end}.jsonl"
        out.write_bytes(whole[:end])
        assert powerlink("explain", atlas_model, "--split", "test", "--limit", 12, "--out", out).code == 0
        assert_same_explanations(read_explanations(out), read_explanations(uninterrupted)[:12])
        kept = whole[:end].rfind(b"\n") + 1
        assert out.read_bytes()[:kept] == whole[:kept], "what was complete is not written again"


def test_a_larger_limit_goes_on_behind_a_smaller_one(powerlink, atlas_model, uninterrupted, tmp_path):
    out = tmp_path / "f.jsonl"
    whole = uninterrupted.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(whole[:7]))
    outcome = powerlink("explain", atlas_model, "--split", "test", "--limit", 10, "--out", out)
    assert "7 of 10 are already in" in outcome.said
    assert "10 queries" in outcome.said
    assert_same_explanations(read_explanations(out), read_explanations(uninterrupted)[:10])


TRAINING = ("--epochs", 40, "--dim", 20, "--lr", 0.01, "--patience", 3)


@pytest.fixture(scope="module")
def trained(families, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "m"
    call_once("train", "--data", families, *TRAINING, "--out", folder)
    return folder


def assert_same_model(folder, expected):
    ours, theirs = (load_file(place / "model.safetensors") for place in (folder, expected))
    assert ours.keys() == theirs.keys()
    assert all(ours[name].equal(theirs[name]) for name in ours), "to the last bit"
    assert (folder / "model.safetensors").read_bytes() == (expected / "model.safetensors").read_bytes()
    assert json.loads((folder / "model.json").read_text()) == json.loads((expected / "model.json").read_text())
    ours, theirs = log_of(folder), log_of(expected)
    assert all(line.pop("seconds") >= 0 for line in ours + theirs)
    assert ours == theirs
    assert [line["epoch"] for line in ours] == list(range(1, len(ours) + 1))
    files = {"graph", "model.json", "model.safetensors", "training.jsonl", "learning_curve.png"}
    assert {p.name for p in folder.iterdir()} == files
    assert (folder / "learning_curve.png").read_bytes() == (expected / "learning_curve.png").read_bytes()


def log_of(folder):
    return [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]


def test_a_training_killed_and_run_again_gives_the_same_weights(powerlink, families, trained, tmp_path):
    folder = tmp_path / "m"
    arguments = ("train", "--data", families, *TRAINING, "--out", folder)
    process = start("from powerlink.cli.main import main; main()", *arguments)
    wait_until((folder / "resume.safetensors").exists, process)
    assert stop(process, signal.SIGKILL)[0] == -signal.SIGKILL
    assert not json.loads((folder / "model.json").read_text())["finished"]
    outcome = powerlink(*arguments)
    assert outcome.code == 0
    assert "going on after epoch " in outcome.said
    assert_same_model(folder, trained)


class KilledError(BaseException):
    """What a kill looks like from inside: nothing catches it."""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 9])
def test_a_kill_around_any_write_costs_nothing(powerlink, families, trained, tmp_path, monkeypatch, moment, count):
    arguments = ("train", "--data", families, *TRAINING, "--out", tmp_path / "m")
    real, calls = pathlib.Path.replace, []

    def replace(path, target):
        calls.append(target)
        if len(calls) == count and moment == "before":
            raise KilledError
        moved = real(path, target)
        if len(calls) == count:
            raise KilledError
        return moved

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "replace", replace)
        with pytest.raises(KilledError):
            powerlink(*arguments)
    assert powerlink(*arguments).code == 0
    assert_same_model(tmp_path / "m", trained)


def test_a_finished_training_is_not_repeated(powerlink, families, trained):
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    outcome = powerlink("train", "--data", families, *TRAINING, "--out", trained)
    assert outcome.code == 0
    assert f"{trained} is already trained with these settings" in outcome.said
    assert "best at epoch" in outcome.said
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--epochs", 50), "epochs 40, not 50"),
        (("--dim", 10), "widths (20, 20, 20), not (10, 10, 10)"),
        (("--decoder", "transe"), "decoder distmult, not transe"),
        (("--seed", 1), "seed 0, not 1"),
        (("--data", "atlas"), "a model of another graph"),
    ],
)
def test_other_settings_into_the_same_folder_are_refused_and_nothing_is_lost(powerlink, families, trained, flags, said):
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    outcome = powerlink("train", "--data", families, *TRAINING, "--out", trained, *flags)
    assert outcome.code == 1
    assert said in outcome.err
    assert outcome.err.splitlines()[-1].startswith(f"powerlink: {trained} holds ")
    assert {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("done", [0, 12])
def test_ctrl_c_while_training_says_where_it_will_go_on(powerlink, families, trained, tmp_path, monkeypatch, done):
    from powerlink.models.training import Trainer  # noqa: PLC0415

    real = Trainer.train_epoch

    def interrupted(self):
        if self.epoch > done:
            raise KeyboardInterrupt
        return real(self)

    arguments = ("train", "--data", families, *TRAINING, "--out", tmp_path / "m")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_epoch", interrupted)
        outcome = powerlink(*arguments)
    assert outcome.code == 130
    where = "after epoch 10" if done else "from the start"
    assert outcome.err == f"powerlink: stopped; run the same command again to go on {where}\n"
    assert powerlink(*arguments).code == 0
    assert_same_model(tmp_path / "m", trained)


@pytest.mark.parametrize("file", ["resume.safetensors", "training.jsonl"])
def test_damage_to_an_unfinished_training_is_told(powerlink, families, tmp_path, monkeypatch, file):
    from powerlink.run.train_folder import FolderTraining  # noqa: PLC0415

    def killed(self):
        raise KilledError

    arguments = ("train", "--data", families, *TRAINING, "--out", tmp_path / "m")
    with monkeypatch.context() as patch:
        patch.setattr(FolderTraining, "_finish", killed)
        with pytest.raises(KilledError):
            powerlink(*arguments)
    path = tmp_path / "m" / file
    os.truncate(path, path.stat().st_size // 2)
    outcome = powerlink(*arguments)
    assert outcome.code == 1
    assert f"powerlink: {path} is " in outcome.err
    assert "damaged" in outcome.err


@pytest.mark.skipif(claim.fcntl is None, reason="this system has no file locks")
@pytest.mark.parametrize("command", ["explain", "compare", "train"])
def test_a_second_run_into_one_place_is_refused_and_touches_nothing(powerlink, model, families, tmp_path, command):
    out = tmp_path / "out"
    arguments = {
        "explain": (model, "--split", "test", "--limit", 2),
        "compare": (model, "--explainers", "gradient", "--which", "all", "--limit", 2),
        "train": ("--data", families, "--epochs", 1, "--dim", 8),
    }[command]
    with claimed(out, folder=command != "explain"):
        outcome = powerlink(command, *arguments, "--out", out)
    assert outcome.code == 1
    assert f"powerlink: another run is writing {out}: wait until it is done, or choose another --out" in outcome.said
    assert not out.is_dir() or not list(out.iterdir())
    assert not out.is_file() or not out.stat().st_size
    assert powerlink(command, *arguments, "--out", out).code == 0
