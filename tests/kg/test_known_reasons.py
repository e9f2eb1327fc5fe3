"""Files of known reasons: every kind says the same, what is not there is counted, what is wrong is told."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from powerlink.errors import DataError, MismatchError
from powerlink.kg.explained_links import KnownReasons, Reasons
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.kg.known_files import read_known_reasons
from powerlink.kg.planted import plant, true_paths, true_reasons
from powerlink.kg.typed_folder import read_links
from typed_example import SHARED, needs_user_item_attr, write_example

FACTS = [("drug", "binds", "gene1"), ("gene1", "causes", "ill"), ("drug", "binds", "gene2"), ("gene2", "near", "gene1")]


@pytest.fixture
def graph() -> KnowledgeGraph:
    return KnowledgeGraph.from_names(
        "small", {"train": FACTS, "test": [("drug", "treats", "ill")]}, {"gene1": "BRCA 1"}
    )


ROWS = [("drug", "treats", "ill", "gene1|Unheard"), ("drug", "treats", "ill", "gene2")]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def table(folder: Path, name: str) -> Path:
    if name.endswith(".parquet"):
        columns = dict(zip(("head", "relation", "tail", "known"), map(list, zip(*ROWS, strict=True)), strict=True))
        pq.write_table(pa.table(columns), folder / name)
        return folder / name
    if ".jsonl" in name:
        said = [
            {"head": h, "relation": r, "tail": t, "entities": known.split("|")} for h, r, t, known in ROWS
        ]  # fmt: skip
        return write(folder, name, "\n\n".join(map(json.dumps, said)) + "\n")
    between = "," if ".csv" in name else "\t"
    header = [("head", "relation", "tail", "known")] if "header" in name else []
    return write(folder, name, "".join(between.join(row) + "\n" for row in [*header, *ROWS]))


@pytest.mark.parametrize(
    "name",
    ["k.tsv", "header.tsv", "k.tsv.gz", "header.csv", "k.csv.gz", "k.txt", "k.parquet", "k.jsonl", "k.jsonl.gz"],
)
def test_every_kind_of_file_says_the_same(graph, tmp_path, name):
    known = read_known_reasons(table(tmp_path, name), graph)
    query = graph.triple("drug", "treats", "ill")
    assert known.of == {query: Reasons(entities=frozenset({"BRCA 1", "gene2"}))}, "shown names, of both lines"
    assert known.notes == ("known reasons that the training graph does not have: 1 entity",)
    assert known.queries.tolist() == [list(query)]


def test_facts_and_paths(graph, tmp_path):
    path = [["drug", "binds", "gene2"], ["gene2", "near", "BRCA 1"], ["gene1", "causes", "ill"]]
    other = [["drug", "binds", "ghost"], ["ghost", "causes", "ill"]]
    said = {
        "head": "drug",
        "relation": "treats",
        "tail": "ill",
        "facts": [["drug", "binds", "gene1"], ["gene1", "binds", "drug"]],
        "paths": [path, other],
    }
    known = read_known_reasons(write(tmp_path, "k.jsonl", json.dumps(said)), graph)
    (reasons,) = known.of.values()
    assert reasons.facts == {("drug", "binds", "BRCA 1")}
    named = {("drug", "binds", "gene2"), ("gene2", "near", "BRCA 1"), ("BRCA 1", "causes", "ill")}
    assert reasons.paths == {frozenset(named)}
    assert known.notes == ("known reasons that the training graph does not have: 1 fact, 1 path",)


def test_head_and_tail_are_no_reasons_and_a_query_without_any_is_left_out(graph, tmp_path):
    rows = "drug\ttreats\till\tgene1\ngene2\tnear\tgene1\tgene1|gene2\ngene1\tnear\tgene2\tnobody\n"
    known = read_known_reasons(write(tmp_path, "k.tsv", rows), graph)
    assert list(known.of) == [graph.triple("drug", "treats", "ill")]
    assert known.notes[-1] == "queries left out because the graph has none of their known reasons: 2"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("k.tsv", "drug\ttreats\till\tgene1\ndrugg\ttreats\till\tgene1\n", "k.tsv, line 2: .*'drugg'.*mean 'drug'"),
        ("k.csv", "drug,treat,ill,gene1\n", "k.csv, row 1: there is no relation named 'treat'.*mean 'treats'"),
        ("k.tsv", "drug\ttreats\till\n", "k.tsv, line 1.*4 columns"),
        ("k.tsv", "drug\ttreats\till\t\n", "k.tsv, line 1.*known"),
        ("k.tsv", "", "is empty"),
        ("k.tsv", "drug\ttreats\till\tnobody\n", "tells of no query of small what explains it .*1 entity"),
        ("k.xml", "<a/>", "expected .tsv, .txt, .csv, .parquet, .jsonl"),
        ("k.jsonl", "[1]", "line 1 tells no known reason; expected"),
        ("k.jsonl", "{", "line 1 tells no known reason"),
        ("k.jsonl", '{"head": "drug", "relation": "treats", "tail": "ill"}', "line 1 tells no known reason"),
        ("k.jsonl", '{"head": "drug", "tail": "ill", "entities": ["x"]}', "line 1 tells no known reason"),
        ("k.jsonl", '{"head": "drug", "entity": ["x"]}', "no key named 'entity'; did you mean 'entities'"),
        (
            "k.jsonl",
            '\n{"head": "drug", "relation": "treats", "tail": "ill", "paths": [[["gene2", "near", "gene1"]]]}',
            "line 2: path 1 does not lead from head to tail",
        ),
    ],
)
def test_bad_files_are_told_in_one_sentence(graph, tmp_path, name, text, said):
    with pytest.raises(DataError, match=said):
        read_known_reasons(write(tmp_path, name, text), graph)


def test_a_file_that_is_not_there_and_a_folder_of_something_else(graph, tmp_path):
    write(tmp_path, "known.tsv", "x")
    with pytest.raises(DataError, match=r"no file or folder .*nown.tsv; did you mean .*known.tsv"):
        read_known_reasons(tmp_path / "nown.tsv", graph)
    with pytest.raises(DataError, match="no files of typed nodes and edges"):
        read_known_reasons(tmp_path, graph)


def test_unknown_queries_can_be_left_out(graph, tmp_path):
    file = write(tmp_path, "k.tsv", "drug\ttreats\till\tgene1\ndrugg\ttreats\till\tgene1\n")
    known = read_known_reasons(file, graph, skip_unknown=True)
    assert len(known.of) == 1
    assert known.notes == ("lines left out because the graph does not know head, relation or tail: 1",)


def test_a_typed_folder_tells_the_paths_of_a_split(graph, tmp_path):
    folder = write_example(tmp_path / "shop")
    data = read_links(folder)
    for model_graph in (data.background, data.graph):
        known = read_known_reasons(folder, model_graph)
        ((query, reasons),) = known.of.items()
        assert query == model_graph.triple("user:a", "likes", "item:2")
        facts = {("user:a", "buys", "item:1"), ("user:b", "buys", "item:1"), ("user:b", "buys", "item:2")}
        assert reasons.paths == {frozenset(facts)}
        assert known.steps[query] == data.truth[query]
    assert len(read_known_reasons(folder, data.graph, split="train").of) == 1
    with pytest.raises(MismatchError, match=r"powerlink train --data .*shop --links"):
        read_known_reasons(folder, graph)


@needs_user_item_attr
def test_user_item_attr_tells_a_path_of_every_link():
    data = read_links(SHARED)
    known = read_known_reasons(SHARED, data.background)
    assert len(known.of) == len(data.links_of("test"))
    assert all(reasons.paths for reasons in known.of.values())


def test_planted_reasons_are_the_true_paths():
    planted = plant(0)
    truth = true_reasons(planted)
    assert list(truth) == [tuple(query) for query in planted.graph.test.tolist()]
    for query, known in truth.items():
        assert set(known.paths) == true_paths(planted, *query)
        assert set(known.edges) == {step for path in known.paths for step in path}
    reasons = KnownReasons.of_steps("planted", planted.graph, truth)
    for query, told in reasons.of.items():
        assert len(told.paths) == len(truth[query].paths)
        facts = {fact for path in told.paths for fact in path}
        present = {tuple(fact) for fact in planted.graph.train.tolist()}
        assert {planted.graph.triple(*fact) for fact in facts} <= present
