"""A model as a folder: written whole or not at all, read back to the last bit."""

from __future__ import annotations

import errno
import os

import pytest
import torch

from builders import LAYERED, knowledge_graph, random_rows, settings_of
from powerlink.errors import MismatchError, ModelError, OutputError
from powerlink.models.catalog import DECODERS
from powerlink.models.checkpoint import (
    load_model,
    load_resume,
    load_tensors,
    read_description,
    save_model,
    save_resume,
    save_tensors,
    start_folder,
    write_atomically,
)
from powerlink.models.link_model import build_model
from powerlink.models.training import TrainingSettings

N, R = 10, 2
GRAPH = knowledge_graph(random_rows(1, N, R, 25), N, R)
MODELS = [f"{e}-{d}" for e in LAYERED for d in DECODERS]


def saved(folder, name="compgcn-distmult"):
    model = build_model(settings_of(*name.split("-"), 1), N, R, 0).eval()
    start_folder(folder, GRAPH)
    save_model(folder, model, GRAPH, TrainingSettings(), {"epoch": 1}, finished=True)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_every_model_comes_back_to_the_last_bit(tmp_path, name):
    model = saved(tmp_path / "m", name)
    session = load_model(tmp_path / "m")
    assert session.name == name
    assert session.graph.fingerprint == GRAPH.fingerprint
    assert session.model.settings == model.settings
    ours, theirs = session.model.state_dict(), model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(ours[key].equal(theirs[key]) for key in ours)
    assert not session.model.training


def test_a_model_is_told_apart_by_its_weights(tmp_path):
    saved(tmp_path / "m")
    before = load_model(tmp_path / "m").hash
    assert before == read_description(tmp_path / "m")["weights"]
    tensors = {k: v.clone() for k, v in load_tensors(tmp_path / "m" / "model.safetensors").items()}
    tensors["bias"][0] += 1
    save_tensors(tmp_path / "m" / "model.safetensors", tensors)
    with pytest.raises(MismatchError, match="other weights"):
        load_model(tmp_path / "m")


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"cannot write .*file: No space left on device"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_below_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError, match="cannot write"):
        write_atomically(tmp_path / "file" / "below", b"new")


def test_the_state_of_a_training_comes_back(tmp_path):
    assert load_resume(tmp_path) is None
    tensors = {"model.a": torch.arange(3.0), "adam.step.a": torch.tensor(4.0)}
    save_resume(tmp_path, tensors, {"epoch": 3.0, "best_mrr": 0.25}, "identity")
    back, counters, identity = load_resume(tmp_path)
    assert all(back[name].equal(tensors[name]) for name in tensors)
    assert (counters, identity) == ({"epoch": 3.0, "best_mrr": 0.25}, "identity")


@pytest.mark.parametrize("metadata", [{}, {"counters": "{"}, {"counters": "{}"}])
def test_a_damaged_state_of_a_training_is_told(tmp_path, metadata):
    save_tensors(tmp_path / "resume.safetensors", {"a": torch.zeros(1)}, metadata)
    with pytest.raises(ModelError, match="start the training anew"):
        load_resume(tmp_path)


def test_a_truncated_file_is_told_wherever_it_ends(tmp_path):
    path = tmp_path / "model.safetensors"
    save_tensors(path, {"a": torch.arange(10.0)})
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(ModelError, match="truncated or damaged"):
            load_tensors(path)
