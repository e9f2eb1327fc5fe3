"""Read a folder of typed nodes and edges in which the links to be predicted may come with what explains them.

| file | what it holds |
|---|---|
| `nodes` | type, id |
| `edges` | source type, source, relation, target type, target: all facts and all links |
| `R_train`, `R_valid`, `R_test` | the links of relation R, the predicted one; the same five columns |
| `R_train_negatives` … | pairs that are no links; the same five columns |
| `edge_labels.jsonl` | for each link, the edges that explain it |
| `path_labels.jsonl` | for each link, the paths that explain it |

Tables are `.tsv`, `.txt`, `.csv` or `.parquet`, labels are JSON Lines; all plain or `.gz`. Nodes, edges and `R_train`
must be there. A node is called `type:id`, and nodes keep their order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from powerlink.errors import DataError, closest_names
from powerlink.kg.explained_links import ExplainedLinks, GroundTruth, Triple
from powerlink.kg.knowledge_graph import SPLITS, Names, Split, Triples
from powerlink.kg.layout import Layout
from powerlink.kg.tables import line_of, read_bytes, read_columns, table_in

_NODE = ("type", "id")
_EDGE = ("source type", "source", "relation", "target type", "target")
NODES = Layout(_NODE, headers=(_NODE,), required=2)
EDGES = Layout(_EDGE, headers=(_EDGE, ("src_type", "src", "relation", "dst_type", "dst")), required=5)

Row = tuple[str, str, str]  # the names of source, relation and target
FindEdge = Callable[[Row], Triple]  # a DataError when there is no such edge
Kind = Literal["edges", "paths"]
_FILES: dict[Kind, str] = {"edges": "edge_labels.jsonl", "paths": "path_labels.jsonl"}
_END = '["type", id]'
_EDGES = '[["source type", source, "relation", "target type", target], …]'
_SHAPES: dict[Kind, str] = {"edges": _EDGES, "paths": f"[{_EDGES}, …]"}


@dataclass(frozen=True)
class TypedNames:
    """The names of a typed folder as indices; a reversed relation is the inverse of the one it reverses."""

    node_file: str
    node: dict[str, int]
    relation: dict[str, int]  # a reversed relation has the index of an inverse

    def triple(self, row: Row) -> Triple:
        """Return the indices of a named edge, or say in a sentence what is not there."""
        source, relation, target = row
        for name in (source, target):
            if name not in self.node:
                raise DataError(f"there is no node {name} in {self.node_file}{_hint(name, self.node)}")
        if relation not in self.relation:
            raise DataError(f"there is no relation {relation!r} among the edges{_hint(relation, self.relation)}")
        return self.node[source], self.relation[relation], self.node[target]

    def triples(self, file: Path, rows: Sequence[Row]) -> Triples:
        """Return the indices of a file's edges, (n, 3)."""
        found = np.empty((len(rows), 3), dtype=np.int64)
        for place, row in enumerate(rows):
            try:
                found[place] = self.triple(row)
            except DataError as error:
                raise DataError(f"{line_of(file, place)}: {error}") from None
        return found


def is_typed_folder(folder: Path) -> bool:
    """Say whether a folder holds tables of typed nodes and edges."""
    return bool(table_in(folder, "nodes") and table_in(folder, "edges"))


def read_links(folder: Path, *, name: str | None = None) -> ExplainedLinks:
    """Read a folder of this layout; a relation that is another's exact reverse is read as its inverse."""
    folder = Path(folder)
    edge_file = _needed(folder, "edges")
    rows = _edge_rows(edge_file)
    predicted = _predicted(folder, rows)
    reverse = _reverses(rows, predicted)
    relations = tuple(sorted({relation for _, relation, _ in rows} - reverse.keys()))
    index = {relation: i for i, relation in enumerate(relations)}
    index |= {there: index[here] + len(relations) for there, here in reverse.items()}
    types, names = _nodes(_needed(folder, "nodes"), index)

    stored = names.triples(edge_file, rows)
    stored = stored[np.sort(np.unique(stored, axis=0, return_index=True)[1])]
    links = stored[stored[:, 1] == index[predicted]]
    facts = stored[(stored[:, 1] != index[predicted]) & (stored[:, 1] < len(relations))]
    known = set(map(tuple, stored.tolist()))

    def find_edge(row: Row) -> Triple:
        edge = names.triple(row)
        if edge not in known:
            raise DataError(f"there is no edge from {row[0]} by {row[1]} to {row[2]} in {edge_file.name}")
        return edge

    return ExplainedLinks(
        name=name or folder.resolve().name,
        entities=Names("entity", tuple(names.node)),
        relations=Names("relation", relations),
        node_types=types,
        relation=index[predicted],
        facts=facts,
        links=links,
        splits=_splits(folder, predicted, names, links),
        negatives={split: _listed(folder, f"{split}_negatives", predicted, names) for split in SPLITS},
        truth=_read_truth(folder, find_edge, predicted),
        notes=tuple(
            f"{edge_file.name}: {there} is the exact reverse of {here}, and is read as its inverse"
            for there, here in reverse.items()
        ),
    )


def _needed(folder: Path, stem: str) -> Path:
    file = table_in(folder, stem)
    if file is None:
        raise DataError(f"{folder} has no {stem} file: expected {stem}.tsv (or .txt, .csv, .parquet, .gz)")
    return file


def _hint(name: str, known: dict[str, int]) -> str:
    close = closest_names(name, known)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _nodes(file: Path, relation: dict[str, int]) -> tuple[tuple[str, ...], TypedNames]:
    """Return every node's type, and the index of every name."""
    types, ids = (column.to_pylist() for column in read_columns(file, NODES))
    node: dict[str, int] = {}
    for place, (kind, number) in enumerate(zip(types, ids, strict=True)):
        if node.setdefault(f"{kind}:{number}", place) != place:
            raise DataError(f"{line_of(file, place)}: {kind} {number} is there twice; expected each node once")
    return tuple(types), TypedNames(file.name, node, relation)


def _edge_rows(file: Path) -> list[Row]:
    """Return the named edges of a file."""
    columns = [column.to_pylist() for column in read_columns(file, EDGES)]
    return [
        (f"{source_type}:{source}", relation, f"{target_type}:{target}")
        for source_type, source, relation, target_type, target in zip(*columns, strict=True)
    ]


def _predicted(folder: Path, rows: Sequence[Row]) -> str:
    """Return the relation that has a file of training links."""
    relations = dict.fromkeys(relation for _, relation, _ in rows)
    found = [relation for relation in relations if table_in(folder, f"{relation}_train")]
    if len(found) != 1:
        listed = ", ".join(relations)
        what = f"has training links of {' and '.join(found)}" if found else "has no file of training links"
        raise DataError(f"{folder} {what}; expected R_train.tsv (or .gz, …) for one relation R of its edges ({listed})")
    return found[0]


def _reverses(rows: Sequence[Row], predicted: str) -> dict[str, str]:
    """Find the relations that say of every pair what an earlier one says of it the other way round."""
    pairs: dict[str, set[tuple[str, str]]] = {}
    for source, relation, target in rows:
        pairs.setdefault(relation, set()).add((source, target))
    found: dict[str, str] = {}
    for there, mine in pairs.items():
        turned = {(target, source) for source, target in mine}
        for here, theirs in pairs.items():
            if here == there:
                break  # only earlier relations are looked at, so one of two reverses always stays
            if here not in found and predicted not in (here, there) and theirs == turned:
                found[there] = here
                break
    return found


def _listed(folder: Path, what: str, predicted: str, names: TypedNames) -> Triples:
    """Return the pairs of the predicted relation's file of something, (n, 3), none where there is no such file."""
    file = table_in(folder, f"{predicted}_{what}")
    if file is None:
        return np.empty((0, 3), dtype=np.int64)
    rows = _edge_rows(file)
    for place, (_, relation, _) in enumerate(rows):
        if relation != predicted:
            where = line_of(file, place)
            raise DataError(f"{where}: the relation is {relation!r}; expected {predicted!r} by the file's name")
    return names.triples(file, rows)


def _splits(folder: Path, predicted: str, names: TypedNames, links: Triples) -> dict[Split, NDArray[np.int64]]:
    """Return the rows of `links` that each split's file lists, in its order; a link is in one split only."""
    row = {tuple(link): place for place, link in enumerate(links.tolist())}
    splits: dict[Split, NDArray[np.int64]] = {}
    for split in SPLITS:
        listed = list(map(tuple, _listed(folder, split, predicted, names).tolist()))
        for place, link in enumerate(listed):
            if link not in row:
                file = _needed(folder, f"{predicted}_{split}")
                raise DataError(f"{line_of(file, place)}: the link is not in the file of edges; expected it there, too")
        splits[split] = np.array([row[link] for link in dict.fromkeys(listed)], dtype=np.int64)
    again = np.flatnonzero(np.bincount(np.concatenate(list(splits.values())), minlength=len(links)) > 1)
    if len(again):
        source, target = (list(names.node)[node] for node in links[again[0], [0, 2]])
        raise DataError(f"{folder} has the link from {source} to {target} in two splits; expected it in one")
    return splits


def _read_truth(folder: Path, find_edge: FindEdge, predicted: str) -> dict[Triple, GroundTruth]:
    """Return what explains each link of the predicted relation; without a file of edges they are those of the paths."""
    labels = _labels(folder, "edges", find_edge, predicted)
    edges = {link: tuple(dict.fromkeys(chain(*found))) for _, link, found in labels}
    paths = {}
    for where, link, several in _labels(folder, "paths", find_edge, predicted):
        for number, path in enumerate(several, start=1):
            here = [link[0], *(target for _, _, target in path)]
            if here[:-1] != [source for source, _, _ in path] or here[-1] != link[2]:
                raise DataError(f"{where}: path {number} does not lead from source to target; expected edges in a row")
        paths[link] = tuple(map(tuple, several))
        edges.setdefault(link, tuple(dict.fromkeys(chain(*several))))
    return {link: GroundTruth(edges[link], paths.get(link, ())) for link in edges}


def _labels(
    folder: Path, kind: Kind, find_edge: FindEdge, predicted: str
) -> Iterator[tuple[str, Triple, list[list[Triple]]]]:
    """Yield (file and line, link, its paths) of each line; edges come as one list."""
    for file in (folder / f"{_FILES[kind]}{gz}" for gz in ("", ".gz")):
        if not file.is_file():
            continue
        seen = set()
        for number, line in enumerate(read_bytes(file).splitlines(), start=1):
            where = f"{file}, line {number}"
            try:
                label = json.loads(line)
                source, target = _node(*label["source"]), _node(*label["target"])
                steps = label[kind] if kind == "paths" else [label[kind]]
                named = [[_step(*step) for step in path] for path in steps]
                if not named or not all(named):
                    raise ValueError
            except (ValueError, KeyError, TypeError, RecursionError):
                shape = f'{{"source": {_END}, "target": {_END}, "{kind}": {_SHAPES[kind]}}}'
                raise DataError(f"{where} is no label of a link; expected {shape}") from None
            try:
                link = find_edge((source, predicted, target))
                found = [[find_edge(step) for step in path] for path in named]
            except DataError as error:
                raise DataError(f"{where}: {error}") from None
            if link in seen:
                raise DataError(f"{where}: the link from {source} to {target} has a label already; expected one")
            seen.add(link)
            yield where, link, found


def _node(kind: Any, number: Any) -> str:
    if not isinstance(kind, str) or not isinstance(number, int | str):
        raise TypeError
    return f"{kind}:{number}"


def _step(source_type: Any, source: Any, relation: Any, target_type: Any, target: Any) -> Row:
    if not isinstance(relation, str):
        raise TypeError
    return _node(source_type, source), relation, _node(target_type, target)
