"""The graph itself: names people can type, facts nobody can change, a fingerprint that tells graphs apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerlink.errors import SettingsError, UnknownNameError
from powerlink.kg.knowledge_graph import KnowledgeGraph, Names

ROWS = [("Oslo", "capital of", "Norway"), ("Norway", "borders", "Sweden"), ("Oslo", "capital of", "Norway")]


def test_from_names_sorts_names_and_merges_duplicates() -> None:
    kg = KnowledgeGraph.from_names("g", {"train": ROWS, "test": [("Sweden", "borders", "Norway")]})
    assert kg.entities.ids == ("Norway", "Oslo", "Sweden")
    assert kg.relations.ids == ("borders", "capital of")
    assert kg.train.tolist() == [[1, 1, 0], [0, 0, 2]]
    assert kg.valid.shape == (0, 3)
    assert kg.all_facts.tolist() == [[1, 1, 0], [0, 0, 2], [2, 0, 0]]
    assert (kg.num_entities, kg.num_relations) == (3, 2)
    assert kg.triple("Oslo", "capital of", "Norway") == (1, 1, 0)


def test_facts_cannot_be_changed() -> None:
    kg = KnowledgeGraph.from_names("g", {"train": ROWS})
    with pytest.raises(ValueError, match="read-only"):
        kg.train[0, 0] = 2
    with pytest.raises(AttributeError):
        kg.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    "facts", [np.zeros((2, 2), np.int64), np.array([[0, 0, 3]]), np.array([[0, 2, 0]]), np.array([[-1, 0, 0]])]
)
def test_facts_outside_the_graph_are_refused(facts: np.ndarray) -> None:
    good = KnowledgeGraph.from_names("g", {"train": ROWS})
    with pytest.raises(SettingsError):
        KnowledgeGraph("g", good.entities, good.relations, facts, good.valid, good.test)


def test_an_unknown_name_gets_the_closest_ones() -> None:
    kg = KnowledgeGraph.from_names("g", {"train": ROWS}, entity_labels={"Norway": "Kingdom of Norway"})
    with pytest.raises(UnknownNameError, match="there is no entity named 'oslo'; did you mean 'Oslo'"):
        kg.triple("oslo", "capital of", "Norway")
    with pytest.raises(UnknownNameError, match="there is no relation named 'border'; did you mean 'borders'"):
        kg.triple("Oslo", "border", "Norway")
    assert kg.entities.index("Kingdom of Norway") == kg.entities.index("Norway") == 0


def test_the_fingerprint_tells_graphs_apart_and_ignores_labels() -> None:
    kg = KnowledgeGraph.from_names("g", {"train": ROWS})
    labelled = KnowledgeGraph.from_names("other name", {"train": ROWS}, entity_labels={"Oslo": "Christiania"})
    assert kg.fingerprint == labelled.fingerprint
    assert len(kg.fingerprint) == 16
    others = [
        KnowledgeGraph.from_names("g", {"train": ROWS[:1]}),
        KnowledgeGraph.from_names("g", {"train": ROWS[:1], "valid": ROWS[1:2]}),
        KnowledgeGraph.from_names("g", {"train": [("Oslo!", *ROWS[0][1:]), *ROWS[1:]]}),
    ]
    assert len({kg.fingerprint, *(other.fingerprint for other in others)}) == 4


def test_shown_names_use_labels_where_they_are_clear() -> None:
    labels = {"m1": "Paris", "m2": "Paris", "m3": "Rome", "m4": "", "m5": "m6"}
    assert Names("entity", ("m1", "m2", "m3", "m4", "m5", "m6"), labels).shown == (
        "Paris (m1)",
        "Paris (m2)",
        "Rome",
        "m4",
        "m6 (m5)",
        "m6",
    )


words = st.text("ab() ", max_size=5)


@given(ids=st.sets(words, min_size=1, max_size=12), labels=st.dictionaries(words, words, max_size=12))
def test_no_two_names_are_shown_alike_and_both_spellings_find_the_index(ids: set[str], labels: dict[str, str]) -> None:
    names = Names("entity", tuple(sorted(ids)), labels)
    assert len(set(names.shown)) == len(names)
    for i, name in enumerate(names.ids):
        assert names.index(name) == i
        assert names.index(names[i]) == i
