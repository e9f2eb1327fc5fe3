"""Reading a user's files: every format gives the same graph, and every bad file gives one clear sentence."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powerlink.errors import DataError
from powerlink.kg import tables
from powerlink.kg.cleaning import clean, fact_keys
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.kg.readers import read_graph

ROWS = [
    ("Oslo", "capital of", "Norway"),
    ('"quoted"', "<script>alert(1)</script>", "a,b"),
    ("🦉 owl", "مرحبا", "NULL"),
    ("Norway", "borders", "Sweden"),
    ("naïve\u2028name", "borders", "NA"),
]


def tsv(rows: list[tuple[str, str, str]]) -> bytes:
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def csv_text(rows: list[tuple[str, str, str]]) -> bytes:
    quoted = [",".join('"' + field.replace('"', '""') + '"' for field in row) for row in rows]
    return ("\n".join(quoted) + "\n").encode()


def parquet(rows: Sequence[tuple[str, ...]], columns: tuple[str, ...] = ("head", "relation", "tail")) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({name: [row[i] for row in rows] for i, name in enumerate(columns)}), sink)
    return bytes(sink.getvalue())


def named(kg: KnowledgeGraph, split: str = "train") -> list[tuple[str, str, str]]:
    entities, relations = kg.entities.ids, kg.relations.ids
    return [(entities[h], relations[r], entities[t]) for h, r, t in kg.facts(split)]  # type: ignore[arg-type]


def folder_with(tmp_path: Path, **files: bytes) -> Path:
    """Write files named by keyword, with `_` for the dot: train_tsv=b'…'."""
    for name, content in files.items():
        (tmp_path / name.replace("_", ".")).write_bytes(content)
    return tmp_path


WRITERS: dict[str, Callable[[list[tuple[str, str, str]]], bytes]] = {
    "tsv": tsv,
    "txt": tsv,
    "csv": csv_text,
    "parquet": parquet,
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_gives_the_same_facts_with_any_name_unharmed(tmp_path: Path, kind: str, packed: bool) -> None:
    content = WRITERS[kind](ROWS)
    file = tmp_path / f"train.{kind}{'.gz' if packed else ''}"
    file.write_bytes(gzip.compress(content) if packed else content)
    kg = read_graph(tmp_path)
    assert named(kg) == ROWS
    assert kg.entities.ids == tuple(sorted({name for h, _, t in ROWS for name in (h, t)}))
    assert kg.relations.ids == tuple(sorted({r for _, r, _ in ROWS}))
    assert kg.name == tmp_path.name
    assert kg.notes == ()
    assert len(kg.valid) == len(kg.test) == 0


names = st.text(st.characters(codec="utf-8", exclude_characters="\t\r\n"), min_size=1, max_size=8)
rows = st.lists(st.tuples(names, names, names), min_size=1, max_size=30)


@settings(deadline=None, max_examples=60)
@given(rows=rows)
def test_any_names_survive_a_tsv_a_csv_and_a_parquet_file(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    expected = KnowledgeGraph.from_names("g", {"train": rows})
    for kind in ("tsv", "csv", "parquet"):
        folder = tmp_path_factory.mktemp("graph")
        # A header keeps the first row from being taken for one; a BOM is part of no name at the start of a file.
        header = {"csv": b"head,relation,tail\n", "tsv": b"\xef\xbb\xbf"}.get(kind, b"")
        (folder / f"train.{kind}").write_bytes(header + WRITERS[kind](rows))
        assert read_graph(folder).fingerprint == expected.fingerprint


def test_indices_do_not_depend_on_the_order_of_lines(tmp_path: Path) -> None:
    lines = [(f"e{i % 7}", f"r{i % 3}", f"e{i % 5}") for i in range(100)]
    shuffled = random.Random(0).sample(lines, len(lines))
    (tmp_path / "one.tsv").write_bytes(tsv(lines))
    (tmp_path / "two.tsv").write_bytes(tsv(shuffled))
    one, two = read_graph(tmp_path / "one.tsv"), read_graph(tmp_path / "two.tsv")
    assert one.fingerprint == two.fingerprint  # a single file is split by its facts, not by its lines


def test_crlf_a_bom_blank_lines_at_the_end_and_a_missing_last_line_end_are_tolerated(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + tsv(ROWS).replace(b"\n", b"\r\n")
    for name, data in (("crlf", content + b"\r\n\r\n"), ("open", content.rstrip(b"\r\n"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.tsv").write_bytes(data)
        assert named(read_graph(tmp_path / name)) == ROWS


@pytest.mark.parametrize("text", ["a r b\nb r c\n", "a  r   b \n b\tr c\n", "a r b\r\nb  r c"])
def test_a_txt_without_a_tab_is_separated_by_blanks(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.txt").write_text(text, newline="")
    assert named(read_graph(tmp_path)) == [("a", "r", "b"), ("b", "r", "c")]


def test_a_txt_with_a_tab_keeps_its_blanks(tmp_path: Path) -> None:
    assert named(read_graph(folder_with(tmp_path, train_txt=b"New York\tis in\tthe USA\n"))) == [
        ("New York", "is in", "the USA")
    ]


@pytest.mark.parametrize(
    "header", ["head,relation,tail", "Subject,Predicate,Object", "source,relation,target", '"head","relation","tail"']
)
def test_a_csv_header_is_recognised(tmp_path: Path, header: str) -> None:
    (tmp_path / "train.csv").write_text(f"{header}\na,r,b\n")
    assert named(read_graph(tmp_path)) == [("a", "r", "b")]


def test_columns_with_a_header_may_stand_in_any_order_and_beside_others(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("weight,tail,head,relation\n0.5,b,a,r\n")
    (tmp_path / "valid.parquet").write_bytes(
        parquet([("x", "b", "r", "c")], ("note", "object", "predicate", "subject"))
    )
    kg = read_graph(tmp_path)
    assert named(kg) == [("a", "r", "b")]
    assert named(kg, "valid") == [("c", "r", "b")]


def test_parquet_without_known_names_uses_the_first_three_columns_and_takes_numbers(tmp_path: Path) -> None:
    table = pa.table(
        {
            "x": [1, 20],
            "y": pa.array(["r", "r"]).dictionary_encode(),
            "z": pa.array(["b", "c"], pa.large_string()),
            "w": [0, 0],
        }
    )
    pq.write_table(table, tmp_path / "train.parquet")
    assert named(read_graph(tmp_path)) == [("1", "r", "b"), ("20", "r", "c")]


def test_a_csv_name_may_hold_a_line_break(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text('"two\nlines",r,b\n')
    assert named(read_graph(tmp_path)) == [("two\nlines", "r", "b")]


@pytest.mark.parametrize("stem", ["valid", "validation", "dev", "Valid"])
def test_the_valid_file_has_several_names(tmp_path: Path, stem: str) -> None:
    (tmp_path / "train.tsv").write_text("a\tr\tb\n")
    (tmp_path / f"{stem}.tsv").write_text("b\tr\ta\n")
    assert named(read_graph(tmp_path), "valid") == [("b", "r", "a")]


def test_labels_come_from_entities_and_relations(tmp_path: Path) -> None:
    folder_with(
        tmp_path,
        train_tsv=b"m1\tr1\tm2\nm2\tr1\tm3\n",
        entities_tsv=b"m1\tEl Paso\tignored\nm2\t<b>Oslo</b>\tignored\nm9\tnobody\tx\nm1\tagain\tx\nm3\t\tx\n",
        relations_csv=b'id,label,more\nr1,"is, in",x\n',
    )
    kg = read_graph(tmp_path)
    assert kg.entities.shown == ("El Paso", "<b>Oslo</b>", "m3")
    assert kg.relations.shown == ("is, in",)
    assert kg.notes == (
        "entities.tsv: labels of no entity of the graph, left out: 1",
        "entities.tsv: second labels of the same entity, left out: 1",
    )


def test_labels_of_a_txt_without_tabs_keep_their_blanks(tmp_path: Path) -> None:
    kg = read_graph(folder_with(tmp_path, train_tsv=b"m1\tr\tm2\n", entities_txt=b"m1 El Paso\nm2  New  York\n"))
    assert kg.entities.shown == ("El Paso", "New  York")


def test_notes_say_what_was_merged_dropped_and_kept(tmp_path: Path) -> None:
    folder_with(
        tmp_path,
        train_tsv=b"a\tr\tb\na\tr\tb\na\tr\tb\nc\tr\tc\n",
        valid_tsv=b"a\tr\tb\nb\tr\ta\nb\tr\ta\n",
        test_tsv=b"b\tr\ta\nb\tr\tnew\nb\ts\ta\nx\tr\ty\n",
    )
    kg = read_graph(tmp_path)
    assert named(kg) == [("a", "r", "b"), ("c", "r", "c")]
    assert named(kg, "valid") == [("b", "r", "a")]
    assert len(kg.test) == 4
    assert kg.notes == (
        "train.tsv: 2 duplicate facts were merged",
        "valid.tsv: 1 duplicate fact was merged",
        "valid.tsv: 1 fact that also stands in train was dropped",
        "train.tsv: 1 fact with the same head and tail was kept",
        "test.tsv: 3 entities stand in no train fact; 2 facts with them were kept",
        "test.tsv: 1 relation stands in no train fact; 1 fact with it was kept",
        "test.tsv: 1 fact that also stands in valid was kept",
    )


def test_a_tsv_that_seems_to_have_a_header_says_so(tmp_path: Path) -> None:
    kg = read_graph(folder_with(tmp_path, train_tsv=b"head\trelation\ttail\na\tr\tb\n"))
    assert kg.notes == ("train.tsv: the first line (head, relation, tail) looks like a header and was read as a fact",)


def test_keys_order_facts_even_when_64_bits_are_short() -> None:
    huge = 2**40
    facts = np.array([[huge, 7, 1], [0, 3, huge], [huge, 7, 0], [huge, 7, 1]], dtype=np.int64)
    keys = fact_keys(facts)
    assert keys[0] == keys[3]
    assert [int(i) for i in np.argsort(keys, kind="stable")] == [1, 2, 0, 3]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 4)), min_size=1),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 4))),
)
def test_cleaning_does_what_sets_do(train: list[tuple[int, ...]], valid: list[tuple[int, ...]]) -> None:
    arrays = {
        name: np.array(rows, dtype=np.int64).reshape(-1, 3) for name, rows in (("train", train), ("valid", valid))
    }
    cleaned, _ = clean(arrays, {"train": "t", "valid": "v"})  # type: ignore[arg-type]
    assert [tuple(row) for row in cleaned["train"]] == list(dict.fromkeys(train))
    assert [tuple(row) for row in cleaned["valid"]] == [row for row in dict.fromkeys(valid) if row not in set(train)]


BAD_TEXT = {
    "too few columns": ("train.tsv", b"a\tr\tb\na\tr\n", "line 2: 2 columns found in 'a\\tr'; expected 3 col"),
    "too many columns": ("train.tsv", b"a\tr\tb\n" * 9 + b"a\tr\tb\tc\n", "train.tsv, line 10: 4 columns found"),
    "spaces in a tsv": ("train.tsv", b"a r b\n", "line 1: 1 column found in 'a r b'"),
    "four words": ("train.txt", b"a r b\nNew York in USA\n", "line 2: 4 columns found in 'New\\tYork\\tin\\tUSA'"),
    "no head": ("train.tsv", b"a\tr\tb\n\tr\tb\n", "line 2: head is missing; expected 3 columns"),
    "no tail": ("train.csv", b"tail,head,relation\nx,y,z\n,a,r\n", "line 3: tail is missing"),
    "blank line": ("train.tsv", b"a\tr\tb\n\na\tr\tb\n", "line 2: the line is blank"),
    "blank csv line": ("train.csv", b"a,r,b\n\na,r,c\n", "line 2: the line is blank"),
    "latin-1": ("train.tsv", b"a\tr\tb\r\ncaf\xe9\tr\tb\r\n", "line 2: byte 0xe9 is not UTF-8; expected UTF-8 text"),
    "latin-1 csv": ("train.csv", b"caf\xe9,r,b\n", "line 1: byte 0xe9 is not UTF-8"),
    "utf-16": ("train.tsv", "a\tr\tb\n".encode("utf-16"), "line 1: byte 0xff is not UTF-8"),
    "after a multi-line field": ("train.csv", b'"x\ny",r,b\na,r\n', "line 3: 2 columns found in 'a,r'"),
    "open quote": ("train.csv", b'a,r,b\na,"r,b\n', "line 2: 2 columns found"),
    "empty": ("train.tsv", b"", "train.tsv is empty; expected lines of 3 columns"),
    "only line ends": ("train.tsv", b"\n\r\n\n", "train.tsv is empty"),
    "empty parquet": ("train.parquet", b"", "train.parquet is empty"),
    "only a header": ("train.csv", b"head,relation,tail\n", "train.csv holds no facts"),
    "no parquet": ("train.parquet", b"PAR1 certainly not", "train.parquet is not a whole parquet file"),
    "no gzip": ("train.tsv.gz", b"a\tr\tb\n", "train.tsv.gz is not a whole gzip file"),
    "truncated gzip": ("train.tsv.gz", gzip.compress(tsv(ROWS) * 50)[:-20], "train.tsv.gz is not a whole gzip file"),
    "long line": ("train.tsv", b"x" * 500 + b"\n", "x…'; expected"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TEXT)
def test_a_bad_file_gives_one_sentence_with_file_and_line(tmp_path: Path, case: str) -> None:
    name, content, expected = BAD_TEXT[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_graph(tmp_path)
    message = str(caught.value)
    assert expected in message
    assert str(tmp_path / name) in message
    assert "\n" not in message


@settings(deadline=None, max_examples=80)
@given(content=st.binary(max_size=200), kind=st.sampled_from(["tsv", "txt", "csv", "parquet", "tsv.gz"]))
def test_arbitrary_bytes_give_a_graph_or_a_data_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, kind: str
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / f"train.{kind}").write_bytes(content)
    with contextlib.suppress(DataError):  # any other exception fails the test
        assert len(read_graph(folder).train)


def test_damaged_parquet_gives_a_graph_or_a_data_error(tmp_path: Path) -> None:
    whole = parquet(ROWS * 3)
    chance = random.Random(0)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        (tmp_path / "train.parquet").write_bytes(damaged)
        with contextlib.suppress(DataError):  # any other exception fails the test
            read_graph(tmp_path)


def test_a_bad_valid_file_and_a_bad_label_file_are_named(tmp_path: Path) -> None:
    folder_with(tmp_path, train_tsv=b"a\tr\tb\n", valid_tsv=b"a\n")
    with pytest.raises(DataError, match=r"valid\.tsv, line 1: 1 column found"):
        read_graph(tmp_path)
    (tmp_path / "valid.tsv").unlink()
    (tmp_path / "entities.tsv").write_bytes(b"a\tA\tx\nb\tB\n")
    with pytest.raises(
        DataError, match=r"entities\.tsv, line 2: 2 columns found .*; expected 3 columns, as in the first"
    ):
        read_graph(tmp_path)
    (tmp_path / "entities.tsv").write_bytes(b"a\n")
    with pytest.raises(
        DataError, match=r"entities\.tsv, line 1: 1 column found in 'a'; expected 2 columns \(id, label\)"
    ):
        read_graph(tmp_path)


def test_parquet_with_too_few_columns_odd_types_or_missing_values(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "train.parquet")
    with pytest.raises(DataError, match=r"has 1 columns \(a\); expected 3 columns"):
        read_graph(tmp_path)
    pq.write_table(pa.table({"h": [["x"]], "r": ["r"], "t": ["t"]}), tmp_path / "train.parquet")
    with pytest.raises(DataError, match="column 'h' of type list"):
        read_graph(tmp_path)
    pq.write_table(pa.table({"h": ["a", None], "r": ["r", "r"], "t": ["t", "t"]}), tmp_path / "train.parquet")
    with pytest.raises(DataError, match=r"train\.parquet, row 2: head is missing"):
        read_graph(tmp_path)


def test_a_missing_path_names_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("a\tr\tb\n")
    with pytest.raises(DataError, match=r"there is no file or folder .*fact\.tsv; did you mean .*facts\.tsv\?"):
        read_graph(tmp_path / "fact.tsv")
    with pytest.raises(DataError, match="there is no file or folder"):
        read_graph(tmp_path / "no" / "such" / "folder")
    with pytest.raises(DataError, match="there is no file or folder"):
        read_graph(tmp_path / ("x" * 5000))


def test_a_folder_without_train_says_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no train file: expected train\.tsv .*; found nothing"):
        read_graph(tmp_path)
    folder_with(tmp_path, test_tsv=b"a\tr\tb\n", notes_md=b"")
    with pytest.raises(DataError, match=r"found notes\.md, test\.tsv"):
        read_graph(tmp_path)


def test_two_files_for_one_split_are_not_guessed_between(tmp_path: Path) -> None:
    folder_with(tmp_path, train_tsv=b"a\tr\tb\n", valid_tsv=b"a\tr\tb\n", dev_csv=b"a,r,b\n")
    with pytest.raises(DataError, match=r"holds dev\.csv and valid\.tsv; expected one file of valid"):
        read_graph(tmp_path)


def test_an_unknown_format_says_which_are_read(tmp_path: Path) -> None:
    (tmp_path / "facts.xlsx").write_bytes(b"x")
    with pytest.raises(DataError, match=r"facts\.xlsx .*expected \.tsv, \.txt, \.csv, \.parquet, \.nt, \.ttl"):
        read_graph(tmp_path / "facts.xlsx")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_rights_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a\tr\tb\n")
    (tmp_path / "train.tsv").chmod(0)
    with pytest.raises(DataError, match=r"train\.tsv cannot be read: Permission denied"):
        read_graph(tmp_path)


def test_a_single_file_is_split_by_the_seed(tmp_path: Path) -> None:
    facts = [(f"e{i % 20}", f"r{i % 4}", f"e{(i * 7) % 33}") for i in range(400)]
    (tmp_path / "my.facts.tsv").write_bytes(tsv(facts))
    first, again, other = (read_graph(tmp_path / "my.facts.tsv", seed=seed) for seed in (1, 1, 2))
    assert first.name == "my"
    assert first.fingerprint == again.fingerprint != other.fingerprint
    distinct = len(set(facts))
    assert len(first.all_facts) == distinct
    assert len(first.valid) == len(first.test) == round(distinct / 10)
    assert first.notes[-1] == (
        f"my.facts.tsv: split by seed 1 into {len(first.train)} train, {len(first.valid)} valid, "
        f"{len(first.test)} test facts"
    )


def test_a_file_of_many_blocks_gives_all_its_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_BLOCK", 4096)  # each block brings a dictionary of its own
    facts = np.random.default_rng(0).integers(0, [900, 50, 900], (20_000, 3)).tolist()
    rows = [(f"e{h:04}", f"relation {r:02}", f"e{t:04}") for h, r, t in facts]
    (tmp_path / "train.tsv").write_bytes(tsv(rows))
    assert named(read_graph(tmp_path)) == list(dict.fromkeys(rows))


def test_a_line_longer_than_a_block_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_BLOCK", 1 << 20)
    (tmp_path / "train.tsv").write_bytes(b"a\tr\t" + b"x" * (3 << 20) + b"\na\tr\tb\n")
    with pytest.raises(DataError, match="a line is longer than 1 MB"):
        read_graph(tmp_path)
