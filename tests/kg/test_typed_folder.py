"""Typed folders: the graph, the links and what explains them; every bad file gives one clear sentence."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powerlink.errors import DataError
from powerlink.kg.catalog import load
from powerlink.kg.explained_links import ExplainedLinks
from powerlink.kg.readers import read_graph
from powerlink.kg.typed_folder import is_typed_folder, read_links
from typed_example import FILES, SHARED, bought_by, buys, likes, lines, needs_user_item_attr, write_example


def told(data: ExplainedLinks, step: tuple[int, int, int]) -> tuple[str, str, str]:
    source, relation, target = step
    count = len(data.relations)
    name = data.relations[relation % count] + ("⁻¹" if relation >= count else "")
    return data.entities[source], name, data.entities[target]


def test_names_facts_links_and_notes(tmp_path: Path) -> None:
    data = read_links(write_example(tmp_path / "shop"))
    assert data.name == "shop"
    assert data.entities.ids == (*("user:a", "user:b", "user:c"), *(f"item:{i}" for i in "1234"), "attr:x")
    assert data.node_types == (*["user"] * 3, *["item"] * 4, "attr")
    assert data.relations.ids == ("buys", "has", "likes")
    assert {told(data, tuple(fact)) for fact in data.facts} == {
        ("user:a", "buys", "item:1"),
        ("user:b", "buys", "item:1"),
        ("user:b", "buys", "item:2"),
        ("item:1", "has", "attr:x"),
        ("item:3", "has", "attr:x"),
    }
    assert [told(data, tuple(link)) for link in data.links] == [
        ("user:a", "likes", "item:2"),
        ("user:a", "likes", "item:3"),
        ("user:b", "likes", "item:3"),
    ]
    assert [data.splits[split].tolist() for split in ("train", "valid", "test")] == [[2], [1], [0]]
    assert told(data, tuple(data.negatives["test"][0])) == ("user:b", "likes", "item:4")
    assert data.notes == (
        "edges.tsv: bought_by is the exact reverse of buys, and is read as its inverse",
        "edges.tsv: of is the exact reverse of has, and is read as its inverse",
    )


def test_a_label_walks_a_reversed_relation_backwards_over_its_fact(tmp_path: Path) -> None:
    data = read_links(write_example(tmp_path))
    truth = data.truth[data.graph.triple("user:a", "likes", "item:2")]
    (path,) = truth.paths
    assert [told(data, step) for step in path] == [
        ("user:a", "buys", "item:1"),
        ("item:1", "buys⁻¹", "user:b"),
        ("user:b", "buys", "item:2"),
    ]
    assert set(truth.edges) == set(path)


def test_the_graph_has_training_links_and_the_background_has_none(tmp_path: Path) -> None:
    data = read_links(write_example(tmp_path))
    assert len(data.graph.train) == 6
    assert len(data.background.train) == 5
    assert not (data.background.train[:, 1] == data.relation).any()
    for graph in (data.graph, data.background):
        assert (len(graph.valid), len(graph.test), graph.num_entities) == (1, 1, 8)


def test_such_a_folder_is_read_wherever_a_graph_is_asked_for(tmp_path: Path) -> None:
    folder = write_example(tmp_path / "shop")
    assert is_typed_folder(folder)
    graph = read_links(folder).graph
    assert load(str(folder)).fingerprint == read_graph(folder).fingerprint == graph.fingerprint
    assert load(folder).notes == graph.notes


def test_a_train_file_makes_it_a_plain_folder(tmp_path: Path) -> None:
    folder = write_example(tmp_path / "shop")
    (folder / "train.tsv").write_text("a\tr\tb\n")
    assert read_graph(folder).relations.ids == ("r",)


def test_gzip_and_headers_change_nothing(tmp_path: Path) -> None:
    plain = write_example(tmp_path / "shop")
    packed = tmp_path / "packed" / "shop"
    packed.mkdir(parents=True)
    for name, content in FILES.items():
        if name.startswith("likes"):
            header = "src_type,src,relation,dst_type,dst\n"
            (packed / name.replace("tsv", "csv")).write_text(header + content.replace("\t", ","))
        else:
            (packed / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
    one, two = read_links(plain), read_links(packed)
    assert one.graph.fingerprint == two.graph.fingerprint
    assert one.truth == two.truth


def test_labels_negatives_and_held_out_links_are_optional(tmp_path: Path) -> None:
    missing = [name for name in FILES if "labels" in name or "negatives" in name or name == "likes_test.tsv"]
    data = read_links(write_example(tmp_path, **{name.replace(".", "_"): None for name in missing}))
    assert (data.truth, len(data.splits["test"]), len(data.negatives["train"])) == ({}, 0, 0)


def test_without_a_file_of_edges_they_are_those_of_the_paths(tmp_path: Path) -> None:
    with_edges = read_links(write_example(tmp_path / "one"))
    without = read_links(write_example(tmp_path / "two", edge_labels_jsonl=None))
    assert with_edges.truth == without.truth


def test_a_relation_that_is_almost_a_reverse_stays_one_of_its_own(tmp_path: Path) -> None:
    edges = FILES["edges.tsv"] + lines([bought_by("4", "c")])
    data = read_links(write_example(tmp_path, edges_tsv=edges))
    assert data.relations.ids == ("bought_by", "buys", "has", "likes")


LABEL = '{"source": ["user", "a"], "target": ["item", "2"], "paths": %s}\n'
BAD = {
    "a node twice": ("nodes.tsv", FILES["nodes.tsv"] + "user\ta\n", "line 9: user a is there twice; expected each"),
    "too few columns": ("edges.tsv", "user\ta\tbuys\n", "line 1: 3 columns found in"),
    "no such node": (
        "edges.tsv",
        FILES["edges.tsv"] + lines([buys("d", "1")]),
        "line 14: there is no node user:d in nodes.tsv; did you mean user:",
    ),
    "another relation": ("likes_test.tsv", lines([buys("a", "1")]), "line 1: the relation is 'buys'; expected 'likes'"),
    "a link that is no edge": ("likes_test.tsv", lines([likes("c", "1")]), "line 1: the link is not in the file of"),
    "no JSON": ("path_labels.jsonl", "nothing\n", 'line 1 is no label of a link; expected {"source": ["type", id]'),
    "no object": ("path_labels.jsonl", "[1, 2]\n", "line 1 is no label of a link"),
    "no paths": ("path_labels.jsonl", LABEL % "[]", "line 1 is no label of a link"),
    "an empty path": ("path_labels.jsonl", LABEL % "[[]]", "line 1 is no label of a link"),
    "a short step": ("path_labels.jsonl", LABEL % '[[["user", "a", "buys"]]]', "line 1 is no label of a link"),
    "a step that is no edge": (
        "path_labels.jsonl",
        LABEL % '[[["user", "c", "buys", "item", "1"]]]',
        "line 1: there is no edge from user:c by buys to item:1 in edges.tsv",
    ),
    "steps not in a row": (
        "path_labels.jsonl",
        LABEL % '[[["user", "a", "buys", "item", "1"], ["user", "b", "buys", "item", "2"]]]',
        "line 1: path 1 does not lead from source to target; expected edges in a row",
    ),
    "a label of no link": (
        "edge_labels.jsonl",
        FILES["edge_labels.jsonl"].replace('"a"], "target": ["item", "2"]', '"c"], "target": ["item", "2"]'),
        "line 1: there is no edge from user:c by likes to item:2",
    ),
    "a label twice": ("edge_labels.jsonl", FILES["edge_labels.jsonl"] * 2, "line 4: the link from user:a to item:2"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_gives_one_sentence_with_file_and_line(tmp_path: Path, case: str) -> None:
    name, content, expected = BAD[case]
    with pytest.raises(DataError) as caught:
        read_links(write_example(tmp_path, **{name.replace(".", "_"): content}))
    message = str(caught.value)
    assert expected in message
    assert str(tmp_path / name) in message
    assert "\n" not in message


def test_missing_and_contradictory_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no file of training links; expected R_train.tsv .* \(buys, bought_by, "):
        read_links(write_example(tmp_path / "none", likes_train_tsv=None))
    two = write_example(tmp_path / "two")
    (two / "buys_train.tsv").write_text(lines([buys("a", "1")]))
    with pytest.raises(DataError, match="has training links of buys and likes; expected"):
        read_links(two)
    with pytest.raises(DataError, match=r"has no nodes file: expected nodes\.tsv"):
        read_links(write_example(tmp_path / "nodeless", nodes_tsv=None))
    again = write_example(tmp_path / "again", likes_test_tsv=FILES["likes_train.tsv"])
    with pytest.raises(DataError, match="has the link from user:b to item:3 in two splits; expected it in one"):
        read_links(again)
    (again / "nodes.csv").write_text("type,id\n")
    with pytest.raises(DataError, match=r"holds nodes\.csv and nodes\.tsv; expected one file of nodes"):
        read_links(again)


@given(content=st.binary(max_size=100), name=st.sampled_from(sorted(FILES)))
def test_arbitrary_bytes_give_links_or_a_data_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    folder = write_example(tmp_path_factory.mktemp("fuzz"))
    (folder / name).write_bytes(content)
    with contextlib.suppress(DataError):  # any other exception fails the test
        read_links(folder)


@given(
    st.recursive(st.one_of(st.none(), st.integers(), st.sampled_from(["user", "a", "buys"])), st.lists, max_leaves=8)
)
def test_labels_of_any_shape_give_links_or_a_data_error(
    tmp_path_factory: pytest.TempPathFactory, shape: object
) -> None:
    label = json.dumps({"source": ["user", "a"], "target": ["item", "2"], "paths": shape})
    with contextlib.suppress(DataError):
        read_links(write_example(tmp_path_factory.mktemp("shape"), path_labels_jsonl=label))


@needs_user_item_attr
def test_user_item_attr_is_what_its_description_says() -> None:
    data = read_links(SHARED)
    assert (len(data.entities), data.relations.ids) == (250, ("buys", "has", "likes"))
    assert np.bincount(data.facts[:, 1]).tolist() == [1222, 227]
    assert {split: len(rows) for split, rows in data.splits.items()} == {"train": 499, "valid": 71, "test": 144}
    assert {len(rows) for rows in data.negatives.values()} == {499, 71, 144}
    assert set(data.truth) == set(map(tuple, data.links.tolist()))
    paths = [path for truth in data.truth.values() for path in truth.paths]
    assert len(paths) == 1164
    assert sum(len(truth.edges) for truth in data.truth.values()) == 3149
    kinds = {tuple(relation for _, relation, _ in path) for path in paths}
    assert kinds == {(0, 3, 0), (0, 1, 4)}  # buys, bought_by, buys and buys, has, of
    for truth in data.truth.values():
        assert set(truth.edges) == {step for path in truth.paths for step in path}
