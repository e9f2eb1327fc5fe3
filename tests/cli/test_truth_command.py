"""powerlink truth: its table, its files, going on after a kill, and what it refuses in one sentence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import call_once

from typed_example import write_example

FAST = ("--explainers", "gradient,random", "--candidates", 10)


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> Path:
    """Who lives in a town because relatives do; the last line is of someone whom the graph does not know."""
    file = tmp_path_factory.mktemp("known") / "known.tsv"
    rows = [f"Carl{i}\tlives_in\tTown{i}\tAnna{i}|Ben{i}|Nobody" for i in range(4)]
    file.write_text("\n".join(["head\trelation\ttail\tknown", *rows]) + "\n", "utf-8")
    return file


@pytest.fixture(scope="module")
def second(families, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "second"
    call_once("train", "--data", families, "--encoder", "rgcn", "--epochs", 4, "--dim", 20, "--out", folder)
    return folder


def test_the_default_rows_stand_in_a_table(powerlink, model, known):
    outcome = powerlink("truth", model, "--known", known)
    assert outcome.code == 0, outcome.err
    assert "known reasons that the training graph does not have: 4 entities" in outcome.err
    assert "4 queries; for 4 the graph has a right path" in outcome.said
    begin = ["slopes, carried", "slopes,", "gradient, mask", "low-degree,", "shortest, mask", "random, mask"]
    lines = outcome.out.splitlines()
    assert [way for way in begin if any(line.startswith(way) for line in lines)] == begin
    for words in ("MRR", "hit@10", "s/query", "compgcn-distmult", "▲ above and ▼ below slopes, carried"):
        assert words in outcome.said


def test_several_models_are_told_one_by_one_and_together(powerlink, model, second, known, tmp_path):
    arguments = ("truth", model, second, "--known", known, *FAST, "--select", "mask", "--select", "carried")
    outcome = powerlink(*arguments, "--limit", 3, "--out", tmp_path / "t")
    assert outcome.code == 0, outcome.err
    for label in ("compgcn-distmult", "rgcn-distmult", "all models together"):
        assert label in outcome.said
    found = json.loads((tmp_path / "t" / "truth.json").read_text("utf-8"))
    assert [table["queries"] for table in found["tables"]] == [3, 3, 6]
    for table in found["tables"]:
        ways = [row["way"] for row in table["rows"]]
        assert ways == ["gradient, mask", "gradient, carried", "random, mask", "random, carried"]
        assert all(len(row["places"]) == table["queries"] for row in table["rows"])
        assert [bool(row["differences"]) for row in table["rows"]] == [False, True, True, True]
    assert len(list((tmp_path / "t").rglob("*.jsonl"))) == 8
    printed = powerlink(*arguments, "--limit", 3, "--json")
    again = json.loads(printed.out)["tables"]
    assert [[row["figures"] for row in table["rows"]] for table in again] == [
        [row["figures"] for row in table["rows"]] for table in found["tables"]
    ]


def test_planted_graphs_need_no_model(powerlink):
    arguments = ("truth", "--planted", "quiet", "--graphs", 2, "--limit", 4, "--explainers", "gradient,shortest")
    outcome = powerlink(*arguments)
    assert outcome.code == 0, outcome.err
    assert "8 queries; for 8 the graph has a right path" in outcome.said
    assert "AUC facts" in outcome.said or "facts" in outcome.said
    one, two, together = json.loads(powerlink(*arguments, "--select", "mask", "--json").out)["tables"]
    assert (one["queries"], two["queries"], together["queries"]) == (4, 4, 8)
    gradient, shortest = together["rows"]
    assert gradient["figures"]["MRR"]["mean"] > 0.8 > shortest["figures"]["MRR"]["mean"]


def test_a_typed_folder_in_two_steps(powerlink, refused, tmp_path):
    folder = write_example(tmp_path / "shop")
    train = ("train", "--data", folder, "--links", "--encoder", "rgcn", "--dim", 10, "--layers", 2)
    assert (
        "has no use for --batch-size and --preset"
        in refused(*train, "--batch-size", 4, "--preset", "x", "--out", tmp_path / "m").err
    )
    outcome = powerlink(*train, "--epochs", 5, "--out", tmp_path / "m")
    assert outcome.code == 0, outcome.err
    assert "ROC-AUC of links against negatives: valid" in outcome.said
    outcome = powerlink("truth", tmp_path / "m", "--known", folder, "--json")
    (table,) = json.loads(outcome.out)["tables"]
    assert table["queries"] == 1
    assert {"AUC directed", "AUC page-link", "AUC facts", "hit@5"} <= table["rows"][0]["figures"].keys()
    outcome = powerlink(*train, "--out", tmp_path / "m")
    assert outcome.code == 1
    assert "holds a model already" in outcome.err


def test_bad_input_is_told_in_one_sentence(refused, powerlink, model, known, tmp_path):
    assert "models and --known, or --planted alone" in refused("truth", model).err
    assert "models and --known, or --planted alone" in refused("truth", "--known", known).err
    assert "models and --known, or --planted alone" in refused("truth", model, "--planted", "plain").err
    assert "go with --known, not with --planted" in refused("truth", "--planted", "plain", "--only-predicted").err
    assert "did you mean 'mask'" in refused("truth", model, "--known", known, "--select", "masks").err
    assert "--weights" in refused("truth", model, "--known", known, "--explainers", "pg-explainer").err
    assert "candidates at least as many" in refused("truth", model, "--known", known, "--paths", 50).err
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text(known.read_text("utf-8") + "Karl0\tlives_in\tTown0\tAnna0\n", "utf-8")
    said = refused("truth", model, "--known", wrong).err
    assert "wrong.tsv, line 6: there is no entity named 'Karl0'; did you mean 'Carl0'" in said
    outcome = powerlink("truth", model, "--known", wrong, "--skip-unknown", *FAST)
    assert outcome.code == 0
    assert "does not know head, relation or tail: 1" in outcome.said
    arguments = ("truth", model, "--known", known, *FAST, "--out", tmp_path / "t")
    assert powerlink(*arguments).code == 0
    again = powerlink("truth", model, "--known", known, "--explainers", "gradient", "--candidates", 11, *arguments[-2:])
    assert again.code == 1
    assert "was made with another candidates (10, now 11)" in again.err


SMALL_BATCHES_THEN_STOP = """
import os, signal
from powerlink import memory
from powerlink.run import truth
memory.MOST_QUERIES = 2
real, count = truth.Ledger.append, 0
def append(self, explanations):
    global count
    real(self, explanations)
    count += 1
    if count == 3:
        os.kill(os.getpid(), getattr(signal, os.environ["HOW"]))
truth.Ledger.append = append
from powerlink.cli.main import main
main()
"""


@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_an_interrupted_run_goes_on(powerlink, model, known, tmp_path, how):
    arguments = ("truth", model, "--known", known, *FAST, "--out", tmp_path / "t")
    command = [sys.executable, "-c", SMALL_BATCHES_THEN_STOP, *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HOW": how}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    if how == "SIGINT":
        assert done.returncode == 130, done.stderr
        assert f"what was explained is safe in {tmp_path / 't'}" in done.stderr
    else:
        assert done.returncode == -signal.SIGKILL
    safe = {path: path.read_bytes() for path in (tmp_path / "t").rglob("*.jsonl") if path.stat().st_size}
    assert safe
    assert not (tmp_path / "t" / "truth.json").exists()
    assert powerlink(*arguments).code == 0
    assert all(path.read_bytes().startswith(before) for path, before in safe.items())
    assert powerlink(*arguments[:-1], tmp_path / "whole").code == 0
    one, other = (json.loads((tmp_path / n / "truth.json").read_text("utf-8"))["tables"][0] for n in ("t", "whole"))
    assert [row["places"] for row in one["rows"]] == [row["places"] for row in other["rows"]]
