"""Showing explanations: in the terminal, or in a file whose name's end says in what form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from rich.console import Console

from powerlink.atomic_file import write_atomically
from powerlink.errors import OutputError, UnknownNameError
from powerlink.explanation import Explanation
from powerlink.report.html import render_page
from powerlink.report.schema import to_json
from powerlink.report.text import print_explanations

GROUP = "powerlink.formats"  # the entry-point group in which other packages register a Format


@dataclass(frozen=True)
class Format:
    """How explanations are written to a file, and how such a file is known again before it is replaced."""

    suffix: str
    write: Callable[[Sequence[Explanation], Path, str], None]  # explanations, file, title
    is_ours: Callable[[Path], bool]


def show(explanations: Explanation | Sequence[Explanation]) -> None:
    """Print one or several explanations as cards."""
    print_explanations(Console(), [explanations] if isinstance(explanations, Explanation) else explanations)


def write_page(explanations: Sequence[Explanation], path: str | Path, title: str = "Explanations") -> None:
    """Write one self-contained HTML page."""
    write_atomically(Path(path), render_page(explanations, title).encode())


def write_explanations(explanations: Sequence[Explanation], path: str | Path, title: str = "") -> None:
    """Write explanations as JSON Lines, one a line; `read_explanations` reads them back without loss."""
    write_atomically(Path(path), "".join(to_json(e) + "\n" for e in explanations).encode())


def _begins(path: Path, start: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(start)) == start


FORMATS = {
    form.suffix: form
    for form in (
        Format(".html", write_page, lambda path: b'<body class="powerlink' in path.read_bytes()),
        Format(".jsonl", write_explanations, lambda path: _begins(path, b'{"schema":')),
    )
}


def format_of(path: Path) -> Format:
    """Find the form a file's name asks for; one that asks for nothing gets a page."""
    wanted = path.suffix or ".html"
    if wanted in FORMATS:  # then no stranger's code is loaded
        return FORMATS[wanted]
    known = {**_registered(), **FORMATS}
    if wanted not in known:
        raise UnknownNameError("form of a report", wanted, known)
    return known[wanted]


@cache
def _registered() -> dict[str, Format]:
    found = {}
    for point in entry_points(group=GROUP):
        try:
            form = point.load()
        except Exception as error:  # whatever a stranger's import may raise
            raise OutputError(f"the form {point.name} ({point.value}) cannot be loaded: {error}") from error
        if not isinstance(form, Format):
            raise OutputError(f"the form {point.name} ({point.value}) is no powerlink.report.show.Format")
        found[form.suffix] = form
    return found
