"""Data sets by name: bundled, found in a folder, downloaded and checked, or placed by hand."""

from __future__ import annotations

import functools
import hashlib
import io
import os
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from powerlink.errors import DataError, OutputError, UnknownNameError
from powerlink.kg import catalog
from powerlink.kg.catalog import BENCHMARKS, Benchmark, datasets, load
from powerlink.kg.download import RemoteFile, cache_folder, download
from powerlink.kg.knowledge_graph import SPLITS

SHARED = Path(os.environ.get("POWERLINK_DATA") or Path(__file__).parents[3] / "shared" / "datasets")
needs_shared = pytest.mark.skipif(
    not (SHARED / "FB15k-237").is_dir(),
    reason=f"the benchmarks are not in {SHARED}; POWERLINK_DATA can name their folder",
)
TRAIN, VALID, TEST = b"a\tr\tb\nb\tr\tc\n", b"a\tr\tc\n", b"c\tr\ta\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and no data folder, so that nothing on the machine decides a test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("POWERLINK_DATA", raising=False)
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "cache" / "powerlink"


def serve(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


class BreaksOff(BaseHTTPRequestHandler):
    """Promises a hundred bytes and hangs up after ten."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b"0123456789")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    root = tmp_path / "site"
    root.mkdir()
    for name, content in (("train.txt", TRAIN), ("valid.txt", VALID), ("test.txt", TEST)):
        (root / name).write_bytes(content)
    yield from serve(functools.partial(QuietFiles, directory=str(root)))


@pytest.fixture
def breaking_site() -> Iterator[str]:
    yield from serve(BreaksOff)


def remote(site: str, name: str, content: bytes) -> RemoteFile:
    return RemoteFile(f"{site}/{name}", name, len(content), hashlib.sha256(content).hexdigest())


def tiny(site: str) -> Benchmark:
    parts = (("train.txt", TRAIN), ("valid.txt", VALID), ("test.txt", TEST))
    files = tuple(remote(site, name, content) for name, content in parts)
    return Benchmark("tiny", "Tiny", 3, 1, 4, "example.org", files)


# --- names and paths ---------------------------------------------------------------------------------------------


def test_the_bundled_graph_is_always_there() -> None:
    kg = load("atlas")
    assert kg.name == "atlas"
    assert len(kg.train)
    assert load("ATLAS").fingerprint == kg.fingerprint
    entry = datasets()[0]
    assert (entry.name, entry.status, entry.facts) == ("atlas", "bundled", len(kg.all_facts))
    assert (entry.entities, entry.relations) == (kg.num_entities, kg.num_relations)


def test_a_path_is_read_as_a_file_or_folder(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_bytes(TRAIN)
    assert len(load(tmp_path).train) == 2
    assert len(load(str(tmp_path)).train) == 2
    assert len(load(tmp_path / "train.tsv", seed=3).all_facts) == 2


def test_a_name_wins_over_a_file_of_that_name_and_a_path_over_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "atlas").mkdir()
    (tmp_path / "atlas" / "train.tsv").write_bytes(TRAIN)
    monkeypatch.chdir(tmp_path)
    assert load("atlas").num_entities > 3
    assert load("./atlas").num_entities == load(Path("atlas")).num_entities == 3


def test_an_unknown_name_gets_the_closest_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownNameError, match="no dataset, file or folder named 'FB15k'; did you mean 'fb15k-237'"):
        load("FB15k")
    (tmp_path / "my-graph").mkdir()
    with pytest.raises(UnknownNameError, match="did you mean 'my-graph'"):
        load("my_graph")
    with pytest.raises(DataError, match="there is no file or folder"):
        load("graphs/facts.tsv")
    with pytest.raises(DataError, match=r"there is no file or folder facts\.tsv"):
        load("facts.tsv")


# --- the benchmarks ----------------------------------------------------------------------------------------------


def test_benchmark_addresses_are_pinned_and_checked() -> None:
    for benchmark in BENCHMARKS:
        assert benchmark.name == benchmark.title.casefold()
        assert benchmark.files == () or [file.name for file in benchmark.files] == [f"{s}.txt" for s in SPLITS]
        for file in benchmark.files:
            owner, _repository, commit, *_ = file.url.removeprefix("https://raw.githubusercontent.com/").split("/")
            assert "https" not in owner
            assert len(bytes.fromhex(commit)) == 20
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.size > 0


@needs_shared
@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_the_real_benchmarks_have_the_sizes_and_the_content_that_are_listed(benchmark: Benchmark) -> None:
    kg = load(benchmark.name, data_dir=SHARED)
    assert (kg.num_entities, kg.num_relations, len(kg.all_facts)) == (
        benchmark.entities,
        benchmark.relations,
        benchmark.facts,
    )
    assert kg.name == benchmark.name
    # What a download must hold is the text of these very files (FB15k-237 is published with CRLF line ends).
    for split, file in zip(SPLITS, benchmark.files, strict=False):
        rows = kg.facts(split)
        end = "\r\n" if benchmark.name == "fb15k-237" else "\n"
        entities, relations = kg.entities.ids, kg.relations.ids
        text = "".join(f"{entities[h]}\t{relations[r]}\t{entities[t]}{end}" for h, r, t in rows.tolist()).encode()
        assert (len(text), hashlib.sha256(text).hexdigest()) == (file.size, file.sha256)


@needs_shared
def test_the_notes_of_real_benchmarks_tell_their_oddities() -> None:
    assert load("wn18rr", data_dir=SHARED).notes == (
        "train.tsv.gz: 7 facts with the same head and tail were kept",
        "valid.tsv.gz: 2 facts with the same head and tail were kept",
        "valid.tsv.gz: 198 entities stand in no train fact; 210 facts with them were kept",
        "test.tsv.gz: 209 entities stand in no train fact; 210 facts with them were kept",
    )
    umls = load("umls", data_dir=SHARED)
    assert umls.notes == ()
    assert umls.entities[0] == "acquired abnormality"


def test_a_benchmark_is_found_in_the_data_folder_then_the_variable_then_the_cache(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / "given" / "KINSHIPS", tmp_path / "variable" / "Kinships", own_cache / "kinships"]
    for size, place in enumerate(places, start=1):
        place.mkdir(parents=True)
        (place / "train.tsv").write_text("".join(f"a\tr\tb{i}\n" for i in range(size)))
    assert len(load("kinships").train) == 3
    monkeypatch.setenv("POWERLINK_DATA", str(tmp_path / "variable"))
    assert len(load("kinships").train) == 2
    assert len(load("Kinships", data_dir=tmp_path / "given").train) == 1
    entry = next(entry for entry in datasets() if entry.name == "kinships")
    assert (entry.status, entry.where) == ("found", str(places[1]))


def test_what_is_not_downloaded_says_how_to_place_it() -> None:
    with pytest.raises(DataError, match=r"Kinships is not on this machine; put train.tsv, .* let POWERLINK_DATA name"):
        load("kinships")
    entry = next(entry for entry in datasets() if entry.name == "kinships")
    assert entry.status == "to be placed"
    assert "POWERLINK_DATA" in entry.where


def test_a_data_folder_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"the data folder is .*, which is no folder"):
        load("umls", data_dir=tmp_path / "none")
    monkeypatch.setenv("POWERLINK_DATA", str(tmp_path / "none"))
    with pytest.raises(DataError, match=r"POWERLINK_DATA is .*, which is no folder"):
        load("umls")
    assert load("atlas").name == "atlas"


# --- downloading -------------------------------------------------------------------------------------------------


def test_a_benchmark_is_downloaded_once_and_then_found(
    site: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "BENCHMARKS", (tiny(site),))
    assert [entry.status for entry in datasets()] == ["bundled", "downloadable"]
    kg = load("tiny")
    assert (kg.name, kg.num_entities, [len(kg.facts(split)) for split in SPLITS]) == ("tiny", 3, [2, 1, 1])
    assert sorted(path.name for path in own_cache.iterdir()) == ["tiny"]
    monkeypatch.setattr(catalog, "BENCHMARKS", (tiny("http://127.0.0.1:9"),))
    assert load("tiny").fingerprint == kg.fingerprint
    assert [entry.status for entry in datasets()] == ["bundled", "found"]


def test_progress_is_shown_on_a_terminal_only(site: str, tmp_path: Path) -> None:
    for terminal in (True, False):
        shown = io.StringIO()
        console = Console(file=shown, force_terminal=terminal, width=100)
        download(tiny(site).files, tmp_path / f"terminal-{terminal}", console=console)
        assert ("terminal-True" in shown.getvalue()) == terminal
        assert (tmp_path / f"terminal-{terminal}" / "train.txt").read_bytes() == TRAIN


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (TRAIN + b"x", "only 12 bytes came instead of 13"),
        (TRAIN[:-1], "more bytes came instead of 11"),
        (TRAIN.upper(), "its sha256 is [0-9a-f]{64}"),
    ],
)
def test_another_content_is_thrown_away(site: str, tmp_path: Path, content: bytes, reason: str) -> None:
    good = tiny(site).files
    bad = remote(site, "train.txt", content)
    with pytest.raises(DataError, match=f"is not the file expected: {reason}; it was thrown away"):
        download((good[1], bad), tmp_path / "new" / "tiny")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_missing_file_a_closed_port_and_a_broken_connection_give_one_sentence(
    site: str, breaking_site: str, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}"
    for address, reason in (
        (f"{site}/none.txt", "the server answers 404 File not found"),
        (f"{closed}/train.txt", "Connection refused"),
        (f"{breaking_site}/train.txt", "the connection broke|only 10 bytes came instead of 100"),
    ):
        file = RemoteFile(address, "train.txt", 100, "0" * 64)
        with pytest.raises(DataError, match=reason) as caught:
            download([file], tmp_path / "new" / "tiny")
        assert "\n" not in str(caught.value)
        assert list((tmp_path / "new").iterdir()) == []


def test_a_failed_download_also_says_how_to_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "BENCHMARKS", (tiny("http://127.0.0.1:9"),))
    with pytest.raises(DataError, match=r"cannot be downloaded: .*; to do without the download, put train\.tsv"):
        load("tiny")


def test_another_run_that_was_faster_does_no_harm(site: str, tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "train.txt").write_bytes(TRAIN)
    download(tiny(site).files, tmp_path / "tiny")
    assert sorted(path.name for path in tmp_path.iterdir() if "tiny" in path.name) == ["tiny"]


def test_a_cache_that_cannot_be_written_is_an_output_error(site: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        download(tiny(site).files, tmp_path / "file" / "tiny")


def test_the_cache_folder_follows_the_xdg_rules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache" / "powerlink"
    monkeypatch.setenv("HOME", "/home/someone")
    for ignored in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache_folder() == Path("/home/someone/.cache/powerlink")
