"""Read what explains each link: JSON Lines of edges, and of paths."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from powerlink.errors import DataError
from powerlink.kg.explained_links import GroundTruth, Triple
from powerlink.kg.tables import read_bytes

Kind = Literal["edges", "paths"]
FindEdge = Callable[[tuple[str, str, str]], Triple]  # names → indices; a DataError when there is no such edge
_FILES: dict[Kind, str] = {"edges": "edge_labels.jsonl", "paths": "path_labels.jsonl"}
_NODE = '["type", id]'
_EDGES = '[["source type", source, "relation", "target type", target], …]'
_SHAPES: dict[Kind, str] = {"edges": _EDGES, "paths": f"[{_EDGES}, …]"}


def read_truth(folder: Path, find_edge: FindEdge, predicted: str) -> dict[Triple, GroundTruth]:
    """Return what explains each link of the predicted relation; without a file of edges they are those of the paths."""
    edges = {
        link: tuple(dict.fromkeys(chain(*found))) for _, link, found in _labels(folder, "edges", find_edge, predicted)
    }
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
                shape = f'{{"source": {_NODE}, "target": {_NODE}, "{kind}": {_SHAPES[kind]}}}'
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


def _step(source_type: Any, source: Any, relation: Any, target_type: Any, target: Any) -> tuple[str, str, str]:
    if not isinstance(relation, str):
        raise TypeError
    return _node(source_type, source), relation, _node(target_type, target)
