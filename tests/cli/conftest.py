"""The command line in this process, and a model of four families that trains in a second."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command_line import FAMILIES, Outcome, Powerlink, call_once, write_tables

from powerlink.cli.main import main


@pytest.fixture
def powerlink(monkeypatch, capfd) -> Powerlink:
    """Call the command line as a shell would; a traceback fails the test by itself."""

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["powerlink", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capfd.readouterr()
        return Outcome(int(stop.value.code or 0), printed.out, printed.err)

    return call


@pytest.fixture
def refused(powerlink) -> Powerlink:
    """Call a command that must be refused: one sentence on standard error, nothing else, and a code that is not 0."""

    def call(*arguments: object) -> Outcome:
        outcome = powerlink(*arguments)
        assert outcome.code in (1, 2), outcome
        assert outcome.err.startswith("powerlink: "), outcome
        assert outcome.err.count("\n") == 1, outcome
        assert outcome.out == "", outcome
        return outcome

    return call


@pytest.fixture(scope="session")
def families(tmp_path_factory) -> Path:
    return write_tables(tmp_path_factory.mktemp("data") / "families", FAMILIES)


@pytest.fixture(scope="session")
def model(families, tmp_path_factory) -> Path:
    """A model folder, trained once. Tests that damage it work on a copy."""
    folder = tmp_path_factory.mktemp("models") / "families"
    call_once("train", "--data", families, "--epochs", 40, "--dim", 20, "--lr", 0.02, "--out", folder)
    return folder


@pytest.fixture(scope="session")
def explanations(model, tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("explanations") / "explanations.jsonl"
    call_once("explain", model, "--split", "test", "--out", file)
    return file
