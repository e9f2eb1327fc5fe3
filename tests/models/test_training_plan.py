"""What a training takes is told from the shapes, and what does not fit is sampled or refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from builders import knowledge_graph, random_rows
from powerlink import memory
from powerlink.errors import DeviceError
from powerlink.kg.knowledge_graph import KnowledgeGraph, Names
from powerlink.models import training_plan
from powerlink.models.link_model import ModelSettings
from powerlink.models.training_plan import NEGATIVES, NEIGHBOURS, memory_needed, plan_training
from powerlink.models.training_settings import BATCH, SAMPLED_BATCH, TrainingSettings

GIB = 2**30
SHAPE = ModelSettings(widths=(16, 16, 16))
SMALL = knowledge_graph(random_rows(0, 30, 2, 60), 30, 2)


def large(facts=800_000, entities=199_000):
    """As the issue's: nothing but its sizes matters."""
    train = np.random.default_rng(0).integers(0, 50, (facts, 3))
    none = train[:0].copy()
    names = Names("entity", tuple(map(str, range(entities)))), Names("relation", tuple(map(str, range(50))))
    return KnowledgeGraph("large", *names, train, none, none)


@pytest.fixture
def free(monkeypatch):
    def granted(gib):
        monkeypatch.setattr(training_plan, "free_memory", lambda device: int(gib * GIB))

    granted(22)
    return granted


def test_where_it_fits_all_of_the_graph_is_looked_at(free):
    plan = plan_training(SHAPE, SMALL, TrainingSettings())
    chosen = plan.settings
    assert (chosen.neighbours, chosen.negatives, chosen.batch_size) == (0, 0, BATCH)
    assert not chosen.sampled
    assert not plan.why


def test_an_epoch_of_hours_is_sampled_and_said_to_be(free):
    plan = plan_training(SHAPE, large(), TrainingSettings())
    chosen = plan.settings
    assert (chosen.neighbours, chosen.negatives, chosen.batch_size) == (NEIGHBOURS, NEGATIVES, SAMPLED_BATCH)
    assert plan.why.startswith("with all of the graph in every step an epoch would take about 4 h")
    assert str(plan) == f"needs about {plan.memory / GIB:.1f} GiB of 22.0 GiB of free memory"
    assert plan.way == "at most 10 neighbours a node and 1,024 drawn tails a step, 4,096 pairs at a time"


def test_what_would_not_fit_in_memory_is_sampled_too(free, monkeypatch):
    monkeypatch.setattr(training_plan, "LONGEST_EPOCH", 1e9)
    free(2)
    plan = plan_training(SHAPE, large(), TrainingSettings())
    assert plan.settings.sampled
    assert "in every step would need about" in plan.why
    assert plan.memory < 2 * GIB


def test_what_fits_no_way_is_refused_in_a_sentence(free):
    free(0.1)
    with pytest.raises(DeviceError, match=r"needs about .* GiB, and 0\.1 GiB of memory are free: choose a smaller"):
        plan_training(SHAPE, large(), TrainingSettings())
    with pytest.raises(DeviceError, match="choose --neighbours 10 --negatives 1024, or a smaller"):
        plan_training(SHAPE, large(), TrainingSettings(neighbours=0, negatives=0))


def test_what_was_said_is_kept(free):
    whole = plan_training(SHAPE, large(), TrainingSettings(neighbours=0, negatives=0)).settings
    assert not whole.sampled
    part = plan_training(SHAPE, SMALL, TrainingSettings(neighbours=3)).settings
    assert (part.neighbours, part.negatives, part.batch_size) == (3, NEGATIVES, SAMPLED_BATCH)
    assert plan_training(SHAPE, SMALL, part).settings == part
    mixed = plan_training(SHAPE, large(), TrainingSettings(neighbours=0, batch_size=64)).settings
    assert (mixed.neighbours, mixed.negatives, mixed.batch_size) == (0, NEGATIVES, 64)


def test_what_is_needed_grows_with_what_is_made(free):
    graph, settings = large(), TrainingSettings(neighbours=0, negatives=0)
    needs = memory_needed(SHAPE, graph, settings)
    assert memory_needed(ModelSettings(widths=(32, 32, 32)), graph, settings) > needs
    assert memory_needed(SHAPE, graph, replace(settings, batch_size=1024)) > needs + 2 * GIB
    assert memory_needed(SHAPE, graph, replace(settings, neighbours=10, negatives=1024)) < 0.8 * needs
    assert memory_needed(SHAPE, large(400_000), settings) < needs
    small, conve = (memory_needed(replace_decoder(d), SMALL, settings) for d in ("distmult", "conve"))
    assert conve > small + 10 * 2**20


def replace_decoder(name):
    return ModelSettings(decoder=name, widths=(64, 64, 64))


def test_free_memory_is_what_the_kernel_and_the_control_group_leave(monkeypatch, tmp_path):
    cpu = torch.device("cpu")
    monkeypatch.setattr(memory, "CGROUP_FILES", ())
    available = memory.free_memory(cpu)
    assert 2**20 < available < 2**50
    for name, value in (("max", 10 * 2**20), ("current", 4 * 2**20)):
        (tmp_path / name).write_text(f"{value}\n")
    (tmp_path / "memory.stat").write_text(f"anon 7\ninactive_file {2**20}\n")
    monkeypatch.setattr(memory, "CGROUP_FILES", ((str(tmp_path / "max"), str(tmp_path / "current")),))
    assert memory.free_memory(cpu) == 7 * 2**20
    (tmp_path / "max").write_text("max\n")  # no limit
    assert memory.free_memory(cpu) > 7 * 2**20
