"""Workers: every parcel once, in processes and on a local Ray cluster, whoever dies, hangs or cannot open the model."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from builders import knowledge_graph, model_of, random_rows, triple_tensor
from powerlink import Session, load_model, memory
from powerlink.errors import ExplainerError, MismatchError, ModelError, SettingsError, WorkerError
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explanation import Status
from powerlink.models.checkpoint import save_model, start_folder
from powerlink.models.link_model import ModelSettings, build_model
from powerlink.models.stand_ins import Fit
from powerlink.models.training import TrainingSettings
from powerlink.pipeline import ExplainSettings
from powerlink.report.schema import read_explanations
from powerlink.run import pool
from powerlink.run.compare import compare
from powerlink.run.comparison_folder import CompareSettings
from powerlink.run.executor import Parcel, Serial
from powerlink.run.explain_many import explain_many, run_batches
from powerlink.run.job import ExplainJob
from powerlink.run.processes import processes
from powerlink.run.truth import Task, Trial, find_ways
from powerlink.run.workforce import Workforce
from powerlink.stage_clock import timed
from run import strange_jobs
from run.strange_jobs import Counted, DeadlyElsewhere, Hungry, Poisoned

N, R = 14, 3
GRAPH = knowledge_graph(random_rows(1, N, R, 60), N, R)
QUERIES = triple_tensor([(h, r, t) for h in range(6) for r in range(2) for t in (7, 9)])


@pytest.fixture(autouse=True)
def _nobody_is_late(monkeypatch):
    """On a busy machine a new worker takes its time; only where it is told is that taken for a straggler's."""
    monkeypatch.setattr(pool, "GRACE", 1e9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m"
    start_folder(path, GRAPH)
    save_model(path, model_of("compgcn", "distmult", 2, N, R).float(), GRAPH, TrainingSettings(), {}, finished=True)
    return path


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster of this machine with room for four workers, whatever it has."""
    ray = pytest.importorskip("ray", reason="Ray is not installed (powerlink[ray])")
    paths = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    how = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    ray.init(num_cpus=4, runtime_env={"env_vars": paths}, **how)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def workers():
    """Two processes that stay for all tests: a pool outlives its jobs."""
    with Workforce(executor="processes", workers=2).hire() as executor:
        yield executor


@pytest.fixture(scope="module")
def actors(cluster):
    with Workforce(executor="ray", workers=2).hire() as executor:
        yield executor


@pytest.fixture(params=["workers", "actors"])
def anywhere(request):
    """Processes, and actors of Ray: what they share is tried on processes alone."""
    return request.getfixturevalue(request.param)


def squares(executor, job, count=12):
    parcels = [Parcel(number, number) for number in range(count)]
    found = list(executor.map(job, parcels, None))
    assert sorted(place for place, _ in found) == list(range(count)), "every parcel comes back once"
    return dict(found)


def expected(count=12):
    return {number: number * number for number in range(count)}


def test_every_parcel_is_done_once_and_the_largest_is_begun_first(anywhere, tmp_path):
    job = Counted(tmp_path)
    assert squares(anywhere, job) == expected()
    attempts = [job.attempts(number) for number in range(12)]
    assert min(attempts) == 1
    assert sum(attempts) <= 12 + 2, "who is done early takes a copy of what waits at the other, and of nothing else"
    begun = sorted(tmp_path.iterdir(), key=lambda mark: int(mark.suffix[1:]))
    assert {int(mark.name.split(".")[0]) for mark in begun[:2]} <= {8, 9, 10, 11}


def test_a_dead_workers_parcel_goes_to_another_and_what_nobody_survives_is_lost_with_a_reason(anywhere, tmp_path):
    job = Counted(tmp_path, kills_once=frozenset({3}), kills=frozenset({5}))
    found = squares(anywhere, job)
    assert found.pop(5).startswith("3 workers died of it: ")
    assert found == {number: square for number, square in expected().items() if number != 5}
    assert 2 <= job.attempts(3) <= 3, "one more where a copy was begun"
    assert 3 <= job.attempts(5) <= 4


def test_what_a_straggler_holds_is_done_by_others(workers, tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "GRACE", 0.5)
    job = Counted(tmp_path, hangs_once=frozenset({4}))
    assert squares(workers, job) == expected()
    assert job.attempts(4) == 2
    assert squares(workers, Counted(tmp_path)) == expected(), "and the next job finds two workers"


def test_an_error_is_the_drivers_and_the_pool_lives_on(workers, tmp_path):
    with pytest.raises(ExplainerError, match="7 is refused"):
        squares(workers, Counted(tmp_path, refuses=frozenset({7})))
    assert squares(workers, Counted(tmp_path)) == expected()


def test_workers_that_die_again_and_again_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "TRIES", 1)
    with processes(1) as workers, pytest.raises(WorkerError, match="workers died one after the other: killed by SIG"):
        squares(workers, Counted(tmp_path, kills=frozenset(range(12))))


def test_where_no_worker_lives_to_tell_its_memory_the_driver_tells_its_own(folder):
    with processes(1) as workers:
        assert workers.budget(DeadlyElsewhere(os.getpid()), load_model(folder)) == memory.Budget(queries=5)


def in_batches_of_three(monkeypatch):
    """Cut small batches, here and in the budgets that workers tell."""
    monkeypatch.setattr(pool.Pool, "budget", lambda *args: memory.Budget(queries=3))
    monkeypatch.setattr(Serial, "budget", lambda *args: memory.Budget(queries=3))


def test_explanations_and_the_file_are_those_of_a_serial_run(anywhere, folder, tmp_path, monkeypatch):
    in_batches_of_three(monkeypatch)
    session = load_model(folder)
    how = {"explainer": PowerLink(steps=3), "settings": ExplainSettings(candidates=8), "seed": 4}
    heard = []
    serial = explain_many(session, QUERIES, out=tmp_path / "serial.jsonl", **how)
    with timed() as seconds:
        spread = explain_many(
            session,
            QUERIES,
            out=tmp_path / "spread.jsonl",
            executor=anywhere,
            told=lambda *said: heard.append(said),
            **how,
        )
    assert spread == serial
    assert (tmp_path / "spread.jsonl").read_bytes() == (tmp_path / "serial.jsonl").read_bytes()
    assert not (tmp_path / "spread.jsonl.waiting").exists()
    assert [done for _, done, _ in heard] == sorted(done for _, done, _ in heard)
    assert heard[-1] == ("explaining", len(QUERIES), len(QUERIES))
    assert {"score edges", "judge"} <= seconds.keys(), "the anywhere' stages are told here"


def test_a_batch_that_kills_its_workers_is_a_status_with_its_reason(workers, folder, monkeypatch):
    in_batches_of_three(monkeypatch)
    session = load_model(folder)
    found = explain_many(session, QUERIES, explainer=Poisoned(deadly=5), executor=workers)
    heads = QUERIES[:, 0].reshape(-1, 3)  # by batch
    deadly = (heads == 5).any(1, keepdim=True).expand_as(heads).flatten().tolist()
    assert 0 < sum(deadly) < len(QUERIES)
    assert [e.status is Status.WORKER_LOST for e in found] == deadly
    assert all("3 workers died of it" in e.remarks[0] and e.score is None for e in found if not e.evidence)


def test_a_model_whose_folder_vanishes_is_sent_itself(anywhere, folder, tmp_path):
    gone = tmp_path / "gone"
    shutil.copytree(folder, gone)
    session = replace(load_model(gone), hash="a name of its own")
    shutil.rmtree(gone)
    assert [e.score for e in explain_many(session, QUERIES, executor=anywhere)] == [
        e.score for e in explain_many(session, QUERIES)
    ]


def test_a_model_that_was_never_in_a_folder_is_sent_itself(workers):
    model = model_of("rgcn", "distmult", 2, N, R).float()
    session = Session.of(GRAPH, model, name="own")
    assert not session.source
    assert explain_many(session, QUERIES[:4], executor=workers) == explain_many(session, QUERIES[:4])


def test_a_model_of_vectors_is_fitted_at_workers_as_its_session_says(workers):
    model = build_model(ModelSettings(encoder="none", decoder="complex", widths=(8,)), 9, 2, 0).eval()
    session = Session.of(knowledge_graph(random_rows(0, 9, 2, 30), 9, 2), model, name="vectors")
    session = replace(session, fit=Fit(steps=5))
    queries, settings = triple_tensor([(0, 0, 1), (3, 1, 2)]), ExplainSettings(candidates=5)
    serial = explain_many(session, queries, settings=settings)
    assert explain_many(session, queries, settings=settings, executor=workers) == serial
    assert all("5 steps" in explanation.made_by.reading for explanation in serial)


def test_another_model_in_its_place_is_refused(workers, folder):
    session = replace(load_model(folder), hash="another")
    with pytest.raises(MismatchError, match=r"a worker found another model at .*: \w+, not another"):
        explain_many(session, QUERIES[:4], executor=workers)


def test_a_job_that_a_worker_cannot_read_is_a_sentence(anywhere, tmp_path, monkeypatch):
    monkeypatch.setattr(Counted, "__module__", "nowhere")
    monkeypatch.setitem(sys.modules, "nowhere", strange_jobs)
    with pytest.raises(WorkerError, match=r"a worker cannot read its job \(No module named 'nowhere'\)"):
        squares(anywhere, Counted(tmp_path))


def test_a_comparison_and_a_truth_are_those_of_a_serial_run(workers, folder, tmp_path, monkeypatch):
    in_batches_of_three(monkeypatch)
    session = load_model(folder)
    how = {"explainers": ["gradient", "random"], "settings": CompareSettings(which="all", split="train"), "limit": 8}
    ways = find_ways(["gradient"])
    planted = Task.planted(plant_small())
    for name, executor in (("serial", Serial()), ("spread", workers)):
        compare({"m": session}, tmp_path / name, executor=executor, **how)
        Trial(ways, folder=tmp_path / f"{name}-truth").run([planted], executor=executor)
    for name in ("", "-truth"):
        one, other = tmp_path / f"serial{name}", tmp_path / f"spread{name}"
        files = sorted(path.relative_to(one) for path in one.rglob("*"))
        assert files == sorted(path.relative_to(other) for path in other.rglob("*"))
        ledgers = [path for path in files if path.suffix == ".jsonl"]
        assert ledgers
        for path in ledgers:
            assert (one / path).read_bytes() == (other / path).read_bytes()


def plant_small():
    from powerlink.kg.planted import NOISE, plant  # noqa: PLC0415

    return plant(0, replace(NOISE["plain"], entities=60))


def test_what_waits_for_its_turn_survives_a_kill(folder, tmp_path, monkeypatch):
    in_batches_of_three(monkeypatch)
    session, out = load_model(folder), tmp_path / "out.jsonl"

    class LastFirst(Serial):
        """Ends before it has done the first parcel."""

        def map(self, job, parcels, session):
            done.extend(range(1, len(parcels)))
            for i in reversed(range(1, len(parcels))):
                yield i, job.run(session, parcels[i].content)
            raise KeyboardInterrupt

    class Counting(Serial):
        def map(self, job, parcels, session):
            done.append(len(parcels))
            return super().map(job, parcels, session)

    done: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        explain_many(session, QUERIES, out=out, executor=LastFirst())
    assert read_explanations(out) == []
    assert len(list((tmp_path / "out.jsonl.waiting").iterdir())) == len(QUERIES) // 3 - 1
    stale = tmp_path / "out.jsonl.waiting" / f"{'0' * 24}.json"
    stale.write_text("of another run")
    done.clear()
    heard = []
    explain_many(session, QUERIES, out=out, executor=Counting(), told=lambda *said: heard.append(said[1]))
    assert done == [1], "only the first is explained again"
    assert heard[1] == len(QUERIES) - 3
    assert read_explanations(out) == explain_many(session, QUERIES)
    assert not (tmp_path / "out.jsonl.waiting").exists()


def test_a_waiting_file_that_is_damaged_is_named(folder, tmp_path, monkeypatch):
    in_batches_of_three(monkeypatch)
    session = load_model(folder)
    job = ExplainJob()
    waiting = tmp_path / "waiting"

    class Half(Serial):
        def map(self, job, parcels, session):
            yield 1, job.run(session, parcels[1].content)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_batches(session, QUERIES, job, executor=Half(), waiting=waiting))
    (file,) = waiting.iterdir()
    file.write_text(file.read_text()[:50])
    with pytest.raises(Exception, match=f"{file.name} is damaged .* delete it"):
        list(run_batches(session, QUERIES, job, waiting=waiting))


def test_a_folder_that_lies_elsewhere_is_fetched_once_and_again_when_it_changes(folder, tmp_path, monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    from powerlink import open_model  # noqa: PLC0415

    fsspec.filesystem("memory").put(f"{folder}/", "/bucket/m/", recursive=True)
    here = load_model(folder)
    for url in (f"file://{folder}", "memory://bucket/m"):
        there = open_model(url)
        assert (there.hash, there.source) == (here.hash, url)
        assert explain_many(there, QUERIES[:2]) == explain_many(here, QUERIES[:2])
    copies = list((tmp_path / "cache" / "powerlink" / "models").iterdir())
    open_model("memory://bucket/m")
    assert sorted((tmp_path / "cache" / "powerlink" / "models").iterdir()) == sorted(copies)
    fsspec.filesystem("memory").pipe("/bucket/m/model.json", (folder / "model.json").read_bytes() + b"\n")
    open_model("memory://bucket/m")
    assert len(list((tmp_path / "cache" / "powerlink" / "models").iterdir())) == len(copies) + 1
    with pytest.raises(ModelError, match=r"holds no model\.json"):
        open_model("memory://bucket/nothing")
    with pytest.raises(ModelError, match="cannot be read"):
        open_model("nosuchscheme://bucket/m")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"workers": 2}, "a serial run has no workers"),
        ({"executor": "processes", "ray": "auto"}, "--executor is processes"),
        ({"executor": "processes", "workers": 0}, "workers must be at least 1"),
        ({"executor": "threads"}, "executor must be"),
        ({"executor": "ray", "gpus_per_worker": -1.0}, "gpus_per_worker must be at least 0"),
    ],
)
def test_a_workforce_that_cannot_be_is_refused(settings, said):
    with pytest.raises(SettingsError, match=said):
        Workforce(**settings)


def test_workers_that_cannot_be_had_are_a_sentence(cluster, monkeypatch):
    def refused(said, **settings):
        with pytest.raises(SettingsError, match=said), Workforce(**settings).hire():
            raise AssertionError("somebody was hired")

    refused("but the device is the CPU", executor="processes", gpus_per_worker=1.0)
    refused("4 cores and 0 GPUs: room for 4 workers with 1 cores and 0 GPUs each, not", executor="ray", workers=5)
    refused("room for 0 workers", executor="ray", gpus_per_worker=1.0)
    monkeypatch.setitem(sys.modules, "ray", None)
    refused(r"Ray is not installed: .*powerlink\[ray\]", executor="ray")


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "127.0.0.1:99999999"])
def test_a_cluster_that_is_not_there_is_a_sentence(address):
    pytest.importorskip("ray", reason="Ray is not installed (powerlink[ray])")
    with (
        pytest.raises(WorkerError, match=f"there is no Ray cluster at {address}"),
        Workforce(executor="ray", ray=address).hire(),
    ):
        raise AssertionError("somebody was hired")


def test_too_little_memory_in_a_worker_is_told_as_it_is_here(workers, folder):
    session = load_model(folder)
    for executor in (Serial(), workers):
        (found,) = explain_many(session, QUERIES[:1], explainer=Hungry(), executor=executor)
        assert found.status is Status.TOO_LARGE
