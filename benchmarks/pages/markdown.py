"""What every page is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Result = dict[str, Any]


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; the first column is text, the others are numbers."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def origin(result: Result) -> str:
    """Say what made the figures."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return f"Made by `{result['command']}`, {result['machine']}, {result['date']} ({versions})."


def in_words(own: Result) -> str:
    """Return settings as a phrase."""
    return ", ".join(f"{name} {value:g}" for name, value in own.items()) or "defaults"


def saved_as(folder: Path, *names: str) -> list[Result]:
    """Read those of some files of results that are there."""
    return [json.loads((folder / name).read_text("utf-8")) for name in names if (folder / name).is_file()]
