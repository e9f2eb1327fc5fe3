"""Help and errors do not wait for what only work needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import powerlink
from powerlink.cli.main import COMMANDS, command

PROBE = """
import json, sys
from powerlink.cli.main import main
try:
    main()
finally:
    heavy = [name for name in ("torch", "scipy", "numpy", "pyarrow", "matplotlib") if name in sys.modules]
    print("\\n" + json.dumps(heavy))
"""
QUICK = [
    [],
    ["--help"],
    ["--version"],
    ["nonsense"],
    *([name, "--help"] for name in COMMANDS),
    *([name, "--nonsense"] for name in COMMANDS),
    ["explain", "DIR"],
    ["explain", "DIR", "--split", "test", "--paths", "few"],
    ["explain", "DIR", "--split", "test", "--core", "-1"],
    *([name, "DIR"] for name in ("rank", "report")),
    ["explain", "DIR", "--split", "test"],
    ["predict", "DIR", "--relation", "r", "--head", "h"],
    ["fit", "DIR", "--out", "FILE"],
    ["compare", "DIR", "--out", "FILE"],
    ["truth", "DIR", "--known", "FILE"],
    ["evaluate", "DIR", "FILE"],
    ["report", "DIR", "FILE"],
]


@pytest.mark.parametrize("arguments", QUICK, ids=" ".join)
def test_help_and_errors_load_nothing_heavy(arguments, tmp_path):
    arguments = [{"DIR": str(tmp_path / "missing"), "FILE": str(tmp_path / "file")}.get(a, a) for a in arguments]
    done = subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [], done
    assert (done.returncode == 0) == (arguments[-1:] in (["--help"], ["--version"])), done
    if str(tmp_path / "missing") in arguments and done.stderr.find("there is no model") < 0:
        assert any(word in done.stderr for word in ("say what", "--paths", "--core")), done


def test_importing_powerlink_loads_nothing_heavy():
    probe = PROBE.replace("main()", "dir(powerlink)").replace("from powerlink.cli.main import main", "import powerlink")
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_tells_how_their_own_help_begins(name):
    assert " ".join(command(name).help.split()).startswith(COMMANDS[name])


def test_what_can_be_named_is_what_is_promised():
    assert set(powerlink.__all__) <= set(dir(powerlink))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = powerlink.nonsense
