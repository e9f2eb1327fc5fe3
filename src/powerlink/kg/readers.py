"""Read a user's files: a folder of train, valid and test, or one file of facts that is split for them."""

from __future__ import annotations

import os
from pathlib import Path

from powerlink.errors import DataError, closest_names
from powerlink.kg.cleaning import Columns, clean, indexed, split_facts
from powerlink.kg.knowledge_graph import SPLITS, KnowledgeGraph, Names, Split
from powerlink.kg.layout import FACTS, LABELS
from powerlink.kg.rdf import RDF_FORMATS, local_names, read_rdf
from powerlink.kg.storage import is_stored_graph, load_graph
from powerlink.kg.tables import TABLE_FORMATS, entries, file_format, header_in_lines, read_columns, table_in
from powerlink.kg.typed_folder import is_typed_folder, read_links

_STEMS: dict[Split, tuple[str, ...]] = {
    "train": ("train",),
    "valid": ("valid", "validation", "dev"),
    "test": ("test",),
}


def read_graph(path: Path, *, name: str | None = None, seed: int = 0) -> KnowledgeGraph:
    """Read a folder with train, valid and test files, one of typed nodes and edges, or a file, split by `seed`."""
    path = Path(path)
    if not os.path.exists(path):  # unlike Path.exists, False also for a name too long to exist
        raise DataError(no_such(path))
    if not path.is_dir():
        return _read_file(path, name or path.name.split(".")[0], seed)
    if is_stored_graph(path):
        return load_graph(path)
    name = name or path.resolve().name
    if table_in(path, *_STEMS["train"]) is None and is_typed_folder(path):
        return read_links(path, name=name).graph
    return _read_folder(path, name)


def no_such(path: Path) -> str:
    """Say in a sentence that there is no such file, with the closest ones beside it."""
    parent = path.parent
    close = closest_names(path.name, (entry.name for entry in entries(parent)) if os.path.isdir(parent) else ())
    hint = f"; did you mean {' or '.join(str(parent / found) for found in close)}?" if close else ""
    return f"there is no file or folder {path}{hint}"


def _read_folder(folder: Path, name: str) -> KnowledgeGraph:
    files = {split: file for split in SPLITS if (file := table_in(folder, *_STEMS[split]))}
    if "train" not in files:
        found = [entry.name for entry in entries(folder)]
        listed = ", ".join(found[:8]) + (", …" if len(found) > 8 else "") or "nothing"
        raise DataError(
            f"{folder} has no train file: expected train.tsv (or .txt, .csv, .parquet, .gz); found {listed}"
        )
    columns = {split: read_columns(file, FACTS) for split, file in files.items()}
    if not len(columns["train"][0]):
        raise DataError(f"{files['train']} holds no facts; expected at least one line of {FACTS}")
    entities, relations, facts = indexed(columns)
    notes = [note for split, file in files.items() for note in _header_note(file, columns[split])]
    entity_names = Names("entity", entities, _labels_in(folder, "entities", "entity", entities, notes))
    relation_names = Names("relation", relations, _labels_in(folder, "relations", "relation", relations, notes))
    facts, more_notes = clean(facts, {split: file.name for split, file in files.items()})
    none = facts["train"][:0]
    splits = {split: facts.get(split, none) for split in SPLITS}
    return KnowledgeGraph(name, entity_names, relation_names, **splits, notes=(*notes, *more_notes))


def _header_note(file: Path, columns: Columns) -> list[str]:
    """Say when a file without header lines seems to begin with one: it was read as a fact."""
    first = [column[0].as_py() for column in columns] if len(columns[0]) else []
    if not header_in_lines(file, first, FACTS):
        return []
    return [f"{file.name}: the first line ({', '.join(first)}) looks like a header and was read as a fact"]


def _labels_in(folder: Path, stem: str, kind: str, ids: tuple[str, ...], notes: list[str]) -> dict[str, str]:
    """Return the labels of `entities.*` or `relations.*`, if the folder has such a file."""
    file = table_in(folder, stem)
    if file is None:
        return {}
    known, found, strangers, again = set(ids), dict[str, str](), 0, 0
    for name, label in zip(*(column.to_pylist() for column in read_columns(file, LABELS)), strict=True):
        if name not in known:
            strangers += 1
        elif name in found:
            again += 1
        elif label:
            found[name] = label
    if strangers:
        notes.append(f"{file.name}: labels of no {kind} of the graph, left out: {strangers:,}")
    if again:
        notes.append(f"{file.name}: second labels of the same {kind}, left out: {again:,}")
    return found


def _read_file(path: Path, name: str, seed: int) -> KnowledgeGraph:
    kind = file_format(path)
    labels: dict[str, str] = {}
    if kind in RDF_FORMATS:
        columns, labels, notes = read_rdf(path, kind)
    elif kind in TABLE_FORMATS:
        columns = read_columns(path, FACTS)
        notes = _header_note(path, columns)
    else:
        known = ", ".join((*TABLE_FORMATS, *RDF_FORMATS))
        raise DataError(f"{path} has no format that is read; expected {known}, plain or .gz, or a folder")
    if not len(columns[0]):
        skipped = f" ({'; '.join(notes)})" if notes else ""
        raise DataError(f"{path} holds no facts{skipped}; expected at least one fact of head, relation, tail")
    entities, relations, facts = indexed({"train": columns})
    facts, more_notes = clean(facts, {"train": path.name})
    splits = split_facts(facts["train"], seed=seed)
    sizes = ", ".join(f"{len(splits[split]):,} {split}" for split in SPLITS)
    notes += [*more_notes, f"{path.name}: split by seed {seed} into {sizes} facts"]
    entity_names, relation_names = (
        Names(what, ids, local_names(ids) | labels if kind in RDF_FORMATS else {})
        for what, ids in (("entity", entities), ("relation", relations))
    )
    return KnowledgeGraph(name, entity_names, relation_names, **splits, notes=tuple(notes))
