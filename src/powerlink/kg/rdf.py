"""N-Triples and Turtle as columns of facts, with `rdfs:label` as labels. Needs the extra `powerlink[rdf]`."""

from __future__ import annotations

import io
import re
from collections import Counter
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from powerlink.errors import DataError
from powerlink.kg.tables import read_bytes

if TYPE_CHECKING:
    import pyoxigraph

RDF_FORMATS = (".nt", ".ttl")
_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_NO_LABEL = (4, "")
_ANONYMOUS = re.compile(r"[0-9a-f]{20,32}")  # what the parser invents, anew each time, for a nameless node


def read_rdf(path: Path, kind: str) -> tuple[list[pa.DictionaryArray], dict[str, str], list[str]]:
    """Read a file of N-Triples (`kind` ".nt") or Turtle (".ttl"): the columns of its facts, labels, and notes.

    A statement about a text, a number or a date has no second entity and is no fact; nor is one about statements.
    """
    try:
        import pyoxigraph as ox  # noqa: PLC0415 - an extra: only this function needs it
    except ImportError:
        raise DataError(f"{path} is RDF, which needs an extra: pip install 'powerlink[rdf]'") from None
    form = ox.RdfFormat.N_TRIPLES if kind == ".nt" else ox.RdfFormat.TURTLE
    heads, relations, tails = list[str](), list[str](), list[str]()
    labels: dict[str, tuple[int, str]] = {}  # by name: its rank, and what it says
    literals = about_statements = 0
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
                heads.append(subject.value)
                relations.append(predicate.value)
                tails.append(value.value)
            elif isinstance(subject, nodes) and isinstance(value, nodes):
                heads.append(name(subject))
                relations.append(predicate.value)
                tails.append(name(value))
            elif not isinstance(subject, nodes) or not isinstance(value, ox.Literal):
                about_statements += 1
            elif predicate.value == _LABEL:
                offered = labels.get(name(subject), _NO_LABEL), (_rank(value), value.value)
                labels[name(subject)] = min(offered, key=itemgetter(0))  # the first of equals
            else:
                literals += 1
    except (SyntaxError, ValueError) as error:
        what = re.sub(r"^Parser error (at|between) .*?: | \(line \d+\)$", "", str(error))
        line = getattr(error, "lineno", None)
        where = f"{path}, line {line}" if line else str(path)
        expected = "N-Triples" if kind == ".nt" else "Turtle"
        raise DataError(f"{where}: {what.strip().rstrip('.')}; expected {expected}") from None
    notes = [
        f"{path.name}: statements skipped because {why}: {count:,}"
        for why, count in (("their object is a literal", literals), ("they are about statements", about_statements))
        if count
    ]
    columns = [pa.array(names, pa.string()).dictionary_encode() for names in (heads, relations, tails)]
    return columns, {name: label for name, (_, label) in labels.items() if label}, notes


def _rank(label: pyoxigraph.Literal) -> int:
    """Order labels: English first, then untagged, then a kind of English, then others; an empty one is none."""
    language = (label.language or "").lower()
    if not label.value:
        return _NO_LABEL[0]
    return 0 if language == "en" else 1 if not language else 2 if language.startswith("en-") else 3


def local_names(ids: tuple[str, ...]) -> dict[str, str]:
    """Return the last part of each IRI, for those ids whose last part no other id shares."""
    iris = {name: name.rstrip("/#") for name in ids if "://" in name}
    last = {name: iri[max(iri.rfind("/"), iri.rfind("#")) + 1 :] for name, iri in iris.items()}
    uses = Counter(last.values())
    return {name: short for name, short in last.items() if short and uses[short] == 1}
