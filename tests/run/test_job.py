"""Jobs are values: they pickle, run in other processes, and say how long each stage took; long runs survive a kill."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import torch

import powerlink
from builders import knowledge_graph, model_of, random_rows, triple_tensor
from powerlink import ExplainSettings
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.models.checkpoint import save_model, start_folder
from powerlink.models.training import TrainingSettings
from powerlink.report.schema import read_explanations, to_json
from powerlink.run.explain_many import explain_many
from powerlink.run.job import ExplainJob, run_from

N, R = 14, 3
GRAPH = knowledge_graph(random_rows(1, N, R, 60), N, R)
QUERIES = [(h, r, t) for h in range(6) for r in range(2) for t in (7, 9)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("models") / "m"
    start_folder(path, GRAPH)
    model = model_of("compgcn", "distmult", 2, N, R).float()
    save_model(path, model, GRAPH, TrainingSettings(), {}, finished=True)
    return path


def test_a_pool_of_spawned_processes_runs_jobs(folder):
    job = ExplainJob.of(PowerLink(steps=3), ExplainSettings(candidates=8), seed=4)
    assert pickle.loads(pickle.dumps(job)) == job
    session = powerlink.load_model(folder)
    batches = list(triple_tensor(QUERIES).split(5))
    here = [job.run(session, batch) for batch in batches]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        there = list(pool.map(run_from, [str(folder)] * len(batches), [job] * len(batches), batches))
    assert [list(map(to_json, result.explanations)) for result in there] == [
        list(map(to_json, result.explanations)) for result in here
    ]
    for result in there:
        assert {"score edges", "search paths", "choose paths", "judge"} <= result.seconds.keys()
        assert all(took.clock >= 0 for took in result.seconds.values())


SCRIPT = """
import sys, torch, powerlink
from powerlink import memory
memory.MOST_QUERIES = 3
session = powerlink.load_model(sys.argv[1])
queries = torch.tensor(eval(sys.argv[3]))
powerlink.explain_many(session, queries, out=sys.argv[2], told=lambda what, done, of: print(done, flush=True))
"""


def test_a_python_run_that_is_killed_and_resumed_equals_an_uninterrupted_one(folder, tmp_path):
    own = {**os.environ, "PYTHONPATH": str(Path(powerlink.__file__).parents[1])}

    def run(out):
        return [sys.executable, "-c", SCRIPT, str(folder), str(out), repr(QUERIES)]

    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    subprocess.run(run(whole), env=own, check=True, capture_output=True, timeout=120)
    with subprocess.Popen(run(killed), stdout=subprocess.PIPE, text=True, env=own) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if int(line) >= 6)
        process.send_signal(signal.SIGKILL)
    before = killed.read_bytes()
    assert 6 <= before.count(b"\n") < len(QUERIES)
    subprocess.run(run(killed), env=own, check=True, capture_output=True, timeout=120)
    assert killed.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    assert read_explanations(killed) == read_explanations(whole)
    assert len(read_explanations(whole)) == len(QUERIES)


def test_only_what_is_believed_in_memory_or_in_a_file(folder, tmp_path):
    session = powerlink.load_model(folder)
    every = explain_many(session, triple_tensor(QUERIES))
    held = {
        "believed": lambda e: e.score > 0,
        "first": lambda e: e.rank == 1,
        "predicted": lambda e: e.score > 0 or e.rank == 1,
    }
    for which, holds in held.items():
        wanted = [e.query for e in every if holds(e)]
        heard = []
        found = explain_many(
            session,
            triple_tensor(QUERIES),
            which=which,
            limit=3,
            out=tmp_path / f"{which}.jsonl",
            told=lambda *what, heard=heard: heard.append(what),
        )
        assert [e.query for e in found] == wanted[:3]
        assert heard[-1][0] == "explaining"
        assert heard[-1][1] == heard[-1][2] == len(found)


def test_repeated_queries_are_explained_once_and_given_back_as_asked(folder):
    session = powerlink.load_model(folder)
    twice = torch.tensor([QUERIES[0], QUERIES[1], QUERIES[0]])
    told = []
    found = explain_many(session, twice, told=lambda what, done, of: told.append((done, of)))
    assert [e.query for e in found] == [found[0].query, found[1].query, found[0].query]
    assert told[-1] == (2, 2)
