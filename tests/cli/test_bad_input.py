"""Whatever a user gets wrong is told in one sentence, and costs nothing that was there before."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from powerlink.cli.main import main
from powerlink.models import shards
from powerlink.report.schema import read_explanations

ONE = ("--head", "Carl0", "--relation", "lives_in", "--tail", "Town0")
LEARNED = (*ONE, "--explainer", "power-link")
COMMAND = Path(sys.executable).with_name("powerlink")


@pytest.fixture
def own_model(model, tmp_path):
    """A copy of the model that may be damaged."""
    return Path(shutil.copytree(model, tmp_path / "model"))


@pytest.fixture
def own_explanations(explanations, tmp_path):
    return Path(shutil.copy(explanations, tmp_path / "explanations.jsonl"))


# --- data ---


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "facts.tsv",
            b"a\tr\tb\na\tr\n",
            ["facts.tsv, line 2", "2 columns", "expected 3 columns (head,"],
        ),
        ("facts.tsv", b"a\tr\tb\na\tr\tb\tc\n", ["line 2", "4 columns"]),
        ("facts.tsv", b"a\tr\tb\n\t\t\n", ["line 2", "expected"]),
        ("facts.tsv", b"a\tr\tb\n\tr\tb\n", ["line 2", "head is missing"]),
        ("facts.csv", b"a,r\nb,r\n", ["line 1", "2 columns"]),
        ("facts.tsv", b"", ["is empty"]),
        ("facts.tsv", b"a\tr\tb\na\tr\t\xff\xfe\n", ["line 2", "not UTF-8"]),
        ("facts.parquet", b"PAR1 not really", ["not a whole parquet file"]),
        ("facts.tsv.gz", b"not gzip", ["not a whole gzip file"]),
        ("facts.xyz", b"a\tr\tb\n", ["facts.xyz"]),
    ],
)
def test_a_file_of_facts_that_cannot_be_read_is_named_with_its_line(refused, tmp_path, name, content, expected):
    (tmp_path / name).write_bytes(content)
    outcome = refused("train", "--data", tmp_path / name, "--out", tmp_path / "m")
    assert all(part in outcome.err for part in expected), outcome.err
    assert not (tmp_path / "m").exists()


def test_a_folder_without_facts_is_refused(refused, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "train" in refused("train", "--data", tmp_path / "empty", "--out", tmp_path / "m").err


def test_an_unknown_dataset_is_answered_with_the_closest_names(refused, tmp_path):
    outcome = refused("train", "--data", "atlass", "--out", tmp_path / "m")
    assert "there is no dataset, file or folder named 'atlass'; did you mean 'atlas'" in outcome.err


def test_a_file_that_is_not_there_is_named(refused, tmp_path):
    assert "nothing.tsv" in refused("train", "--data", tmp_path / "nothing.tsv", "--out", tmp_path / "m").err


def test_a_data_folder_that_is_not_there_is_named(refused, tmp_path):
    outcome = refused("train", "--data", "umls", "--data-dir", tmp_path / "nowhere", "--out", tmp_path / "m")
    assert "nowhere" in outcome.err


# --- names and settings ---


def test_an_unknown_entity_is_answered_with_the_closest_names(refused, model):
    outcome = refused("explain", model, "--head", "carl1", "--relation", "lives_in", "--tail", "Town0")
    assert "there is no entity named 'carl1'; did you mean 'Carl1'" in outcome.err


def test_an_unknown_relation_is_answered_with_the_closest_names(refused, model):
    outcome = refused("predict", model, "--head", "Carl1", "--relation", "live_in")
    assert "there is no relation named 'live_in'; did you mean 'lives_in'" in outcome.err


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((*ONE, "--explainer", "power-lnk"), "there is no explainer named 'power-lnk'; did you mean 'power-link'"),
        ((*ONE, "--select", "luck"), "'carried', 'largest-drop', 'mask'"),
        ((*ONE, "--device", "tpu"), "'auto', 'cpu', 'cuda'"),
        ((*ONE, "--nonsense"), "--nonsense"),
        ((*ONE, "--paths", "many"), "--paths"),
        ((*ONE, "--limit", 0), "--limit"),
        ((*ONE, "--seed", -1), "--seed"),
        ((*ONE, "--seed", 10**30), "--seed"),
        ((*ONE, "--min-length", 3, "--max-length", 2), "min_length ≤ max_length, not 3 and 2"),
        ((*ONE, "--paths", 0), "paths must be at least 1"),
        ((*ONE, "--paths", 50), "candidates at least as many"),
        ((*ONE, "--hops", 0), "hops must be at least 1"),
        ((*LEARNED, "--steps", -1), "steps must not be negative"),
        ((*LEARNED, "--lr", "nan"), "--lr must be a finite number"),
        ((*LEARNED, "--size-weight", "inf"), "--size-weight must be a finite number"),
        ((*LEARNED, "--order", 2, "--min-order", 3), "min_order must lie between 1 and order"),
        ((*ONE, "--explainer", "random", "--steps", 5), "random has no setting 'steps'"),
        (
            (*ONE, "--explainer", "gradient", "--steps", 5),
            "gradient has no setting 'steps'; it has floor (power-link-plus, ",
        ),
        ((*ONE, "--steps", 5), "slopes has no setting 'steps'; it has floor, points (power-link-plus, power-link, "),
        ((*LEARNED, "--set", "floor=0.1"), "power-link has no setting 'floor'"),
        ((*ONE, "--set", "steps"), "--set takes name=value, not 'steps'"),
        ((*LEARNED, "--set", "steps=many"), "steps of power-link must be a whole number, not 'many'"),
        ((*LEARNED, "--set", "lr=nan"), "lr of power-link must be a finite number, not 'nan'"),
        (
            (*LEARNED, "--set", "combination=sum"),
            "combination of power-link must be concat or euclidean or none, not 'sum'",
        ),
        ((*LEARNED, "--set", "steps=2", "--set", "steps=3"), "steps is set twice"),
        ((*LEARNED, "--set", "steps=2", "--steps", 3), "steps is set twice: by --steps and by --set"),
        ((*ONE, "--explainer", "power-link-order-2", "--order", 3), "power-link-order-2 is power-link with order 2"),
        ((*ONE, "--explainer", "pg-explainer"), "pg-explainer must be fitted before it can explain"),
        ((*ONE, "--explainer", "pg-explainer", "--weights", "none.bin"), "there is no file none.bin"),
        ((*LEARNED, "--weights", "none.bin"), "power-link has no setting 'weights'"),
        ((), "--head/--relation/--tail, --split, or --queries"),
        ((*ONE, "--split", "test"), "one of"),
        (("--split", "test", "--queries", "x.tsv"), "one of"),
        (("--head", "Carl0", "--tail", "Town0"), "a triple needs all three"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(refused, model, flags, expected):
    assert expected in refused("explain", model, *flags).err


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--explainer", "power-link"), "power-link needs no fitting: explain with it at once (what is fitted is pg-"),
        (("--explainer", "oracle"), "no explainer named 'oracle'; `powerlink explainers` lists what there is"),
        (
            ("--set", "epoch=3"),
            "the fit of pg-explainer has no setting 'epoch'; it has batch, counterfactual_weight, ent",
        ),
        (("--set", "epochs=-3"), "epochs must not be negative"),
        (("--limit", 0), "--limit"),
    ],
)
def test_a_fit_that_cannot_be_is_refused(refused, model, tmp_path, flags, expected):
    assert expected in refused("fit", model, "--out", tmp_path / "w", *flags).err
    assert not (tmp_path / "w").exists()


def test_a_fit_of_another_model_is_refused(powerlink, refused, model, families, tmp_path):
    other, file = tmp_path / "other", tmp_path / "w"
    assert powerlink("train", "--data", families, "--epochs", 1, "--dim", 20, "--out", other).code == 0
    assert powerlink("fit", model, "--limit", 2, "--set", "epochs=1", "--out", file).code == 0
    outcome = refused("explain", other, *ONE, "--explainer", "pg-explainer", "--weights", file)
    assert "was fitted on another model" in outcome.err


def test_a_fit_that_is_stopped_says_what_is_left(powerlink, model, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("powerlink.run.fitting.fit_explainer", interrupted)
    outcome = powerlink("fit", model, "--out", tmp_path / "w")
    assert outcome.code == 128 + signal.SIGINT
    assert outcome.err.startswith("powerlink: stopped; nothing was written")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--encoder", "gpt"), "'rgcn', 'wgcn', 'compgcn'"),
        (("--decoder", "gpt"), "'transe', 'distmult', 'conve', 'complex', 'rotate'"),
        (("--encoder", "wgcn", "--composition", "sub"), "wgcn-distmult has no setting 'composition'; compgcn has it"),
        (("--decoder", "conve", "--margin", 2), "compgcn-conve has no setting 'margin'; transe and rotate have it"),
        (("--decoder", "rotate", "--dim", 7), "its width must be even, not 7"),
        (("--decoder", "conve", "--dim", 20, "--image", 3, 5), "image 3×5 does not hold vectors of width 20"),
        (("--hidden-dropout", 1.5), "--hidden-dropout must be at most 1, not 1.5"),
        (("--epochs", 0), "--epochs"),
        (("--decoder", "conve", "--batch-size", 1), "--batch-size"),
        (("--lr", -1), "--lr"),
    ],
)
def test_a_model_that_cannot_be_built_is_refused(refused, families, tmp_path, flags, expected):
    assert expected in refused("train", "--data", families, "--out", tmp_path / "m", *flags).err


def test_a_graph_of_one_entity_is_refused(powerlink, tmp_path):
    (tmp_path / "loop.tsv").write_text("a\tr\ta\n")
    outcome = powerlink("train", "--data", tmp_path / "loop.tsv", "--out", tmp_path / "m")
    assert outcome.code == 1
    assert "powerlink: loop has no two entities" in outcome.err
    assert not (tmp_path / "m").exists()


def test_a_training_that_diverges_is_told(powerlink, families, tmp_path):
    outcome = powerlink("train", "--data", families, "--out", tmp_path / "m", "--lr", 1e30, "--epochs", 3)
    assert outcome.code == 1
    assert outcome.err.startswith("powerlink: training diverged in epoch ")


def test_predict_needs_a_head_or_a_tail_and_not_both(refused, model):
    assert "head or a tail" in refused("predict", model, "--relation", "lives_in").err
    assert "not both" in refused("predict", model, "--relation", "lives_in", "--head", "Ben0", "--tail", "Town0").err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("command", [("rank",), ("predict", "--relation", "r", "--head", "h"), ("explain", *ONE)])
def test_a_device_that_is_not_there_is_told(refused, model, command):
    assert "no CUDA device" in refused(command[0], model, *command[1:], "--device", "cuda").err


# --- files of queries ---


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("q.tsv", "Carl0\tlives_in\tTown0\nCarl1\tlives_in\n", ["q.tsv, line 2", "2 columns"]),
        ("q.tsv", "Carl0\tlives_in\tTown0\nKarl1\tlives_in\tTown0\n", ["q.tsv, triple 2", "'Karl1'", "'Carl1'"]),
        ("q.tsv", "", ["is empty"]),
        ("q.csv", "head,relation,tail\n", ["is empty"]),
        ("q.tsv", "Carl0 lives_in Town0\n", ["line 1", "1 column"]),
    ],
)
def test_a_bad_line_in_a_file_of_queries_is_named(refused, model, tmp_path, name, content, expected):
    (tmp_path / name).write_text(content)
    outcome = refused("explain", model, "--queries", tmp_path / name, "--out", tmp_path / "out.jsonl")
    assert all(part in outcome.err for part in expected), outcome.err
    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_of_queries_that_is_not_there_or_not_text_is_told(refused, model, tmp_path):
    assert "none.tsv" in refused("explain", model, "--queries", tmp_path / "none.tsv").err
    (tmp_path / "latin.tsv").write_bytes("Ève0\tlives_in\tTown0\n".encode("latin-1"))
    assert "line 1: byte 0xc8 is not UTF-8" in refused("explain", model, "--queries", tmp_path / "latin.tsv").err


def test_a_query_that_cannot_be_explained_is_a_status_and_is_counted(powerlink, tmp_path):
    rows = [("a", "r", "b"), ("b", "r", "c"), ("a", "s", "c"), ("c", "s", "d"), ("x", "r", "y"), ("y", "s", "x")]
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    (data / "valid.tsv").write_text("a\tr\tc\n")
    (data / "test.tsv").write_text("stranger\tr\ta\n")
    assert powerlink("train", "--data", data, "--epochs", 2, "--dim", 5, "--out", tmp_path / "m").code == 0
    queries = tmp_path / "q.tsv"
    queries.write_text("a\tr\ta\nstranger\tr\ta\na\tr\ty\na\tr\tc\n")
    out = tmp_path / "out.jsonl"
    outcome = powerlink("explain", tmp_path / "m", "--queries", queries, "--out", out)
    assert outcome.code == 0
    statuses = [e.status.value for e in read_explanations(out)]
    assert statuses[:3] == ["head_is_tail", "entity_without_facts", "no_path"]
    assert statuses[3] in ("explained", "no_effect")
    for said in ("4 queries", "1 head is tail", "1 entity without facts", "1 no path"):
        assert said in outcome.said
    for command in (("evaluate", tmp_path / "m", out), ("report", tmp_path / "m", out, "--out", tmp_path / "r.html")):
        assert powerlink(*command).code == 0


def test_a_split_without_facts_is_told(powerlink, refused, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.tsv").write_text("a\tr\tb\nb\tr\tc\nc\tr\ta\n")
    assert powerlink("train", "--data", tmp_path / "data", "--epochs", 1, "--dim", 5, "--out", tmp_path / "m").code == 0
    assert "has no test facts" in refused("rank", tmp_path / "m").err
    assert "has no test facts" in refused("explain", tmp_path / "m", "--split", "test").err


# --- model folders ---


def edit_json(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def vouch_for_weights(folder):
    digest = shards._digest((folder / "model.safetensors").read_bytes())
    edit_json(folder / "model.json", weights=digest, files={"model.safetensors": digest})


def change_weights(folder, change):
    tensors = {name: value.clone() for name, value in load_file(folder / "model.safetensors").items()}
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    vouch_for_weights(folder)


def with_nan(tensors):
    tensors["bias"][3] = float("nan")


def with_infinity(tensors):
    tensors["bias"][3] = float("inf")


def of_another_shape(tensors):
    tensors["bias"] = torch.zeros(7)


def without_one(tensors):
    del tensors["bias"]


def truncate(path, share):
    os.truncate(path, int(path.stat().st_size * share))


DAMAGES = {
    "no folder": (shutil.rmtree, "there is no model folder"),
    "no description": (lambda m: (m / "model.json").unlink(), "holds no model.json"),
    "no weights": (lambda m: (m / "model.safetensors").unlink(), "model.safetensors is missing"),
    "no graph": (lambda m: shutil.rmtree(m / "graph"), "no stored graph"),
    "half the weights": (lambda m: truncate(m / "model.safetensors", 0.5), "is truncated or damaged"),
    "no byte of weights": (lambda m: truncate(m / "model.safetensors", 0), "is truncated or damaged"),
    "noise for weights": (lambda m: (m / "model.safetensors").write_bytes(b"\xff" * 100), "is truncated or damaged"),
    "half a description": (lambda m: truncate(m / "model.json", 0.5), "model.json is damaged"),
    "a list for a description": (lambda m: (m / "model.json").write_text("[1]"), "does not describe a model"),
    "bytes for a description": (lambda m: (m / "model.json").write_bytes(b"\xff\xfe"), "model.json is damaged"),
    "no format": (lambda m: (m / "model.json").write_text("{}"), "does not describe a model"),
    "another format": (lambda m: edit_json(m / "model.json", format=99), "format 99; this version of powerlink reads"),
    "no weights' hash": (lambda m: edit_json(m / "model.json", weights=None), "lacks a proper 'weights'"),
    "no files": (lambda m: edit_json(m / "model.json", files={}), "lacks a proper 'files'"),
    "a file elsewhere": (
        lambda m: edit_json(m / "model.json", files={"../model.safetensors": "0" * 16}),
        "'../model.safetensors' is no file of weights",
    ),
    "an odd graph": (lambda m: edit_json(m / "model.json", graph={}), "graph lacks a proper 'name'"),
    "unknown settings": (
        lambda m: edit_json(m / "model.json", training={"epochs": 1, "vibes": 2}),
        "describes a model this version does not know",
    ),
    "half a graph": (lambda m: truncate(m / "graph" / "train.parquet", 0.5), "train.parquet is damaged"),
    "NaN": (lambda m: change_weights(m, with_nan), "'bias' hold NaN or infinite numbers"),
    "infinity": (lambda m: change_weights(m, with_infinity), "'bias' hold NaN or infinite numbers"),
    "another shape": (lambda m: change_weights(m, of_another_shape), "does not fit the model and graph"),
    "a weight less": (lambda m: change_weights(m, without_one), "does not fit the model and graph"),
    "other weights": (
        lambda m: edit_json(m / "model.json", weights="0" * 16),
        "other weights than model.json describes",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_folder_is_refused(refused, own_model, damage):
    hurt, expected = DAMAGES[damage]
    hurt(own_model)
    outcome = refused("explain", own_model, *ONE)
    assert expected in outcome.err
    assert str(own_model) in outcome.err


def test_a_width_that_is_no_whole_number_is_refused(refused, own_model):
    description = json.loads((own_model / "model.json").read_text())
    for widths in ([20.5, 20.5], ["a", "b"], [], 3):
        edit_json(own_model / "model.json", model=description["model"] | {"widths": widths})
        assert "model" in refused("rank", own_model).err


def test_a_model_with_the_graph_of_another_is_refused(powerlink, refused, own_model, tmp_path):
    (tmp_path / "other.tsv").write_text("a\tr\tb\nb\tr\tc\nc\tr\ta\n")
    assert (
        powerlink("train", "--data", tmp_path / "other.tsv", "--epochs", 1, "--dim", 5, "--out", tmp_path / "o").code
        == 0
    )
    shutil.rmtree(own_model / "graph")
    shutil.copytree(tmp_path / "o" / "graph", own_model / "graph")
    assert "was trained on another graph" in refused("rank", own_model).err


# --- files of explanations ---


def test_explanations_of_another_model_are_refused(powerlink, refused, model, own_explanations, families, tmp_path):
    other = tmp_path / "other"
    assert powerlink("train", "--data", families, "--epochs", 1, "--dim", 5, "--out", other).code == 0
    before = own_explanations.read_bytes()
    assert "another model" in refused("evaluate", other, own_explanations).err
    assert "another model" in refused("report", other, own_explanations, "--out", tmp_path / "r.html").err
    line = json.loads(own_explanations.read_text("utf-8").splitlines()[0])
    line["made_by"]["graph"] = "another"
    (tmp_path / "graph.jsonl").write_text(json.dumps(line) + "\n", "utf-8")
    assert "of another graph" in refused("evaluate", model, tmp_path / "graph.jsonl").err
    outcome = refused("explain", other, "--split", "test", "--out", own_explanations)
    assert "was made with another model" in outcome.err
    assert own_explanations.read_bytes() == before


@pytest.mark.parametrize("flags", [("--explainer", "random"), ("--paths", 3), ("--seed", 1)])
def test_explanations_of_other_settings_are_not_mixed(refused, model, own_explanations, flags):
    before = own_explanations.read_bytes()
    outcome = refused("explain", model, "--split", "test", *flags, "--out", own_explanations)
    assert f"another {flags[-2].removeprefix('--')} (" in outcome.err
    assert own_explanations.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "holds no explanations"),
        (b"hello\n", "line 1: not a line of JSON"),
        (b"{}\n", "line 1: not an explanation"),
        (b'{"schema": 99}\n', "newer powerlink"),
        (b'{"schema": 1}\n', "line 1"),
        (b"\xff\n", "line 1: not UTF-8"),
    ],
)
def test_a_malformed_file_of_explanations_is_refused(refused, model, tmp_path, content, expected):
    file = tmp_path / "bad.jsonl"
    file.write_bytes(content)
    assert expected in refused("evaluate", model, file).err
    assert expected in refused("report", model, file, "--out", tmp_path / "r.html").err
    assert not (tmp_path / "r.html").exists()


def test_a_file_of_explanations_that_is_not_there_is_named(refused, model, tmp_path):
    assert "none.jsonl" in refused("evaluate", model, tmp_path / "none.jsonl").err


@pytest.mark.parametrize("content", [b"hello\nworld\n", b"a letter to keep, without an end", b"\xff\xfe", b"\n\nx"])
def test_explaining_into_a_file_that_is_something_else_leaves_it_alone(refused, model, tmp_path, content):
    file = tmp_path / "letter.txt"
    file.write_bytes(content)
    refused("explain", model, *ONE, "--out", file)
    assert file.read_bytes() == content


# --- outputs ---


@pytest.mark.parametrize("command", ["train", "explain", "report"])
def test_an_output_below_a_regular_file_is_refused(
    refused, powerlink, families, model, explanations, tmp_path, command
):
    (tmp_path / "file").write_text("mine")
    out = tmp_path / "file" / "below"
    arguments = {
        "train": ("train", "--data", families, "--epochs", 1),
        "explain": ("explain", model, *ONE),
        "report": ("report", model, explanations),
    }[command]
    outcome = powerlink(*arguments, "--out", out)
    assert outcome.code == 1
    assert outcome.err.startswith("powerlink: cannot write ")
    assert outcome.err.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_a_model_folder_that_is_a_file_is_refused(powerlink, families, tmp_path):
    (tmp_path / "m").write_text("mine")
    outcome = powerlink("train", "--data", families, "--epochs", 1, "--out", tmp_path / "m")
    assert "it is a file, and a model is a folder" in outcome.err
    assert (tmp_path / "m").read_text() == "mine"


@pytest.mark.parametrize("device", ["/dev/full", "/dev/zero", "/dev"])
def test_explanations_go_into_regular_files_only(refused, model, device):
    assert "it is no regular file" in refused("explain", model, *ONE, "--out", device).err


def test_a_page_on_a_full_disk_is_told(refused, model, explanations):
    assert (
        "cannot write /dev/full: No space left on device"
        in refused("report", model, explanations, "--out", "/dev/full").err
    )


def no_space(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_fills_while_explaining_keeps_what_is_there(
    powerlink, refused, model, own_explanations, monkeypatch
):
    lines = own_explanations.read_bytes().splitlines(keepends=True)
    own_explanations.write_bytes(b"".join(lines[:3]))
    with monkeypatch.context() as patch:
        patch.setattr("powerlink.run.ledger.os.fsync", no_space)
        outcome = powerlink("explain", model, "--split", "test", "--out", own_explanations)
    assert outcome.code == 1
    assert "No space left on device; the 3 explanations before are safe" in outcome.err
    assert own_explanations.read_bytes().startswith(b"".join(lines[:3]))
    assert powerlink("explain", model, "--split", "test", "--out", own_explanations).code == 0
    assert own_explanations.read_bytes().splitlines(keepends=True)[:3] == lines[:3]
    assert len({e.query for e in read_explanations(own_explanations)}) == len(read_explanations(own_explanations)) == 8


def test_a_disk_that_fills_in_the_middle_of_a_line_costs_that_line(powerlink, model, tmp_path):
    """A limit on the size of files is as good as a full disk, and needs no rights."""
    out = tmp_path / "out.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    try:
        outcome = powerlink("explain", model, "--split", "test", "--out", out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert outcome.code == 1
    assert outcome.err.startswith(f"powerlink: cannot write {out}: File too large")
    assert out.stat().st_size == 3000
    assert powerlink("explain", model, "--split", "test", "--out", out).code == 0
    assert len({e.query for e in read_explanations(out)}) == len(read_explanations(out)) == 8


def test_a_disk_that_fills_while_training_keeps_the_model_that_is_there(powerlink, families, tmp_path, monkeypatch):
    command = ("train", "--data", families, "--epochs", 20, "--dim", 5, "--out", tmp_path / "m")
    real, calls = os.fsync, []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) > 6:
            no_space()
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        outcome = powerlink(*command)
    assert outcome.code == 1
    assert "No space left on device" in outcome.err
    assert outcome.err.count("\n") == 1
    assert not list((tmp_path / "m").glob("*.part"))
    assert powerlink("rank", tmp_path / "m").code == 0, "what was saved before can be used"
    again = powerlink(*command)
    assert again.code == 0
    assert "going on after epoch 10" in again.said


def test_a_lack_of_memory_is_told(powerlink, families, tmp_path):
    outcome = powerlink("train", "--data", families, "--dim", 10**13, "--out", tmp_path / "m")
    assert outcome.code == 1
    assert "this training needs about" in outcome.err
    assert "choose a smaller --dim or --batch-size" in outcome.err


# --- the terminal ---


def test_a_terminal_without_unicode_gets_whole_json(model):
    command = [COMMAND, "explain", str(model), "--head", "Ève0", *ONE[2:], "--json"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    outcome = subprocess.run(command, capture_output=True, env=environment, timeout=60, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, b"")
    assert json.loads(outcome.stdout)["query"]["head"] == "Ève0"


def test_a_full_standard_output_is_told(model):
    with open("/dev/full", "wb") as full:
        command = [COMMAND, "rank", str(model), "--json"]
        outcome = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert outcome.returncode == 1
    assert outcome.stderr.startswith(b"powerlink: reading or writing failed: No space left on device")
    assert outcome.stderr.count(b"\n") == 1


def test_a_reader_that_goes_away_is_no_traceback(model):
    command = f"{COMMAND} explain {model} --split train --json | true"
    outcome = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=False)
    assert outcome.stderr == b""


@pytest.mark.parametrize("command", [("rank",), ("explain", *ONE)])
def test_ctrl_c_is_answered_with_a_sentence(powerlink, model, monkeypatch, command):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("powerlink.models.session.rank", interrupted)
    monkeypatch.setattr("powerlink.explain_many", interrupted)
    outcome = powerlink(command[0], model, *command[1:])
    assert outcome.code == 128 + signal.SIGINT
    assert outcome.err.startswith("powerlink: stopped")
    assert outcome.err.count("\n") == 1


def test_an_error_that_is_ours_is_not_hidden(model, monkeypatch):
    """Only what the user can mend becomes a sentence; a bug keeps its traceback."""

    def bug(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("powerlink.models.session.rank", bug)
    monkeypatch.setattr(sys, "argv", ["powerlink", "rank", str(model)])
    with pytest.raises(ZeroDivisionError):
        main()
