"""What is mapped at a second opening is what the first one computed, and is believed only while nothing has changed."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch

import powerlink
from builders import knowledge_graph, model_of, random_rows
from powerlink import load_model
from powerlink.errors import PowerlinkError
from powerlink.kg.knowledge_graph import KnowledgeGraph, Names
from powerlink.models import mapped
from powerlink.models.checkpoint import save_model, start_folder

N, R = 40, 3
ROWS = random_rows(0, N, R, 150)


def labelled() -> KnowledgeGraph:
    plain = knowledge_graph(ROWS, N, R)
    names = Names("entity", plain.entities.ids, {"e3": "Oslo", "e4": "Oslo", "e5": "Bergen"})
    held_out = plain.train[-30:].copy()
    return KnowledgeGraph(
        "labelled", names, plain.relations, plain.train[:-30].copy(), held_out[:15], held_out[15:], ("a note",)
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "FEWEST_FACTS", 1)
    graph, place = labelled(), tmp_path / "model"
    start_folder(place, graph)
    save_model(place, model_of("compgcn", "distmult", 2, N, R), graph, powerlink.TrainingSettings(), {}, finished=True)
    return place


@pytest.fixture
def slow_ways(monkeypatch):
    """The openings that read and check everything."""
    ways = []
    keep = mapped.looks_of
    monkeypatch.setattr("powerlink.models.checkpoint.looks_of", lambda *given: ways.append(given) or keep(*given))
    return ways


def explained(session):
    asked = [tuple(map(int, row)) for row in session.graph.test[:5]]
    return [
        powerlink.explain(session, session.graph.entities[h], session.graph.relations[r], session.graph.entities[t])
        for h, r, t in asked
    ]


def test_a_second_opening_says_what_the_first_one_said(folder, slow_ways):
    first, second = load_model(folder), load_model(folder)
    assert len(slow_ways) == 1
    for name in ("source", "target", "relation", "norm", "fact", "reverse", "row", "entity", "pair_key"):
        one, other = getattr(first.messages, name), getattr(second.messages, name)
        assert torch.equal(one, other)
        assert one.dtype == other.dtype, name
    for name in ("entity", "relation", "bias"):
        assert torch.equal(getattr(first.whole, name), getattr(second.whole, name))
    for split in ("train", "valid", "test"):
        assert (first.graph.facts(split) == second.graph.facts(split)).all()
        assert not second.graph.facts(split).flags.writeable
    assert second.graph.entities.shown == first.graph.entities.shown
    assert (second.graph.name, second.graph.notes) == ("labelled", ("a note",))
    assert second.graph.fingerprint == first.graph.fingerprint
    assert second.calibration == first.calibration
    assert (second.name, second.hash) == (first.name, first.hash)
    assert explained(second) == explained(first)
    assert powerlink.rank(second) == powerlink.rank(first)


def test_an_opened_graph_has_the_fingerprint_that_its_facts_give(folder):
    load_model(folder)
    graph = load_model(folder).graph
    again = KnowledgeGraph(graph.name, graph.entities, graph.relations, graph.train, graph.valid, graph.test)
    assert again.fingerprint == graph.fingerprint


def test_who_changes_a_mapped_weight_changes_nobody_elses(folder):
    load_model(folder)
    one, other = load_model(folder), load_model(folder)
    before = other.model.encoder.entity.clone()
    with torch.no_grad():
        one.model.encoder.entity.zero_()
    assert torch.equal(other.model.encoder.entity, before)
    assert torch.equal(load_model(folder).model.encoder.entity, before)


def test_a_copy_is_believed_by_its_contents_and_then_sealed_itself(folder, slow_ways, tmp_path, monkeypatch):
    load_model(folder)
    copy = shutil.copytree(folder, tmp_path / "copy")
    for path in copy.rglob("*.parquet"):
        os.utime(path, ns=(1, 1))
    load_model(copy)
    assert len(slow_ways) == 1
    monkeypatch.setattr(mapped, "_checksum", lambda path: pytest.fail(f"{path} was read again"))
    load_model(copy)
    assert len(slow_ways) == 1


OWN = ("graph/train.parquet", "graph/test.parquet", "graph/entities.parquet", "model.safetensors")


@pytest.mark.parametrize("name", OWN)
def test_a_damaged_model_is_refused_though_it_was_mapped_before(folder, name):
    load_model(folder)
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 0xFF
    (folder / name).write_bytes(bytes(data))
    with pytest.raises(PowerlinkError):
        load_model(folder)
    (folder / name).unlink()
    with pytest.raises(PowerlinkError):
        load_model(folder)


@pytest.mark.parametrize("what", ["flipped", "cut", "gone", "emptied"])
def test_what_is_mapped_is_not_believed_once_it_changed(folder, slow_ways, what):
    expected = explained(load_model(folder))
    for count, path in enumerate(sorted((folder / "mapped").iterdir()), start=2):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        changed = {"flipped": bytes(data), "cut": bytes(data[:-9]), "emptied": b"", "gone": b""}[what]
        path.write_bytes(changed)
        if what == "gone":
            path.unlink()
        assert explained(load_model(folder)) == expected
        assert len(slow_ways) == count, path.name
        assert explained(load_model(folder)) == expected
        assert len(slow_ways) == count, path.name


def test_another_model_in_the_folder_is_told_from_the_one_that_was_mapped(folder, slow_ways):
    first = load_model(folder)
    other = model_of("compgcn", "distmult", 2, N, R)
    with torch.no_grad():
        other.encoder.entity.mul_(2)
    save_model(folder, other, labelled(), powerlink.TrainingSettings(), {}, finished=True)
    second = load_model(folder)
    assert len(slow_ways) == 2
    assert second.hash != first.hash
    assert not torch.equal(second.whole.entity, first.whole.entity)
    assert len(list((folder / "mapped").glob("model-*"))) == 1
    assert torch.equal(load_model(folder).whole.entity, second.whole.entity)


def test_settings_that_were_changed_by_hand_are_not_taken_for_those_that_were_mapped(folder, slow_ways):
    load_model(folder)
    description = json.loads((folder / "model.json").read_text())
    description["model"]["encoder"]["composition"] = "sub"
    (folder / "model.json").write_text(json.dumps(description))
    changed = load_model(folder)
    assert len(slow_ways) == 2
    assert torch.equal(changed.whole.entity, changed.settled.encode(changed.messages).entity)


def test_nothing_is_kept_of_small_graphs_of_unfinished_models_or_where_nothing_can_be_written(folder, monkeypatch):
    monkeypatch.setattr(mapped.os, "access", lambda *_: False)
    load_model(folder)
    monkeypatch.undo()
    load_model(folder)  # of fewer facts than are kept
    monkeypatch.setattr(mapped, "FEWEST_FACTS", 1)
    description = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(description | {"finished": False}))
    load_model(folder)
    assert not (folder / "mapped").exists()


def test_a_full_disk_stops_no_opening(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mapped, "write_names", full)
    assert explained(load_model(folder))
    assert not list(folder.rglob("*.part"))
    assert not (folder / mapped.SEAL).exists()
