"""powerlink compare: its tables and files, and what it refuses in one sentence."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from command_line import FAMILIES, call_once, write_tables

from powerlink.explainers.catalog import EXPLAINERS, Recipe
from powerlink.explainers.protocol import EdgeScores
from powerlink.models.checkpoint import load_model
from powerlink.run.queries import choose_queries

FAST = ("--explainers", "gradient,random,shortest", "--which", "all", "--candidates", 8)


@dataclass(frozen=True, kw_only=True)
class Careless:
    """Forgets that scores are at most one."""

    name: ClassVar[str] = "careless"
    cost: ClassVar[str] = "inverse"

    def score_edges(self, model, graph, seed):
        return EdgeScores(torch.full((graph.num_edges,), 2.0))


@dataclass(frozen=True, kw_only=True)
class Faulty:
    """Keeps the contract but for one fault, its name."""

    name: str
    cost: ClassVar[str] = "inverse"

    def score_edges(self, model, graph, seed):
        values = graph.kept.float()
        if self.name == "ragged":
            values = values[:-1]
        elif self.name == "unbounded":
            values[0] = torch.inf
        elif self.name == "meddling":
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(1.0)
        elif self.name == "replacing":
            model.bias = torch.nn.Parameter(model.bias + 5.0)
        return EdgeScores(values)


FAULTS = {
    "ragged": "the explainer ragged returned scores of shape (",
    "unbounded": "the explainer unbounded returned scores that are not finite",
    "meddling": "the explainer meddling changed the model it was to explain",
    "replacing": "the explainer replacing changed the model it was to explain",
}


@pytest.fixture(scope="module")
def second(families, tmp_path_factory) -> Path:
    """Another model of the same graph."""
    folder = tmp_path_factory.mktemp("models") / "second"
    call_once("train", "--data", families, "--encoder", "rgcn", "--epochs", 4, "--dim", 20, "--out", folder)
    return folder


def test_two_models_are_compared_in_tables_and_files(powerlink, model, second, tmp_path):
    out = tmp_path / "c"
    outcome = powerlink("compare", model, second, *FAST, "--out", out)
    assert outcome.code == 0, outcome.err
    for words in ("compgcn-distmult on families", "rgcn-distmult on families", "8 queries", "The mask, and the time"):
        assert words in outcome.said
    assert "above and ▼ below gradient" in outcome.said
    assert f"compare.md, compare.json and compare.html in {out}" in outcome.said

    found = json.loads((out / "compare.json").read_text("utf-8"))
    assert found["settings"]["candidates"] == 8
    assert found["settings"]["explainers"] == "gradient, random, shortest"
    assert [entry["model"] for entry in found["models"]] == ["compgcn-distmult", "rgcn-distmult"]
    for entry in found["models"]:
        assert list(entry["tables"]) == ["mask", "carried"]
        for table in entry["tables"].values():
            assert [row["explainer"] for row in table] == ["gradient", "random", "shortest"]
            assert all(row["queries"] == 8 == sum(row["statuses"].values()) for row in table)
            assert [bool(row["differences"]) for row in table] == [False, True, True]
        assert len(entry["overlaps"]["carried"]) == 3
        assert set(entry["paces"]) == {"gradient", "random", "shortest"}

    page = (out / "compare.html").read_text("utf-8")
    assert not re.search(r"<(script|link|img|iframe)|https?://|@import", page)
    assert page.count("<svg") == 2 * (9 + 2)
    assert "Carl0" in page, "examples have names"
    text = (out / "compare.md").read_text("utf-8")
    assert text.count("### Paths chosen by what their facts carry together, among") == 2
    assert len(re.findall(r"^\| gradient \| \d\.\d{3} \(", text, re.MULTILINE)) == 2 * 3


def test_a_rerun_changes_nothing_and_goes_on_with_more(powerlink, model, tmp_path):
    out = tmp_path / "c"
    before = powerlink("compare", model, *FAST, "--limit", 3, "--out", out)
    written = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert powerlink("compare", model, *FAST, "--limit", 3, "--out", out).out == before.out
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == written
    assert "5 queries" in powerlink("compare", model, *FAST, "--limit", 5, "--out", out).said


@pytest.mark.parametrize("which", ["believed", "first", "all"])
def test_what_is_left_out_is_counted(powerlink, model, tmp_path, which):
    session = load_model(model)
    facts = torch.from_numpy(session.graph.train.copy())
    chosen = choose_queries(session, facts, which, max_nodes=5, hops=1)
    arguments = ("--explainers", "shortest", "--select", "mask", "--split", "train", "--hops", 1, "--max-nodes", 5)
    outcome = powerlink("compare", model, *arguments, "--which", which, "--out", tmp_path / "c")
    if not len(chosen.queries):
        assert which != "all"
        assert outcome.code == 1
        assert f"has no train fact of the kind --which {which}" in outcome.err
        return
    reason = {"believed": "not believed", "first": "not ranked first"}.get(which)
    expected = ({reason: chosen.not_wanted} if reason else {}) | {"more than 5 nodes": chosen.too_large}
    (entry,) = json.loads((tmp_path / "c" / "compare.json").read_text("utf-8"))["models"]
    assert entry["left_out"] == expected
    assert entry["queries"] + sum(expected.values()) == len(FAMILIES["train"])
    said = ", ".join(f"{count} {why}" for why, count in expected.items())
    assert re.search(rf"\b{entry['queries']} quer(y|ies); left out: {said}", outcome.said)


def test_an_explainer_is_fitted_here_or_brings_its_weights(powerlink, refused, model, second, tmp_path):
    arguments = ("compare", model, "--explainers", "pg-explainer,random", "--which", "all", "--limit", 3)
    assert "--weights, or let it be fitted" in refused(*arguments, "--out", tmp_path / "none").err
    assert not (tmp_path / "none").exists()
    assert "not both" in refused(*arguments, "--fit", 3, "--weights", "x", "--out", tmp_path / "none").err
    outcome = powerlink(*arguments, "--fit", 3, "--out", tmp_path / "c")
    assert outcome.code == 0, outcome.err
    (weights,) = (tmp_path / "c").rglob("*.safetensors")
    outcome = powerlink(*arguments, "--weights", weights, "--out", tmp_path / "d")
    assert outcome.code == 0, outcome.err
    alone = ("compare", second, *arguments[2:], "--weights", weights, "--out", tmp_path / "e")
    outcome = powerlink(*alone)
    assert outcome.code == 1
    assert "left out: " in outcome.err
    assert "was fitted on another model" in outcome.err
    assert "took no part" in (tmp_path / "e" / "compare.html").read_text("utf-8")


def test_an_explainer_that_breaks_its_contract_does_not_stop_the_others(powerlink, model, tmp_path, monkeypatch):
    monkeypatch.setitem(EXPLAINERS, "careless", Recipe("careless", Careless, "forgetful"))
    arguments = ("compare", model, "--which", "all", "--limit", 3, "--explainers")
    outcome = powerlink(*arguments, "careless,random", "--out", tmp_path / "c")
    assert outcome.code == 1
    assert outcome.err.splitlines() == [
        "left out: the explainer careless returned scores from 2 to 2; kept edges need (0, 1]"
    ]
    assert "▼ below random" in outcome.said
    assert (tmp_path / "c" / "compare.html").is_file()
    outcome = powerlink(*arguments, "careless", "--out", tmp_path / "d")
    assert outcome.code == 1
    assert "no explainer could take part" in outcome.err


def test_a_fault_is_told_by_name_and_leaves_the_others_as_if_it_had_not_been(powerlink, model, tmp_path, monkeypatch):
    for name in FAULTS:
        monkeypatch.setitem(EXPLAINERS, name, Recipe(name, Faulty, "faulty", {}))
        monkeypatch.setattr(
            Recipe,
            "make",
            lambda self, given=None, real=Recipe.make: (
                Faulty(name=self.name) if self.kind is Faulty else real(self, given)
            ),
        )
    arguments = ("compare", model, "--which", "all", "--limit", 3, "--explainers")
    outcome = powerlink(*arguments, ",".join([*FAULTS, "gradient", "random"]), "--out", tmp_path / "c")
    assert outcome.code == 1
    lines = outcome.err.splitlines()
    assert len(lines) == len(FAULTS)
    for line, sentence in zip(lines, FAULTS.values(), strict=True):
        assert line.startswith(f"left out: {sentence}")
    assert powerlink(*arguments, "gradient,random", "--out", tmp_path / "d").code == 0
    one, other = (json.loads((tmp_path / n / "compare.json").read_text("utf-8"))["models"][0] for n in ("c", "d"))
    assert one["tables"] == other["tables"]


def test_bad_input_is_told_in_one_sentence(refused, powerlink, model, second, tmp_path):
    out = ("--out", tmp_path / "c")
    other = tmp_path / "other"
    rows = {**FAMILIES, "train": FAMILIES["train"][1:]}
    call_once("train", "--data", write_tables(tmp_path / "less", rows), "--epochs", 1, "--dim", 20, "--out", other)
    assert "models of different graphs (families, less)" in refused("compare", model, other, *FAST, *out).err
    copy = shutil.copytree(model, tmp_path / "copy")
    assert "are the same model" in refused("compare", model, copy, *FAST, *out).err
    assert "did you mean 'page-link'" in refused("compare", model, "--explainers", "power-link,pagelink", *out).err
    assert "names nothing" in refused("compare", model, "--explainers", " ,", *out).err
    assert "did you mean 'mask'" in refused("compare", model, "--select", "masks", *out).err
    assert "path lengths" in refused("compare", model, "--min-length", 4, *out).err
    assert "small enough" in refused("compare", model, *FAST, "--max-nodes", 1, *out).err
    assert not (tmp_path / "c").exists()
    assert powerlink("compare", model, *FAST, "--limit", 2, *out).code == 0
    again = refused("compare", model, *FAST, "--limit", 2, "--core", 3, *out)
    assert "holds a comparison with another core (2, now 3): choose another --out" in again.err
    assert "holds no comparison" in refused("compare", model, *FAST, "--out", model).err


SMALL_BATCHES_THEN_CTRL_C = """
import os, signal
from powerlink import memory
from powerlink.run import comparison_folder
memory.MOST_QUERIES = 2
real, count = comparison_folder.Ledger.append, 0
def append(self, explanations):
    global count
    real(self, explanations)
    count += 1
    if count == 3:
        os.kill(os.getpid(), getattr(signal, os.environ["HOW"]))
comparison_folder.Ledger.append = append
from powerlink.cli.main import main
main()
"""


@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_an_interrupted_comparison_goes_on(powerlink, model, tmp_path, how):
    arguments = ("compare", model, *FAST, "--out", tmp_path / "c")
    command = [sys.executable, "-c", SMALL_BATCHES_THEN_CTRL_C, *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HOW": how}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    if how == "SIGINT":
        assert done.returncode == 130, done.stderr
        sentence = f"powerlink: stopped; what was explained is safe in {tmp_path / 'c'}; run the same command again"
        assert done.stderr.splitlines()[-1].startswith(sentence)
    else:
        assert done.returncode == -signal.SIGKILL
    safe = {path: path.read_bytes() for path in (tmp_path / "c").rglob("*.jsonl") if path.stat().st_size}
    assert safe
    assert not (tmp_path / "c" / "compare.md").exists()
    assert powerlink(*arguments).code == 0
    assert all(path.read_bytes().startswith(before) for path, before in safe.items())
    assert powerlink("compare", model, *FAST, "--out", tmp_path / "whole").code == 0
    one, other = (json.loads((tmp_path / name / "compare.json").read_text("utf-8")) for name in ("c", "whole"))
    for again, whole in zip(one["models"], other["models"], strict=True):
        assert again["overlaps"] == whole["overlaps"]
        for select, table in whole["tables"].items():
            for row, expected in zip(again["tables"][select], table, strict=True):
                assert row["statuses"] == expected["statuses"]
                means = [figure["mean"] for figure in row["figures"]]
                assert means == pytest.approx([figure["mean"] for figure in expected["figures"]], abs=1e-5)
