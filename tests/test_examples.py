"""Every script of examples/ runs, is short, and does what it says."""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path

import pytest

import powerlink

EXAMPLES = Path(__file__).parent.parent / "examples"
PROMISES = {  # script → what it prints, and what it leaves behind
    "quickstart": (["Kenya ─in_continent→ Africa", "path 1"], ["model/model.json", "report.html"]),
    "own_model": (["without Ben the score falls by 1.0", "without Cleo the score falls by 1.0"], []),
    "pyg_model": (["Encoder-DistMult, recomputed MRR", "path 1"], []),
    "pyg_explainer": (["Kenya →", "fid+ and fid−"], []),
    "pykeen_model": (["CompGCN-DistMult", "path 1"], ["result/trained_model.pkl"]),
    "own_explainer": (["rare-relations", "gradient", "random"], []),
    "many_queries": (["10 queries", "HΔR:1", "F+"], ["explanations.jsonl", "report.html", "figure.png"]),
}


def run(name: str, out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(out)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(out)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_every_example_is_run_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PROMISES)


@pytest.mark.parametrize("name", PROMISES)
def test_it_runs_and_keeps_its_promise(name, tmp_path, capsys, monkeypatch):
    if name.startswith("pykeen"):
        pytest.importorskip("pykeen", reason="PyKEEN is not installed")
        warnings.simplefilter("ignore")  # PyKEEN's own
    said = run(name, tmp_path, capsys, monkeypatch)
    printed, written = PROMISES[name]
    for part in printed:
        assert part in said
    for file in written:
        assert (tmp_path / file).stat().st_size > 0
        if file.endswith(".jsonl"):
            explanations = powerlink.read_explanations(tmp_path / file)
            assert len({explanation.query for explanation in explanations}) == 10
            assert any(explanation.paths for explanation in explanations)


@pytest.mark.parametrize("name", PROMISES)
def test_it_is_short_and_says_how_to_run_it(name):
    text = (EXAMPLES / f"{name}.py").read_text("utf-8")
    assert len(text.splitlines()) < 60
    assert f"python examples/{name}.py" in text
