"""What tests of the command line share: what a command leaves behind, and a small world to try it on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from powerlink.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Everything that was printed, with every run of white space as one blank: lines fold where they like."""
        return " ".join((self.out + " " + self.err).split())


Powerlink = Callable[..., Outcome]


def call_once(*arguments: object) -> None:
    """Call a command that must succeed, outside of any test."""
    before = sys.argv
    sys.argv = ["powerlink", *map(str, arguments)]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, arguments  # noqa: PT017
    finally:
        sys.argv = before


FAMILIES = {
    "train": [
        (f"{role}{i}", relation, f"{other}{i}")
        for i in range(4)
        for role, relation, other in (
            ("Anna", "mother_of", "Ben"),
            ("Carl", "father_of", "Ben"),
            ("Anna", "married_to", "Carl"),
            ("Ben", "lives_in", "Town"),
            ("Anna", "lives_in", "Town"),
            ("Anna", "mother_of", "Ève"),
            ("Ève", "sister_of", "Ben"),
        )
    ],
    "valid": [(f"Ève{i}", "lives_in", f"Town{i}") for i in range(4)],
    "test": [(f"Carl{i}", "lives_in", f"Town{i}") for i in range(4)]
    + [(f"Carl{i}", "father_of", f"Ève{i}") for i in range(4)],
}


def write_tables(folder: Path, splits: dict[str, list[tuple[str, str, str]]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in splits.items():
        (folder / f"{split}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return folder
