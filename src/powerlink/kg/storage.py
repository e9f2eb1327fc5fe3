"""A graph as a folder of the product's own: parquet tables of indices and names, and a small JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from powerlink.errors import DataError, OutputError, SettingsError
from powerlink.kg.knowledge_graph import SPLITS, KnowledgeGraph, Names, Split, Triples

FORMAT = "powerlink graph"
VERSION = 1
_DESCRIPTION = "graph.json"
_FACT = ("head", "relation", "tail")


def is_stored_graph(folder: Path) -> bool:
    """Say whether a folder was written by `save_graph`."""
    return (folder / _DESCRIPTION).is_file()


def holds_graph_files_alone(folder: Path) -> bool:
    """Say whether a folder holds nothing but what `save_graph` writes, or the beginning of it."""
    tables = {f"{stem}.parquet" for stem in (*SPLITS, "entities", "relations")}
    return folder.is_dir() and all(path.name in tables | {_DESCRIPTION} for path in folder.iterdir())


def save_graph(kg: KnowledgeGraph, folder: Path) -> None:
    """Write a graph so that `load_graph` returns an equal one: facts, names in index order, labels, notes."""
    description = {
        "format": FORMAT,
        "version": VERSION,
        "name": kg.name,
        "fingerprint": kg.fingerprint,
        "notes": list(kg.notes),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _DESCRIPTION).unlink(missing_ok=True)  # written last: a folder without it is not whole
        for split in SPLITS:
            _write(folder, split, dict(zip(_FACT, kg.facts(split).T, strict=True)))
        for stem, names in (("entities", kg.entities), ("relations", kg.relations)):
            labels = [names.labels.get(name) for name in names.ids]
            _write(folder, stem, {"id": pa.array(names.ids, pa.string()), "label": pa.array(labels, pa.string())})
        (folder / _DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"the graph cannot be written to {folder}: {error.strerror or error}") from None


def load_graph(folder: Path) -> KnowledgeGraph:
    """Read a folder that `save_graph` wrote, and check that nothing in it has changed."""
    description = read_graph_description(folder)
    try:
        kg = KnowledgeGraph(
            str(description["name"]),
            _names(folder, "entities", "entity"),
            _names(folder, "relations", "relation"),
            train=_facts(folder, "train"),
            valid=_facts(folder, "valid"),
            test=_facts(folder, "test"),
            notes=tuple(map(str, description["notes"])),
        )
    except (SettingsError, ValueError) as error:
        raise DataError(f"{folder} is damaged: {error}; write it again") from None
    if kg.fingerprint != description["fingerprint"]:
        raise DataError(
            f"{folder} is damaged: its fingerprint is {kg.fingerprint}, and {_DESCRIPTION} says "
            f"{description['fingerprint']}; write it again"
        )
    return kg


def _write(folder: Path, stem: str, columns: dict[str, Any]) -> None:
    pq.write_table(pa.table(columns), folder / f"{stem}.parquet", compression="zstd", write_page_checksum=True)


def read_graph_description(folder: Path) -> dict[str, Any]:
    """Read what a stored graph says of itself: name, fingerprint and notes."""
    path = folder / _DESCRIPTION
    if not path.is_file():
        raise DataError(f"{folder} is no stored graph: there is no {_DESCRIPTION} in it")
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise DataError(f"{path} does not describe a graph; expected one with the format {FORMAT!r}")
    if description.get("version") != VERSION:
        raise DataError(f"{folder} has version {description.get('version')} of the format; expected version {VERSION}")
    if not isinstance(description.get("notes"), list):
        raise DataError(f"{path} is damaged: its notes are no list; write the graph again")
    if missing := {"name", "fingerprint"} - description.keys():
        raise DataError(f"{path} lacks {', '.join(sorted(missing))}; write the graph again")
    return description


def _columns(folder: Path, stem: str, *names: str) -> list[pa.ChunkedArray]:
    path = folder / f"{stem}.parquet"
    try:
        table = pq.read_table(path, columns=list(names), page_checksum_verification=True)
    except FileNotFoundError:
        raise DataError(f"{folder} is not whole: there is no {path.name} in it; write it again") from None
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is damaged ({str(error).splitlines()[0]}); write the graph again") from None
    if table.column_names != list(names):
        raise DataError(f"{path} has columns {table.column_names}; expected {list(names)}")
    return list(table.columns)


def _facts(folder: Path, split: Split) -> Triples:
    return np.stack([column.to_numpy() for column in _columns(folder, split, *_FACT)], axis=1).astype(
        np.int64, copy=False
    )


def _names(folder: Path, stem: str, kind: str) -> Names:
    ids, labels = (column.to_pylist() for column in _columns(folder, stem, "id", "label"))
    return Names(kind, tuple(ids), {name: label for name, label in zip(ids, labels, strict=True) if label is not None})
