"""N-Triples and Turtle: facts between nodes, labels from rdfs:label, clear words about the rest."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from powerlink.errors import DataError
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.kg.rdf import local_names
from powerlink.kg.readers import read_graph

TURTLE = """\
@prefix : <http://example.org/place/> .
@prefix v: <http://example.org/vocabulary#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Oslo v:capitalOf :Norway ; rdfs:label "Oslo"@nb , "Oslo city"@en , "plain" .
:Norway v:borders :Sweden ; rdfs:label "Norwegen"@de , "Norway <script>"  ; v:population 5500000 .
:Sweden v:borders [ v:partOf :Norway ] ; rdfs:label "Schweden"@de .
v:capitalOf rdfs:label "is the capital of"@en-GB .
"""


def read(tmp_path: Path, content: str, name: str = "facts.ttl") -> KnowledgeGraph:
    (tmp_path / name).write_text(content, encoding="utf-8")
    return read_graph(tmp_path / name)


def shown(kg: KnowledgeGraph) -> set[tuple[str, str, str]]:
    return {(kg.entities[h], kg.relations[r], kg.entities[t]) for h, r, t in kg.all_facts}


def test_turtle_becomes_facts_with_the_best_labels(tmp_path: Path) -> None:
    kg = read(tmp_path, TURTLE)
    assert shown(kg) == {
        ("Oslo city", "is the capital of", "Norway <script>"),
        ("Norway <script>", "borders", "Schweden"),
        ("Schweden", "borders", "_:[1]"),
        ("_:[1]", "partOf", "Norway <script>"),
    }
    assert kg.entities.index("http://example.org/place/Oslo") == kg.entities.index("Oslo city")
    assert "facts.ttl: statements skipped because their object is a literal: 1" in kg.notes


def test_nameless_nodes_get_the_same_names_each_time(tmp_path: Path) -> None:
    assert read(tmp_path, TURTLE).fingerprint == read(tmp_path, TURTLE).fingerprint


@pytest.mark.parametrize("packed", [False, True])
def test_n_triples_plain_and_packed(tmp_path: Path, packed: bool) -> None:
    text = (
        b"<http://a.org/x> <http://a.org/r> <http://a.org/y> .\n"
        b"<http://a.org/y> <http://a.org/r> <http://b.org/y> .\n"
        b"_:node <http://a.org/r> <http://a.org/caf%C3%A9\\u00e9> .\n"
    )
    file = tmp_path / ("facts.nt.gz" if packed else "facts.nt")
    file.write_bytes(gzip.compress(text) if packed else text)
    kg = read_graph(file)
    # Two nodes end in "y", so each shows its whole IRI.
    assert shown(kg) == {
        ("x", "r", "http://a.org/y"),
        ("http://a.org/y", "r", "http://b.org/y"),
        ("_:node", "r", "caf%C3%A9é"),
    }


def test_local_names_are_given_only_where_they_are_clear() -> None:
    ids = ("http://a/one", "http://a#two", "http://b/two", "http://c/three/", "urn:isbn:4")
    assert local_names(ids) == {"http://a/one": "one", "http://c/three/": "three"}


def test_quoted_statements_are_counted(tmp_path: Path) -> None:
    about = '<http://a/x> <http://a/says> <<( <http://a/s> <http://a/p> "o" )>> .\n'
    kg = read(tmp_path, about + "<http://a/x> <http://a/r> <http://a/y> .\n", "f.nt")
    assert "f.nt: statements skipped because they are about statements: 1" in kg.notes


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("f.nt", "<http://a> <http://b> <http://c> .\nnonsense\n", r"f\.nt, line 2: .*expected N-Triples"),
        ("f.ttl", "@prefix : <http://a/> .\n\n:x :y\n", r"f\.ttl, line \d: .*expected Turtle"),
        ("f.ttl", "<relative> <http://b> <http://c> .\n", r"f\.ttl, line 1: .*expected Turtle"),
        ("f.nt", '<http://a> <http://b> "only text" .\n', r"f\.nt holds no facts \(f\.nt: statements skipped .*: 1\)"),
        ("f.nt", "", r"f\.nt holds no facts; expected at least one"),
    ],
)
def test_bad_rdf_gives_one_sentence(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, text, name)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_not_utf8_are_named_by_line(tmp_path: Path) -> None:
    (tmp_path / "f.nt").write_bytes(b'<http://a> <http://b> <http://c> .\n<http://a> <http://b> "\xff" .\n')
    with pytest.raises(DataError, match=r"f\.nt, line 2: Invalid UTF-8"):
        read_graph(tmp_path / "f.nt")


def test_without_the_extra_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(DataError, match=r"pip install 'powerlink\[rdf\]'"):
        read(tmp_path, TURTLE)
