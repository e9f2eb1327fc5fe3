"""A form of report is one value in a catalog, ours or another package's."""

from __future__ import annotations

from pathlib import Path

import pytest

from powerlink.errors import UnknownNameError
from powerlink.explanation import Explanation
from powerlink.report import show
from powerlink.report.schema import read_explanations


def test_the_end_of_the_name_says_the_form(france: Explanation, tmp_path: Path) -> None:
    for name, form in show.FORMATS.items():
        path = tmp_path / f"report{name}"
        form.write([france], path, "a title")
        assert form.is_ours(path)
        assert [other.is_ours(path) for other in show.FORMATS.values()].count(True) == 1
    assert read_explanations(tmp_path / "report.jsonl") == [france]
    with pytest.raises(UnknownNameError, match=r"no form of a report named '\.htm'; did you mean '\.html'"):
        show.format_of(tmp_path / "report.htm")
    assert show.format_of(tmp_path / "report") is show.FORMATS[".html"]


def test_another_package_adds_a_form_by_one_value(
    france: Explanation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(explanations, path, title):
        path.write_text("".join(f"# {title}: {e.query.head} → {e.query.tail}\n" for e in explanations), "utf-8")

    mine = show.Format(".md", write, lambda path: path.read_text("utf-8").startswith("# "))
    monkeypatch.setattr(show, "_registered", lambda: {".md": mine})
    show.format_of(tmp_path / "r.md").write([france], tmp_path / "r.md", "why")
    assert (tmp_path / "r.md").read_text("utf-8") == "# why: France → Europe\n"
