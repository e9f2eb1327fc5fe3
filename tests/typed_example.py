"""A folder of typed nodes and edges, small enough to know everything about it by heart.

a and b both bought 1, and b bought 2, so a likes 2; 1 and 3 share x, so both like 3. c and 4 are isolated.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(os.environ.get("POWERLINK_DATA") or Path(__file__).parents[2] / "shared" / "datasets") / "UserItemAttr"
needs_user_item_attr = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"there is no {SHARED}; POWERLINK_DATA can name the folder around it"
)

Step = tuple[str, str, str, str, str]
BUYS = [("a", "1"), ("b", "1"), ("b", "2")]
HAS = [("1", "x"), ("3", "x")]
LIKES = [("a", "2"), ("a", "3"), ("b", "3")]


def buys(user: str, item: str) -> Step:
    return ("user", user, "buys", "item", item)


def bought_by(item: str, user: str) -> Step:
    return ("item", item, "bought_by", "user", user)


def has(item: str, attr: str) -> Step:
    return ("item", item, "has", "attr", attr)


def of(attr: str, item: str) -> Step:
    return ("attr", attr, "of", "item", item)


def likes(user: str, item: str) -> Step:
    return ("user", user, "likes", "item", item)


PATHS = {
    ("a", "2"): [[buys("a", "1"), bought_by("1", "b"), buys("b", "2")]],
    ("a", "3"): [[buys("a", "1"), has("1", "x"), of("x", "3")]],
    ("b", "3"): [[buys("b", "1"), has("1", "x"), of("x", "3")]],
}


def lines(rows: list[Any]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def labels(kind: str) -> str:
    told = []
    for (user, item), paths in PATHS.items():
        found = paths if kind == "paths" else [step for path in paths for step in path]
        told.append(json.dumps({"source": ["user", user], "target": ["item", item], kind: found}) + "\n")
    return "".join(told)


FILES = {
    "nodes.tsv": lines(
        [("user", u) for u in "abc"] + [("item", i) for i in "1234"] + [("attr", "x")]
    ),
    "edges.tsv": lines(
        [buys(*p) for p in BUYS]
        + [bought_by(i, u) for u, i in BUYS]
        + [has(*p) for p in HAS]
        + [of(x, i) for i, x in HAS]
        + [likes(*p) for p in LIKES]
    ),
    "likes_train.tsv": lines([likes("b", "3")]),
    "likes_valid.tsv": lines([likes("a", "3")]),
    "likes_test.tsv": lines([likes("a", "2")]),
    "likes_train_negatives.tsv": lines([likes("c", "4")]),
    "likes_valid_negatives.tsv": lines([likes("a", "4")]),
    "likes_test_negatives.tsv": lines([likes("b", "4")]),
    "edge_labels.jsonl": labels("edges"),
    "path_labels.jsonl": labels("paths"),
}  # fmt: skip


def write_example(folder: Path, **changed: str | None) -> Path:
    """Write the folder; a keyword such as `likes_test_tsv` replaces that file, and None leaves it out."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        new = changed.get(name.replace(".", "_"), content)
        if new is not None:
            (folder / name).write_text(new, "utf-8")
    return folder
