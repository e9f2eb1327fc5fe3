"""Showing explanations: in the terminal, or as a page on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from powerlink.atomic_file import write_atomically
from powerlink.explanation import Explanation
from powerlink.report.html import render_page
from powerlink.report.schema import to_json
from powerlink.report.text import print_explanations


def show(explanations: Explanation | Sequence[Explanation]) -> None:
    """Print one or several explanations as cards."""
    print_explanations(Console(), [explanations] if isinstance(explanations, Explanation) else explanations)


def write_page(explanations: Sequence[Explanation], path: str | Path, title: str = "Explanations") -> None:
    """Write one self-contained HTML page."""
    write_atomically(Path(path), render_page(explanations, title).encode())


def write_explanations(explanations: Sequence[Explanation], path: str | Path) -> None:
    """Write explanations as JSON Lines, one a line; `read_explanations` reads them back without loss."""
    write_atomically(Path(path), "".join(to_json(e) + "\n" for e in explanations).encode())
