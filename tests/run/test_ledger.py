"""The ledger: complete lines are kept, half a line is cut off, and a stranger's file is left alone."""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import pytest

from powerlink.errors import DataError, MismatchError, OutputError
from powerlink.explanation import Explanation, MadeBy, Query, Status
from powerlink.report.schema import read_explanations, to_json
from powerlink.run.ledger import Ledger

MADE_BY = MadeBy("power-link", {"cost": None}, {"steps": 50}, 0, "graph", "compgcn-distmult", "hash", {"torch": "2.13"})
EXPLANATIONS = [
    Explanation(Query(f"Ève {i} 😀", "lives_in", "São Tomé"), Status.NO_PATH, -1.5, 3.0, made_by=MADE_BY)
    for i in range(4)
]


def test_what_was_appended_is_there_for_the_next_run(tmp_path):
    path = tmp_path / "new" / "folder" / "f.jsonl"
    ledger = Ledger(path, MADE_BY)
    assert ledger.done == {}
    ledger.append(EXPLANATIONS[:1])
    ledger.append(EXPLANATIONS[1:3])
    again = Ledger(path, MADE_BY)
    assert list(again.done.values()) == EXPLANATIONS[:3]
    again.append(EXPLANATIONS[3:])
    assert read_explanations(path) == EXPLANATIONS


def test_a_file_cut_at_any_byte_keeps_its_complete_lines(tmp_path):
    path = tmp_path / "f.jsonl"
    lines = [(to_json(e) + "\n").encode() for e in EXPLANATIONS[:2]]
    whole = b"".join(lines)
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        ledger = Ledger(path, MADE_BY)
        kept = whole[:end].count(b"\n")
        assert list(ledger.done.values()) == EXPLANATIONS[:kept]
        assert path.read_bytes() == b"".join(lines[:kept])


@pytest.mark.parametrize("content", [b"hello", b"{", b'{"schema": 1', b"x" * 1000, b'{"other": 1}'])
def test_only_half_a_line_of_ours_is_cut_off(tmp_path, content):
    path = tmp_path / "f.jsonl"
    path.write_bytes(content)
    if content.startswith(b'{"s') or content == b"{":
        Ledger(path, MADE_BY)
        assert path.read_bytes() == b""
    else:
        with pytest.raises(DataError, match="no explanation"):
            Ledger(path, MADE_BY)
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"explainer": "random"}, r"another explainer \(power-link, now random\)"),
        ({"explainer_settings": {"steps": 9}}, r"another steps \(50, now 9\)"),
        ({"settings": {"cost": None, "new": 1}}, r"another new \(None, now 1\)"),
        ({"seed": 1}, r"another seed \(0, now 1\)"),
        ({"graph": "x"}, "another graph"),
        ({"model_hash": "x"}, r"another model \(hash, now x\)"),
    ],
)
def test_explanations_of_another_origin_are_not_mixed(tmp_path, change, said):
    path = tmp_path / "f.jsonl"
    Ledger(path, MADE_BY).append(EXPLANATIONS)
    before = path.read_bytes()
    with pytest.raises(MismatchError, match=said):
        Ledger(path, replace(MADE_BY, **change))
    assert path.read_bytes() == before


def test_other_versions_may_go_on(tmp_path):
    path = tmp_path / "f.jsonl"
    Ledger(path, MADE_BY).append(EXPLANATIONS)
    assert len(Ledger(path, replace(MADE_BY, versions={"torch": "3"})).done) == 4


def test_a_disk_that_fills_up_is_told_and_costs_nothing_before(tmp_path, monkeypatch):
    path = tmp_path / "f.jsonl"
    ledger = Ledger(path, MADE_BY)
    ledger.append(EXPLANATIONS[:2])

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match="No space left on device; the 2 explanations before are safe"):
            ledger.append(EXPLANATIONS[2:3])
    again = Ledger(path, MADE_BY)
    assert set(again.done) >= {e.query for e in EXPLANATIONS[:2]}


def test_an_output_that_cannot_be_written_is_told_at_once(tmp_path):
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path, tmp_path / "file" / "below.jsonl"):
        with pytest.raises(OutputError, match="cannot write"):
            Ledger(path, MADE_BY)
