"""Data sets by name, and the function behind `--data`: a name, a file or a folder becomes a graph.

The address of a file is listed only where repository, commit, path and checksum are all known: a commit never changes,
and the checksum is the proof of what arrived.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from powerlink.errors import DataError, UnknownNameError
from powerlink.kg.download import RemoteFile, cache_folder, download
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.kg.pykeen_data import PREFIX, load_pykeen_dataset
from powerlink.kg.readers import read_graph

DATA_VARIABLE = "POWERLINK_DATA"
_BUNDLED = "atlas"
_KGE_PAGE = "github.com/DeepGraphLearning/KnowledgeGraphEmbedding"
_KGE = "DeepGraphLearning/KnowledgeGraphEmbedding/2e440e0f9c687314d5ff67ead68ce985dc446e3a/data"
_UMLS_DATA = "pykeen/pykeen/2e3944f857a2f8e48c4f18d55649044a7e0f318d/src/pykeen/datasets/umls"
_UMLS_TEST = "pykeen/pykeen/feac2146434c7df7d25e55e5e1c963b3fd9cb187/src/pykeen/datasets/umls"


@dataclass(frozen=True)
class Dataset:
    """What a data set is called, and how large it is."""

    name: str
    title: str
    entities: int
    relations: int
    facts: int  # train, valid and test together


@dataclass(frozen=True)
class Benchmark(Dataset):
    """A data set of the literature, and where it comes from."""

    source: str  # where people find it
    files: tuple[RemoteFile, ...] = ()  # empty when it is not downloaded


@dataclass(frozen=True)
class DatasetEntry(Dataset):
    """A row of the list of data sets: also where it is on this machine."""

    status: Literal["bundled", "found", "downloadable", "to be placed"]
    where: str  # for people: a folder, an address, or what to do


def _file(folder: str, split: str, size: int, sha256: str) -> RemoteFile:
    return RemoteFile(f"https://raw.githubusercontent.com/{folder}/{split}.txt", f"{split}.txt", size, sha256)


_FB15K_237 = (
    _file(f"{_KGE}/FB15k-237", "train", 21277292, "6e4c2782169af21e9743f3b1d200886f5d595bf6bc504ec1351720949c5cdfae"),
    _file(f"{_KGE}/FB15k-237", "valid", 1303101, "cf6309010852f6a8d47a45df830a426415d1ee6f7a3970a8376ff1fb81db4a5c"),
    _file(f"{_KGE}/FB15k-237", "test", 1519499, "5711cf41623ceb4eacc50eb6108a3ca6565c7492e3caaf82a3e355cc660d1574"),
)
_WN18RR = (
    _file(f"{_KGE}/wn18rr", "train", 3135377, "038612e783c215ee5f3ca9fbfca27b8d0739be1028fe4ee7c174aecf0b83d5df"),
    _file(f"{_KGE}/wn18rr", "valid", 110415, "453ce7202afa58094a04d2b1560ee2b02660f1c260b32ce6651c8ccedd1028ab"),
    _file(f"{_KGE}/wn18rr", "test", 113180, "0383bceaaa1096cf3c03ec021ed0048068e2355dbfc0239b292cefdac821cec5"),
)
_UMLS = (
    _file(_UMLS_DATA, "train", 260013, "873ef4925516b83e7f6f8cc02b4be51d848828710a7f65a956f0ac4a9e452f35"),
    _file(_UMLS_DATA, "valid", 32963, "025c98f8a4891e2a6582ec5b40ee0d904031edad9c52554522f4b7904820c98e"),
    _file(_UMLS_TEST, "test", 32968, "a7eb529a3d2810fcc96341ccc97c625a5e202f8389673aa6bd317eeebbb79014"),
)

BENCHMARKS = (
    Benchmark("fb15k-237", "FB15k-237", 14541, 237, 310116, _KGE_PAGE, _FB15K_237),
    Benchmark("wn18rr", "WN18RR", 40943, 11, 93003, _KGE_PAGE, _WN18RR),
    Benchmark("umls", "UMLS", 135, 46, 6529, "github.com/pykeen/pykeen", _UMLS),
    Benchmark("kinships", "Kinships", 104, 25, 10686, "github.com/pykeen/pykeen (src/pykeen/datasets/kinships)"),
)


def datasets(*, data_dir: Path | None = None) -> tuple[DatasetEntry, ...]:
    """Return every data set that has a name, the bundled one first."""
    atlas = _bundled_graph()
    title, counts = "Atlas (small, for a first look)", (atlas.num_entities, atlas.num_relations, len(atlas.all_facts))
    bundled = DatasetEntry(_BUNDLED, title, *counts, status="bundled", where="comes with powerlink")
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
