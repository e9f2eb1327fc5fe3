from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from powerlink.errors import OutputError
from powerlink.run import claim
from powerlink.run.claim import claimed

pytestmark = pytest.mark.skipif(claim.fcntl is None, reason="this system has no file locks")

HOLDER = """
import sys, time
from pathlib import Path
from powerlink.run.claim import claimed
with claimed(Path(sys.argv[1]), folder=sys.argv[2] == "folder"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("folder", [True, False])
def test_a_second_run_is_refused_until_the_first_is_done(tmp_path, folder):
    path = tmp_path / "not" / "there"
    with claimed(path, folder=folder):
        assert path.is_dir() == folder
        with pytest.raises(OutputError, match=f"another run is writing {path}: wait"), claimed(path, folder=folder):
            pytest.fail("both were let in")
    with claimed(path, folder=folder):
        pass


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_killed_run_holds_nothing(tmp_path, kind):
    path = tmp_path / "out"
    command = [sys.executable, "-c", HOLDER, str(path), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "held\n"
            with pytest.raises(OutputError), claimed(path, folder=kind == "folder"):
                pytest.fail("both were let in")
        finally:
            other.send_signal(signal.SIGKILL)
    with claimed(path, folder=kind == "folder"):
        pass


def test_what_fails_before_it_wrote_leaves_no_empty_folder_of_its_own(tmp_path):
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    theirs.mkdir()
    for folder in (mine, theirs):
        with pytest.raises(RuntimeError), claimed(folder, folder=True):
            raise RuntimeError
    assert (mine.exists(), theirs.exists()) == (False, True)
    with claimed(mine, folder=True):
        (mine / "model.json").touch()
    assert (mine / "model.json").exists()


def test_what_cannot_be_held_is_left_to_those_who_write(tmp_path):
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    file.touch()
    for path, folder in ((pipe, False), (file, True), (tmp_path, False), (file / "below", False), (file / "in", True)):
        with claimed(path, folder=folder), claimed(path, folder=folder):
            pass


def test_a_place_that_was_taken_away_between_opening_and_locking_is_made_again(tmp_path, monkeypatch):
    path, real, opened = tmp_path / "out", claim._open, []

    def unlucky(place, *, folder):
        opened.append(real(place, folder=folder))
        if len(opened) == 1:
            path.rmdir()
        return opened[-1]

    monkeypatch.setattr(claim, "_open", unlucky)
    with claimed(path, folder=True):
        assert len(opened) == 2
        assert path.is_dir()
        with pytest.raises(OutputError), claimed(path, folder=True):
            pytest.fail("both were let in")
        assert path.is_dir(), "who was refused takes nothing away"
    assert not path.exists()


def test_who_was_refused_does_not_take_the_others_empty_folder_away(tmp_path, monkeypatch):
    path = tmp_path / "out"
    with claimed(path, folder=True):
        with monkeypatch.context() as patch:
            patch.setattr(type(path), "exists", lambda self: False)  # it looked before the other had made it
            with pytest.raises(OutputError), claimed(path, folder=True):
                pytest.fail("both were let in")
        assert path.is_dir()
