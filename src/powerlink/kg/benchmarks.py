"""The public benchmarks with a name: their sizes, and the exact files of those that can be downloaded.

An address is listed only where repository, commit, path and checksum are all known: a commit never changes,
and the checksum is the proof of what arrived.
"""

from __future__ import annotations

from dataclasses import dataclass

from powerlink.kg.download import RemoteFile

_KGE = "https://raw.githubusercontent.com/DeepGraphLearning/KnowledgeGraphEmbedding"
_KGE_COMMIT = "2e440e0f9c687314d5ff67ead68ce985dc446e3a"
_PYKEEN = "https://raw.githubusercontent.com/pykeen/pykeen"


@dataclass(frozen=True)
class Benchmark:
    """A data set of the literature: what it is called, how large it is and where it comes from."""

    name: str
    title: str
    entities: int
    relations: int
    facts: int  # train, valid and test together
    source: str  # where people find it
    files: tuple[RemoteFile, ...] = ()  # empty when it is not downloaded


def _kge(folder: str, split: str, size: int, sha256: str) -> RemoteFile:
    return RemoteFile(f"{_KGE}/{_KGE_COMMIT}/data/{folder}/{split}.txt", f"{split}.txt", size, sha256)


def _umls(commit: str, split: str, size: int, sha256: str) -> RemoteFile:
    url = f"{_PYKEEN}/{commit}/src/pykeen/datasets/umls/{split}.txt"
    return RemoteFile(url, f"{split}.txt", size, sha256)


_FB15K_237 = (
    _kge("FB15k-237", "train", 21277292, "6e4c2782169af21e9743f3b1d200886f5d595bf6bc504ec1351720949c5cdfae"),
    _kge("FB15k-237", "valid", 1303101, "cf6309010852f6a8d47a45df830a426415d1ee6f7a3970a8376ff1fb81db4a5c"),
    _kge("FB15k-237", "test", 1519499, "5711cf41623ceb4eacc50eb6108a3ca6565c7492e3caaf82a3e355cc660d1574"),
)
_WN18RR = (
    _kge("wn18rr", "train", 3135377, "038612e783c215ee5f3ca9fbfca27b8d0739be1028fe4ee7c174aecf0b83d5df"),
    _kge("wn18rr", "valid", 110415, "453ce7202afa58094a04d2b1560ee2b02660f1c260b32ce6651c8ccedd1028ab"),
    _kge("wn18rr", "test", 113180, "0383bceaaa1096cf3c03ec021ed0048068e2355dbfc0239b292cefdac821cec5"),
)
_UMLS_COMMIT = "2e3944f857a2f8e48c4f18d55649044a7e0f318d"
_UMLS_TEST_COMMIT = "feac2146434c7df7d25e55e5e1c963b3fd9cb187"
_UMLS = (
    _umls(_UMLS_COMMIT, "train", 260013, "873ef4925516b83e7f6f8cc02b4be51d848828710a7f65a956f0ac4a9e452f35"),
    _umls(_UMLS_COMMIT, "valid", 32963, "025c98f8a4891e2a6582ec5b40ee0d904031edad9c52554522f4b7904820c98e"),
    _umls(_UMLS_TEST_COMMIT, "test", 32968, "a7eb529a3d2810fcc96341ccc97c625a5e202f8389673aa6bd317eeebbb79014"),
)

BENCHMARKS = (
    Benchmark(
        "fb15k-237",
        "FB15k-237",
        14541,
        237,
        310116,
        "github.com/DeepGraphLearning/KnowledgeGraphEmbedding",
        _FB15K_237,
    ),
    Benchmark("wn18rr", "WN18RR", 40943, 11, 93003, "github.com/DeepGraphLearning/KnowledgeGraphEmbedding", _WN18RR),
    Benchmark("umls", "UMLS", 135, 46, 6529, "github.com/pykeen/pykeen", _UMLS),
    Benchmark("kinships", "Kinships", 104, 25, 10686, "github.com/pykeen/pykeen (src/pykeen/datasets/kinships)"),
)
