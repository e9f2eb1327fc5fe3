"""Data sets by name, and the function behind `--data`: a name, a file or a folder becomes a graph."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from powerlink.errors import DataError, UnknownNameError
from powerlink.kg.benchmarks import BENCHMARKS, Benchmark
from powerlink.kg.download import cache_folder, download
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.kg.pykeen_data import PREFIX, load_pykeen_dataset
from powerlink.kg.readers import read_graph

DATA_VARIABLE = "POWERLINK_DATA"
_BUNDLED = "atlas"


@dataclass(frozen=True)
class DatasetEntry:
    """A row of the list of data sets: what it is, how large, and where it is on this machine."""

    name: str
    title: str
    entities: int
    relations: int
    facts: int  # train, valid and test together
    status: Literal["bundled", "found", "downloadable", "to be placed"]
    where: str  # for people: a folder, an address, or what to do


def datasets(*, data_dir: Path | None = None) -> tuple[DatasetEntry, ...]:
    """Return every data set that has a name, the bundled one first."""
    atlas = _bundled_graph()
    bundled = DatasetEntry(
        name=_BUNDLED,
        title="Atlas (small, for a first look)",
        entities=atlas.num_entities,
        relations=atlas.num_relations,
        facts=len(atlas.all_facts),
        status="bundled",
        where="comes with powerlink",
    )
    return (bundled, *(_entry(benchmark, data_dir) for benchmark in BENCHMARKS))


def load(name_or_path: str | Path, *, data_dir: Path | None = None, seed: int = 0) -> KnowledgeGraph:
    """Return the graph of a data set's name, or of a file or folder; `seed` splits a single file.

    A text that is the name of a data set means that data set even where a file is called so too: write
    `./atlas` for the file. Named data sets are looked for in `data_dir`, in the folder that POWERLINK_DATA
    names, and in the cache, and else downloaded. `pykeen:NAME` is one of PyKEEN's, where that is installed.
    """
    name = str(name_or_path)
    if isinstance(name_or_path, str):
        if name.casefold() == _BUNDLED:
            return _bundled_graph()
        if name.casefold().startswith(PREFIX):
            return load_pykeen_dataset(name[len(PREFIX) :])
        for benchmark in BENCHMARKS:
            if benchmark.name == name.casefold():
                return read_graph(_folder_of(benchmark, data_dir), name=benchmark.name)
    path = Path(name).expanduser()
    if not os.path.exists(path) and isinstance(name_or_path, str) and path.name == name and not path.suffix:
        # No data set and no path: it was most likely meant as a name, so names are what to suggest.
        beside = (entry.name for entry in Path().iterdir())
        known = [_BUNDLED, *(benchmark.name for benchmark in BENCHMARKS), *beside]
        raise UnknownNameError("dataset, file or folder", name, known)
    return read_graph(path, seed=seed)


def _bundled_graph() -> KnowledgeGraph:
    with resources.as_file(resources.files("powerlink.kg") / _BUNDLED) as folder:
        return read_graph(folder, name=_BUNDLED)


def _entry(benchmark: Benchmark, data_dir: Path | None) -> DatasetEntry:
    status: Literal["found", "downloadable", "to be placed"]
    if folder := _found(benchmark, data_dir):
        status, where = "found", str(folder)
    elif benchmark.files:
        size = sum(file.size for file in benchmark.files) / 1e6
        status, where = "downloadable", f"{size:.1f} MB from {benchmark.source}"
    else:
        status, where = "to be placed", _how_to_place(benchmark)
    counts = benchmark.entities, benchmark.relations, benchmark.facts
    return DatasetEntry(benchmark.name, benchmark.title, *counts, status, where)


def _folder_of(benchmark: Benchmark, data_dir: Path | None) -> Path:
    """Return the folder that holds a benchmark, downloaded if need be."""
    if folder := _found(benchmark, data_dir):
        return folder
    if not benchmark.files:
        raise DataError(f"{benchmark.title} is not on this machine; {_how_to_place(benchmark)}")
    folder = cache_folder() / benchmark.name
    try:
        download(benchmark.files, folder)
    except DataError as error:
        raise DataError(f"{error}; to do without the download, {_how_to_place(benchmark)}") from None
    return folder


def _found(benchmark: Benchmark, data_dir: Path | None) -> Path | None:
    """Return the first folder called like the benchmark, in any case, where data sets are looked for."""
    given = {"the data folder": data_dir, DATA_VARIABLE: os.environ.get(DATA_VARIABLE)}
    for what, place in given.items():
        if place and not os.path.isdir(Path(place).expanduser()):
            raise DataError(f"{what} is {place}, which is no folder; expected the folder that holds data sets")
        if place and (folder := _child_named(Path(place).expanduser(), benchmark.name)):
            return folder
    return _child_named(cache_folder(), benchmark.name)


def _child_named(parent: Path, name: str) -> Path | None:
    entries = sorted(parent.iterdir()) if parent.is_dir() else []
    return next((entry for entry in entries if entry.name.casefold() == name and entry.is_dir()), None)


def _how_to_place(benchmark: Benchmark) -> str:
    return (
        f"put train.tsv, valid.tsv and test.tsv (or .txt, .csv, .parquet; or .gz) from {benchmark.source} "
        f"into a folder {benchmark.title} and let {DATA_VARIABLE} name the folder around it"
    )
