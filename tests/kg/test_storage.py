"""A stored graph comes back equal, and a damaged one is refused."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powerlink.errors import DataError, OutputError
from powerlink.kg.knowledge_graph import SPLITS, KnowledgeGraph, Names
from powerlink.kg.readers import read_graph
from powerlink.kg.storage import load_graph, save_graph


def example() -> KnowledgeGraph:
    facts = np.array([[0, 0, 1], [1, 1, 2], [2, 0, 0]], dtype=np.int64)
    return KnowledgeGraph(
        name="odd <b>names</b>",
        entities=Names("entity", ("z\tab", "a\nline", "🦉"), {"a\nline": "two\nlines\tand a tab", "🦉": ""}),
        relations=Names("relation", ("مرحبا", "r")),
        train=facts,
        valid=facts[:1],
        test=facts[:0],
        notes=("train.tsv: 1 duplicate fact was merged",),
    )


def assert_equal(one: KnowledgeGraph, two: KnowledgeGraph) -> None:
    assert (one.name, one.entities, one.relations, one.notes) == (two.name, two.entities, two.relations, two.notes)
    assert one.fingerprint == two.fingerprint
    for split in SPLITS:
        np.testing.assert_array_equal(one.facts(split), two.facts(split))


def test_a_graph_comes_back_equal_from_its_folder(tmp_path: Path) -> None:
    save_graph(example(), tmp_path / "new" / "folder")
    assert_equal(load_graph(tmp_path / "new" / "folder"), example())
    assert_equal(read_graph(tmp_path / "new" / "folder"), example())  # --data takes such a folder too


def test_saving_again_replaces(tmp_path: Path) -> None:
    save_graph(KnowledgeGraph.from_names("old", {"train": [("x", "y", "z")]}), tmp_path)
    save_graph(example(), tmp_path)
    assert_equal(load_graph(tmp_path), example())


text = st.text(st.characters(codec="utf-8"), max_size=6)


@settings(deadline=None, max_examples=50)
@given(
    rows=st.lists(st.tuples(text, text, text), min_size=1, max_size=12),
    labels=st.dictionaries(text, text, max_size=5),
    name=text,
)
def test_any_names_and_labels_survive(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]], labels: dict[str, str], name: str
) -> None:
    known = {entity for h, _, t in rows for entity in (h, t)}
    labels = {entity: label for entity, label in labels.items() if entity in known}
    kg = KnowledgeGraph.from_names(name, {"train": rows, "test": rows[:2]}, entity_labels=labels)
    folder = tmp_path_factory.mktemp("stored")
    save_graph(kg, folder)
    assert_equal(load_graph(folder), kg)


@pytest.mark.parametrize("file", ["train.parquet", "entities.parquet", "graph.json"])
def test_a_truncated_or_missing_file_is_refused(tmp_path: Path, file: str) -> None:
    save_graph(example(), tmp_path)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError) as caught:
        load_graph(tmp_path)
    assert "\n" not in str(caught.value)
    (tmp_path / file).unlink()
    with pytest.raises(DataError, match=f"there is no {file}"):
        load_graph(tmp_path)


def test_files_of_another_graph_are_refused(tmp_path: Path) -> None:
    save_graph(example(), tmp_path / "one")
    save_graph(KnowledgeGraph.from_names("two", {"train": [("a", "r", "b")]}), tmp_path / "two")
    shutil.copy(tmp_path / "two" / "train.parquet", tmp_path / "one" / "train.parquet")
    with pytest.raises(DataError, match="is damaged: its fingerprint is"):
        load_graph(tmp_path / "one")
    shutil.copy(tmp_path / "two" / "entities.parquet", tmp_path / "one" / "train.parquet")
    with pytest.raises(DataError, match=r"train\.parquet"):
        load_graph(tmp_path / "one")
    shutil.copy(tmp_path / "two" / "entities.parquet", tmp_path / "one" / "entities.parquet")
    shutil.copy(tmp_path / "one" / "valid.parquet", tmp_path / "one" / "train.parquet")
    with pytest.raises(DataError, match="is damaged"):
        load_graph(tmp_path / "one")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "has version 99 of the format; expected version 1"),
        ({"format": "other"}, "does not describe a graph"),
        ({"notes": 5}, "its notes are no list"),
        ({"fingerprint": "0"}, "its fingerprint is"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    save_graph(example(), tmp_path)
    description = json.loads((tmp_path / "graph.json").read_text())
    (tmp_path / "graph.json").write_text(json.dumps(description | change))
    with pytest.raises(DataError, match=message):
        load_graph(tmp_path)
    (tmp_path / "graph.json").write_text(json.dumps({k: v for k, v in description.items() if k not in change}))
    with pytest.raises(DataError):
        load_graph(tmp_path)


def test_a_flipped_bit_is_noticed_or_harmless(tmp_path: Path) -> None:
    chance, kg = random.Random(0), example()
    save_graph(kg, tmp_path)
    for path in sorted(tmp_path.glob("*.parquet")):
        whole = path.read_bytes()
        for _ in range(60):
            damaged = bytearray(whole)
            damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
            path.write_bytes(damaged)
            with contextlib.suppress(DataError):  # any other exception fails the test
                assert_equal(load_graph(tmp_path), kg)
        path.write_bytes(whole)


def test_a_folder_that_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="the graph cannot be written to"):
        save_graph(example(), tmp_path / "file")
