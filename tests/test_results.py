"""The pages of docs/results say what the saved results say: none was edited by hand, none is out of date."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


def load(name: str) -> ModuleType:
    """Import a script of benchmarks/."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


WRITTEN = load("write_results").pages()


@pytest.mark.parametrize("page", WRITTEN)
def test_a_page_is_what_its_results_say(page: str) -> None:
    assert (ROOT / "docs" / "results" / page).read_text("utf-8") == WRITTEN[page]


def test_every_page_has_saved_results() -> None:
    assert {path.name for path in (ROOT / "docs" / "results").glob("*.md")} == set(WRITTEN)
