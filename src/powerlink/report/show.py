"""Showing explanations: in the terminal, or as a page on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from powerlink.errors import OutputError
from powerlink.explanation import Explanation
from powerlink.report.html import render_page
from powerlink.report.text import print_explanations


def show(explanations: Explanation | Sequence[Explanation]) -> None:
    """Print one or several explanations as cards."""
    print_explanations(Console(), [explanations] if isinstance(explanations, Explanation) else explanations)


def write_page(explanations: Sequence[Explanation], path: str | Path, title: str = "Explanations") -> None:
    """Write one self-contained HTML page."""
    path = Path(path)
    page = render_page(explanations, title)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
