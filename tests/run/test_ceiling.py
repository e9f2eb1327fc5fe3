"""The ceiling on a process's memory: what it is counted from, what it cuts, and that it holds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from builders import knowledge_graph, random_rows, settings_of, triple_tensor
from powerlink.errors import DeviceError
from powerlink.explainers.floor import Random
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explanation import Status
from powerlink.graphs.computation_graph import edge_bounds
from powerlink.kg.knowledge_graph import KnowledgeGraph, Names
from powerlink.memory import Budget, Room
from powerlink.models.checkpoint import save_model, start_folder
from powerlink.models.link_model import ModelSettings, build_model
from powerlink.models.session import Session
from powerlink.models.training import TrainingSettings
from powerlink.pipeline import ExplainSettings
from powerlink.report.schema import from_json, read_explanations, to_json
from powerlink.run import batching, ceiling
from powerlink.run import job as jobs
from powerlink.run.explain_many import explain_many

GIB = 2**30
N, R = 160, 3
HUB = [(i, i % 2, 0) for i in range(1, 140)]
ROWS = list(dict.fromkeys([*HUB, *random_rows(3, N, R, 260)]))
QUERIES = [(150, 0, 0), (151, 1, 0), (7, 2, 33), (0, 2, 145)]
HOW = {"settings": ExplainSettings(core=0, hub_limit=0)}


@pytest.fixture(scope="module")
def session():
    model = build_model(settings_of("compgcn", "distmult", 2), N, R, 0).eval()
    torch.nn.init.normal_(model.encoder.entity, generator=torch.Generator().manual_seed(0))
    torch.nn.init.normal_(model.encoder.relation, generator=torch.Generator().manual_seed(1))
    model.encoder.scale_output(1.0)
    return Session.of(knowledge_graph(ROWS, N, R), model, "cpu", name="m", hash="h")


def granting(monkeypatch, most, **room):
    monkeypatch.setattr(jobs, "budget_for", lambda *_, **__: Budget(most, room=Room(whole=0, **room), most=most))


@pytest.mark.parametrize("explainer", [None, PowerLink(steps=3), Random()])
def test_a_hub_is_told_from_a_sample_and_proven_on_the_whole(session, monkeypatch, explainer):
    queries, how = triple_tensor(QUERIES), HOW | {"explainer": explainer}
    whole = explain_many(session, queries, **how)
    granting(monkeypatch, 300)
    cut = explain_many(session, queries, **how)
    shared = 0
    for one, other in zip(whole, cut, strict=True):
        assert one.size.edges > 300 >= other.size.edges_looked_at >= other.size.edges_kept
        assert (other.size.nodes, other.size.edges) == (one.size.nodes, one.size.edges)
        assert f"{other.size.edges_looked_at:,} of its {one.size.edges:,} edges" in other.remarks[-1]
        assert from_json(to_json(other)) == other
        assert (one.size.edges_looked_at, one.rank) == (None, other.rank)
        assert one.score == pytest.approx(other.score, abs=1e-5)
        known = {piece.facts: piece for piece in one.evidence}
        for piece in other.evidence:
            if same := known.get(piece.facts):
                shared += 1
                assert piece.score_without == pytest.approx(same.score_without, abs=1e-5)
                assert piece.rank_without == same.rank_without
                assert piece.together == pytest.approx(same.together, abs=1e-6)
                for fact, theirs in zip(piece.facts, same.facts, strict=True):
                    assert fact.effect == pytest.approx(theirs.effect, abs=1e-6)
    assert shared > 3


def test_what_is_sampled_does_not_depend_on_the_batches(session, monkeypatch):
    granting(monkeypatch, 300)
    together = explain_many(session, triple_tensor(QUERIES), seed=3, **HOW)
    alone = [explain_many(session, triple_tensor([query]), seed=3, **HOW)[0] for query in QUERIES[::-1]][::-1]
    assert together == alone
    assert explain_many(session, triple_tensor(QUERIES), seed=4, **HOW) != together


def test_enough_memory_changes_nothing(session):
    queries = triple_tensor(QUERIES)
    plain, granted = explain_many(session, queries, **HOW), explain_many(session, queries, memory=64 * GIB, **HOW)
    assert [replace(e, made_by=None) for e in plain] == [replace(e, made_by=None) for e in granted]


def test_too_little_memory_is_a_sentence_that_says_how_much_is_needed(session):
    with pytest.raises(DeviceError, match=r"0\.125 GiB .* too little: .* say --memory 0\.\d, or more"):
        explain_many(session, triple_tensor(QUERIES), memory=GIB // 8)


def test_a_ceiling_is_counted_and_not_measured(session):
    one, ballast = ceiling.budget_for(session, 2 * GIB), torch.ones(2**22)
    assert ceiling.budget_for(session, 2 * GIB) == one
    assert ballast.sum() > 0
    more = ceiling.budget_for(session, 3 * GIB)
    assert (more.edges, more.most, more.room.whole) > (one.edges, one.most, one.room.whole)


def test_where_even_the_proof_does_not_fit_there_is_a_status(session, monkeypatch):
    granting(monkeypatch, 300)
    monkeypatch.setattr(jobs, "abilities_of", lambda model: type("Nothing", (), {"layers": None}))
    monkeypatch.setitem(vars(session), "layers", None)
    found = explain_many(session, triple_tensor(QUERIES), **HOW)
    assert {e.status for e in found} == {Status.TOO_LARGE}


def test_neighbourhoods_are_walked_a_bounded_number_of_edges_at_a_time(session, monkeypatch):
    queries = triple_tensor(QUERIES)
    walked, whole = [], batching.batches(session.messages, queries, 2, Budget())

    def bounds(messages, part, hops):
        walked.append(len(part))
        return edge_bounds(messages, part, hops)

    monkeypatch.setattr(batching, "edge_bounds", bounds)
    monkeypatch.setattr(batching, "WALKED_AT_ONCE", 1)
    again = batching.batches(session.messages, queries, 2, Budget())
    assert [part.content.tolist() for part in again] == [part.content.tolist() for part in whole]
    assert walked == [1] * len(QUERIES)


def hub_model(folder, entities, spokes, others):
    """An untrained model of a graph with two hubs, and questions at them."""
    drawn = np.random.default_rng(0)
    at_hub = [
        np.stack([drawn.permutation(entities - 2)[:spokes], np.full(spokes, i), np.full(spokes, entities - 2 + i)], 1)
        for i in range(2)
    ]
    ends = drawn.integers(0, entities - 2, (2, others))
    facts = np.concatenate([*at_hub, np.stack([ends[0], drawn.integers(2, 9, others), ends[1]], 1)]).astype(np.int64)
    asked = np.array([[entities - 2, 3, entities - 1], [int(at_hub[0][0, 0]), 1, entities - 2]])
    names = (
        Names(kind, tuple(f"{kind[0]}{i}" for i in range(n))) for kind, n in (("entity", entities), ("relation", 9))
    )
    graph = KnowledgeGraph("hubs", *names, facts, facts[:0], asked)
    model = build_model(ModelSettings(encoder="compgcn", decoder="distmult", widths=(32, 32, 32)), entities, 9)
    start_folder(folder, graph)
    save_model(folder, model, graph, TrainingSettings(epochs=1), {}, finished=True)


# What the system says of a child's resident memory begins with its parent's; so the child reads its own.
PROGRAM = """
import atexit, pathlib, sys
atexit.register(lambda: print(pathlib.Path("/proc/self/status").read_text(), file=sys.stderr))
from powerlink.cli.main import main
main()
"""


def explained_under(folder, gib, out):
    """Run the command in a process of its own: its exit, the GiB it took, and what it said."""
    command = [sys.executable, "-c", PROGRAM, "explain", str(folder), "--split", "test", "--out", str(out)]
    command += ["--memory", str(gib), "--device", "cpu", "--hub-limit", "0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "400"}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    peak = int(re.search(r"VmHWM:\s*(\d+) kB", ran.stderr)[1]) / 2**20
    return ran.returncode, peak, ran.stdout + ran.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a process reads its peak where there is /proc")
def test_the_process_stays_below_its_ceiling(tmp_path):
    hub_model(tmp_path / "model", 150_000, 100_000, 100_000)
    more = (ceiling.LIBRARIES - 500 * 2**20) / 2**30  # of a torch built for CUDA
    code, peak, said = explained_under(tmp_path / "model", 1.1 + more, tmp_path / "out.jsonl")
    assert code == 0, said
    assert peak <= 1.1 + more
    assert all(e.remarks and e.size.edges_looked_at < e.size.edges for e in read_explanations(tmp_path / "out.jsonl"))
    code, peak, said = explained_under(tmp_path / "model", 0.5 + more, tmp_path / "none.jsonl")
    assert (code, peak <= 0.5 + more) == (1, True)
    assert f"{0.5 + more:.3g} GiB of memory are too little" in said
    assert "Traceback" not in said
