"""Weights in files of a bounded size: read back as they were, or refused in a sentence."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from builders import knowledge_graph, random_rows, settings_of
from powerlink.errors import MismatchError, ModelError
from powerlink.models.checkpoint import load_model, read_description, save_model, start_folder
from powerlink.models.link_model import build_model
from powerlink.models.shards import (
    INDEX,
    MOST_BYTES,
    SINGLE,
    halved,
    load_weights,
    matches,
    overall,
    remove_stale,
    save_weights,
)
from powerlink.models.training import TrainingSettings

N, R = 40, 3
GRAPH = knowledge_graph(random_rows(1, N, R, 90), N, R)
SMALL = 1200


@pytest.fixture
def in_small_shards(monkeypatch):
    monkeypatch.setitem(save_weights.__kwdefaults__, "most", SMALL)


def saved(folder, *, seed=0, half=False, name="compgcn-conve"):
    model = build_model(settings_of(*name.split("-"), 1), N, R, seed).eval()
    start_folder(folder, GRAPH)
    save_model(folder, model, GRAPH, TrainingSettings(), {"epoch": 1}, finished=True, half=half)
    return model


def weight_files(folder):
    return sorted(path.name for path in folder.glob("model*.safetensors*"))


@given(
    shapes=st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=8),
    most=st.integers(40, 600),
    seed=st.integers(0, 99),
)
def test_any_tensors_come_back_whatever_the_size_of_a_shard(tmp_path_factory, shapes, most, seed):
    folder = tmp_path_factory.mktemp("w")
    random = torch.Generator().manual_seed(seed)
    tensors = {f"layer.{i}": torch.randn(shape, generator=random) for i, shape in enumerate(shapes)}
    files = save_weights(folder, tensors, most=most)
    back, other = load_weights(folder, files)
    assert other is None
    assert matches(folder, files)
    assert back.keys() == tensors.keys()
    assert all(back[name].equal(tensors[name]) for name in tensors)


def test_no_shard_is_larger_than_fifteen_mebibytes(tmp_path):
    tensors = {"table": torch.randn(70_000, 128), "small": torch.randn(7), "more": torch.randn(1000, 1000)}
    files = save_weights(tmp_path, tensors)
    assert len(files) == 3
    assert next(iter(files)) == "model-00001-of-00003.safetensors"
    assert all((tmp_path / name).stat().st_size <= MOST_BYTES for name in files)
    back, _ = load_weights(tmp_path, files)
    assert all(back[name].equal(tensors[name]) for name in tensors)
    index = json.loads((tmp_path / INDEX).read_text())
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in tensors.values())
    for part, file in index["weight_map"].items():
        with safe_open(tmp_path / file, "pt") as opened:
            assert part in opened.keys()  # noqa: SIM118 -- a file's keys() is a list
    assert {part.split("[")[0] for part in index["weight_map"]} == tensors.keys()


def test_what_fits_is_one_file_without_an_index(tmp_path):
    files = save_weights(tmp_path, {"a": torch.randn(3, 3)})
    assert list(files) == [SINGLE]
    assert overall(files) == files[SINGLE]
    assert weight_files(tmp_path) == [SINGLE]


def test_half_precision_is_for_matrices_that_it_can_hold():
    tensors = {
        "matrix": torch.randn(20, 20),
        "too large": torch.randn(20, 20) * 1e5,
        "too small": torch.randn(20, 20) * 1e-9,
        "running_var": torch.tensor([1e6, 1e-8]),
        "count": torch.tensor(3),
        "zeros": torch.zeros(4, 4),
    }
    half = halved(tensors)
    assert {name for name, tensor in half.items() if tensor.dtype == torch.float16} == {"matrix", "zeros"}
    for name, tensor in tensors.items():
        assert torch.allclose(half[name].double(), tensor.double(), rtol=1e-3, atol=1e-6 if name == "matrix" else 0)


@pytest.mark.parametrize("half", [False, True])
def test_a_sharded_model_comes_back_as_float32(tmp_path, in_small_shards, half):
    model = saved(tmp_path, half=half)
    files = read_description(tmp_path)["files"]
    assert len(files) > 3
    back = load_model(tmp_path).model.state_dict()
    expected = halved(model.state_dict()) if half else model.state_dict()
    for name, tensor in model.state_dict().items():
        assert back[name].dtype == tensor.dtype
        assert back[name].equal(expected[name].to(tensor.dtype))
    kinds = {tensor.dtype for name in files for tensor in load_file(tmp_path / name).values()}
    assert (torch.float16 in kinds) == half


def test_files_of_older_weights_are_removed(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(save_weights.__kwdefaults__, "most", SMALL)
        saved(tmp_path)
        many = weight_files(tmp_path)
        patch.setitem(save_weights.__kwdefaults__, "most", 3 * SMALL)
        saved(tmp_path, seed=1)
        assert len(weight_files(tmp_path)) < len(many)
        assert weight_files(tmp_path) == sorted([*read_description(tmp_path)["files"], INDEX])
        load_model(tmp_path)
    (tmp_path / "model-00009-of-00009.safetensors.part").write_bytes(b"left by a kill")
    saved(tmp_path, seed=2)
    assert weight_files(tmp_path) == [SINGLE]
    load_model(tmp_path)


def test_only_files_of_weights_are_removed(tmp_path):
    (tmp_path / "model-notes.safetensors").write_bytes(b"mine")
    remove_stale(tmp_path, {SINGLE: ""})
    assert (tmp_path / "model-notes.safetensors").exists()


def damaged(path):
    path.write_bytes(path.read_bytes()[:-5])


def of_another_model(path):
    tensors = {name: tensor + 1 for name, tensor in load_file(path).items()}
    save_file(tensors, path)


@pytest.mark.parametrize(
    ("hurt", "error", "said"),
    [
        (lambda path: path.unlink(), ModelError, "model-00002-of-.* is missing"),
        (damaged, ModelError, "model-00002-of-.* is truncated or damaged"),
        (of_another_model, MismatchError, "model-00002-of-.* holds other weights than model.json describes"),
        (
            lambda path: path.write_bytes((path.parent / path.name.replace("00002", "00003", 1)).read_bytes()),
            (MismatchError, ModelError),
            "does not fit|do not fit together|other weights",
        ),
    ],
    ids=["missing", "damaged", "another model's", "twice the same"],
)
def test_a_shard_that_does_not_belong_is_told(tmp_path, in_small_shards, hurt, error, said):
    saved(tmp_path)
    (shard,) = tmp_path.glob("model-00002-of-*.safetensors")
    hurt(shard)
    with pytest.raises(error, match=said) as told:
        load_model(tmp_path)
    assert "\n" not in str(told.value)


def test_folders_of_the_first_format_still_load(tmp_path):
    model = saved(tmp_path)
    description = json.loads((tmp_path / "model.json").read_text())
    del description["files"], description["half"]
    for later in ("schedule", "weight_decay", "precision"):
        del description["training"][later]
    description |= {"format": 1, "model": model.settings.flat()}
    (tmp_path / "model.json").write_text(json.dumps(description))
    subject = load_model(tmp_path)
    assert subject.hash == description["weights"]
    assert all(tensor.equal(model.state_dict()[name]) for name, tensor in subject.model.state_dict().items())
