"""N-Triples and Turtle as columns of facts, with `rdfs:label` as labels. Needs the extra `powerlink[rdf]`."""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from powerlink.errors import DataError
from powerlink.kg.tables import read_bytes

if TYPE_CHECKING:
    import pyoxigraph

RDF_FORMATS = (".nt", ".ttl")
_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_ANONYMOUS = re.compile(r"[0-9a-f]{20,32}")  # what the parser invents, anew each time, for a nameless node


@dataclass
class RdfFacts:
    """The facts of an RDF file by name, the labels it gives, and how many statements could not be facts."""

    heads: list[str] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)
    tails: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    literals: int = 0  # statements about a text, a number, a date: no entity, hence no fact
    quoted: int = 0  # statements about statements (RDF-star)

    def columns(self) -> list[pa.DictionaryArray]:
        """Return head, relation and tail, dictionary-encoded."""
        return [pa.array(names, pa.string()).dictionary_encode() for names in (self.heads, self.relations, self.tails)]

    def notes(self, file: str) -> list[str]:
        notes = []
        if self.literals:
            notes.append(f"{file}: statements skipped because their object is a literal: {self.literals:,}")
        if self.quoted:
            notes.append(f"{file}: statements skipped because they are about statements: {self.quoted:,}")
        return notes


def read_rdf(path: Path, kind: str) -> RdfFacts:
    """Read a file of N-Triples (`kind` ".nt") or Turtle (".ttl")."""
    try:
        import pyoxigraph as ox  # noqa: PLC0415 - an extra: only this function needs it
    except ImportError:
        raise DataError(f"{path} is RDF, which needs an extra: pip install 'powerlink[rdf]'") from None
    form = ox.RdfFormat.N_TRIPLES if kind == ".nt" else ox.RdfFormat.TURTLE
    facts = RdfFacts()
    ranks: dict[str, int] = {}
    nameless: dict[str, str] = {}

    def name(node: pyoxigraph.NamedNode | pyoxigraph.BlankNode) -> str:
        if isinstance(node, ox.NamedNode):
            return str(node.value)
        if kind == ".ttl" and _ANONYMOUS.fullmatch(node.value):
            return nameless.setdefault(node.value, f"_:[{len(nameless) + 1}]")  # no written label looks like this
        return f"_:{node.value}"

    nodes = (ox.NamedNode, ox.BlankNode)
    try:
        for statement in ox.parse(io.BytesIO(read_bytes(path)), form):
            subject, predicate, value = statement.subject, statement.predicate, statement.object
            if type(subject) is ox.NamedNode and type(value) is ox.NamedNode:  # nearly all: keep it short
                facts.heads.append(subject.value)
                facts.relations.append(predicate.value)
                facts.tails.append(value.value)
            elif not isinstance(subject, nodes):
                facts.quoted += 1
            elif isinstance(value, nodes):
                facts.heads.append(name(subject))
                facts.relations.append(predicate.value)
                facts.tails.append(name(value))
            elif not isinstance(value, ox.Literal):
                facts.quoted += 1
            elif predicate.value == _LABEL:
                _offer_label(facts.labels, ranks, name(subject), value)
            else:
                facts.literals += 1
    except (SyntaxError, ValueError) as error:
        what = re.sub(r"^Parser error (at|between) .*?: | \(line \d+\)$", "", str(error))
        line = getattr(error, "lineno", None)
        where = f"{path}, line {line}" if line else str(path)
        expected = "N-Triples" if kind == ".nt" else "Turtle"
        raise DataError(f"{where}: {what.strip().rstrip('.')}; expected {expected}") from None
    return facts


def _offer_label(labels: dict[str, str], ranks: dict[str, int], name: str, label: pyoxigraph.Literal) -> None:
    """Keep the best label seen so far: English, then untagged, then a kind of English, then the first."""
    language = (label.language or "").lower()
    rank = 0 if language == "en" else 1 if not language else 2 if language.startswith("en-") else 3
    if label.value and rank < ranks.get(name, 4):
        labels[name], ranks[name] = label.value, rank


def local_names(ids: tuple[str, ...]) -> dict[str, str]:
    """Return the last part of each IRI, for those ids whose last part no other id shares."""
    iris = {name: name.rstrip("/#") for name in ids if "://" in name}
    last = {name: iri[max(iri.rfind("/"), iri.rfind("#")) + 1 :] for name, iri in iris.items()}
    uses = Counter(last.values())
    return {name: short for name, short in last.items() if short and uses[short] == 1}
