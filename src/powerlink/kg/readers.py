"""Read a user's files: a folder of train, valid and test, or one file of facts that is split for them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from powerlink.errors import DataError, closest_names
from powerlink.kg.cleaning import clean, indexed, sorted_names
from powerlink.kg.knowledge_graph import SPLITS, KnowledgeGraph, Names, Split, Triples
from powerlink.kg.layout import FACTS, LABELS
from powerlink.kg.rdf import RDF_FORMATS, local_names, read_rdf
from powerlink.kg.splitting import split_facts
from powerlink.kg.storage import is_stored_graph, load_graph
from powerlink.kg.tables import TABLE_FORMATS, file_format, read_columns
from powerlink.kg.typed_folder import is_typed_folder, read_links

_STEMS: dict[Split, tuple[str, ...]] = {
    "train": ("train",),
    "valid": ("valid", "validation", "dev"),
    "test": ("test",),
}


def read_graph(path: Path, *, name: str | None = None, seed: int = 0) -> KnowledgeGraph:
    """Read a folder with train, valid and test files, one of typed nodes and edges, or a file, split by `seed`."""
    path = Path(path)
    if os.path.isdir(path):  # unlike Path.is_dir, False also for a name too long to exist
        if is_stored_graph(path):
            return load_graph(path)
        name = name or path.resolve().name
        is_typed = _file_named(path, _STEMS["train"]) is None and is_typed_folder(path)
        return read_links(path, name=name).graph if is_typed else _read_folder(path, name)
    if not os.path.exists(path):
        raise DataError(no_such(path))
    return _read_file(path, name or path.name.split(".")[0], seed)


def no_such(path: Path) -> str:
    """Say in a sentence that there is no such file, with the closest ones beside it."""
    parent = path.parent
    close = closest_names(path.name, (entry.name for entry in _entries(parent)) if os.path.isdir(parent) else ())
    hint = f"; did you mean {' or '.join(str(parent / found) for found in close)}?" if close else ""
    return f"there is no file or folder {path}{hint}"


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}") from None


def _read_folder(folder: Path, name: str) -> KnowledgeGraph:
    files: dict[Split, Path] = {}
    for split in SPLITS:
        file = _file_named(folder, _STEMS[split])
        if file:
            files[split] = file
    if "train" not in files:
        found = [entry.name for entry in _entries(folder)]
        listed = ", ".join(found[:8]) + (", …" if len(found) > 8 else "") or "nothing"
        raise DataError(
            f"{folder} has no train file: expected train.tsv (or .txt, .csv, .parquet, .gz); found {listed}"
        )
    columns = {split: read_columns(file, FACTS) for split, file in files.items()}
    if not len(columns["train"][0]):
        raise DataError(f"{files['train']} holds no facts; expected at least one line of {FACTS}")
    entities = sorted_names(column for split in columns.values() for column in (split[0], split[2]))
    relations = sorted_names(split[1] for split in columns.values())
    facts = {split: indexed(columns[split], entities, relations) for split in columns}
    shown = {split: file.name for split, file in files.items()}
    notes = [note for split, file in files.items() for note in _header_note(file, columns[split])]
    facts, more_notes = clean(facts, shown)
    entity_names = _with_labels(folder, "entity", "entities", entities, notes)
    relation_names = _with_labels(folder, "relation", "relations", relations, notes)
    return _graph(name, entity_names, relation_names, facts, [*notes, *more_notes])


def _file_named(folder: Path, stems: tuple[str, ...]) -> Path | None:
    """Return the one readable file in the folder with one of these stems, or None."""
    wanted = {f"{stem}{kind}{gz}" for stem in stems for kind in TABLE_FORMATS for gz in ("", ".gz")}
    found = [entry for entry in _entries(folder) if entry.name.lower() in wanted and entry.is_file()]
    if len(found) > 1:
        listed = " and ".join(entry.name for entry in found)
        raise DataError(f"{folder} holds {listed}; expected one file of {stems[0]}, so remove the other")
    return found[0] if found else None


def _header_note(file: Path, columns: list[pa.DictionaryArray]) -> list[str]:
    """Say when a file without header lines seems to begin with one: it was read as a fact."""
    first = [column[0].as_py() for column in columns] if len(columns[0]) else []
    if file_format(file) in (".tsv", ".txt") and FACTS.header_positions(first):
        return [f"{file.name}: the first line ({', '.join(first)}) looks like a header and was read as a fact"]
    return []


def _with_labels(folder: Path, kind: str, stem: str, ids: pa.Array, notes: list[str]) -> Names:
    """Return names with the labels of `entities.*` or `relations.*`, if the folder has such a file."""
    names = tuple(ids.to_pylist())
    file = _file_named(folder, (stem,))
    if file is None:
        return Names(kind, names)
    given, labels = (column.to_pylist() for column in read_columns(file, LABELS))
    known, found, strangers, again = set(names), dict[str, str](), 0, 0
    for name, label in zip(given, labels, strict=True):
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
    return Names(kind, names, found)


def _read_file(path: Path, name: str, seed: int) -> KnowledgeGraph:
    kind = file_format(path)
    labels: dict[str, str] = {}
    if kind in RDF_FORMATS:
        rdf = read_rdf(path, kind)
        columns, labels, notes = rdf.columns(), rdf.labels, rdf.notes(path.name)
    elif kind in TABLE_FORMATS:
        columns = read_columns(path, FACTS)
        notes = _header_note(path, columns)
    else:
        known = ", ".join((*TABLE_FORMATS, *RDF_FORMATS))
        raise DataError(f"{path} has no format that is read; expected {known}, plain or .gz, or a folder")
    if not len(columns[0]):
        skipped = f" ({'; '.join(notes)})" if notes else ""
        raise DataError(f"{path} holds no facts{skipped}; expected at least one fact of head, relation, tail")
    entities, relations = sorted_names((columns[0], columns[2])), sorted_names((columns[1],))
    facts = indexed(columns, entities, relations)
    cleaned, more_notes = clean({"train": facts}, {"train": path.name})
    splits = split_facts(cleaned["train"], seed=seed)
    sizes = ", ".join(f"{len(splits[split]):,} {split}" for split in SPLITS)
    notes += [*more_notes, f"{path.name}: split by seed {seed} into {sizes} facts"]
    ids = tuple(entities.to_pylist()), tuple(relations.to_pylist())
    entity_names, relation_names = (
        Names(kind_of_name, names, _labels_of(names, labels) if kind in RDF_FORMATS else {})
        for kind_of_name, names in zip(("entity", "relation"), ids, strict=True)
    )
    return _graph(name, entity_names, relation_names, splits, notes)


def _labels_of(ids: tuple[str, ...], labels: dict[str, str]) -> dict[str, str]:
    return local_names(ids) | {name: labels[name] for name in ids if name in labels}


def _graph(
    name: str, entities: Names, relations: Names, facts: dict[Split, Triples], notes: list[str]
) -> KnowledgeGraph:
    nothing = facts["train"][:0]
    valid, test = facts.get("valid", nothing), facts.get("test", nothing)
    return KnowledgeGraph(name, entities, relations, facts["train"], valid, test, tuple(notes))
