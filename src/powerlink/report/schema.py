"""Explanations as JSON Lines, and back without loss. The dataclasses of `explanation.py` are the schema.

docs/reference/report-schema.md describes every key.
"""

from __future__ import annotations

import json
import math
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from powerlink.errors import DataError
from powerlink.explainers.remarks import NO_WALK
from powerlink.explanation import Explanation, Status

SCHEMA = 2

# Of version 1, whose `settings` held those of the explanation and of the explainer side by side, and whose evidence was
# always a path.
_SETTINGS_1 = {
    *("paths", "min_length", "max_length", "hops", "hub_limit", "core"),
    *("candidates", "select", "also_consider", "cost"),
}
_WITHOUT_PATH_TERM_1 = "explained_without_path_term"

# What JSON allows raw inside a string but a line-oriented tool, a terminal or UTF-8 does not.
_UNSAFE = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def to_json(explanation: Explanation) -> str:
    """Return one line of JSON, without its newline."""
    line = json.dumps({"schema": SCHEMA, **_plain(explanation, "")}, ensure_ascii=False, allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def from_json(line: str) -> Explanation:
    """Return the explanation that `to_json` wrote; keys it does not know are ignored."""
    try:
        value = json.loads(line, parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as error:
        raise DataError(f"not a line of JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"not a line of JSON that can be used: {error}") from None
    version = value.get("schema") if isinstance(value, dict) else None
    if type(version) is not int or version < 1:
        raise DataError(f'not an explanation: a line starts with {{"schema": {SCHEMA}, …}}')
    if version > SCHEMA:
        raise DataError(f"written by a newer powerlink (schema {version}; this one reads up to {SCHEMA})")
    if version == 1:
        value = _from_version_1(value)
    return cast(Explanation, _typed(Explanation, value, ""))


def _from_version_1(value: dict[str, Any]) -> dict[str, Any]:
    """Return a line of version 1 as one of version 2."""
    made_by = value.get("made_by")
    if isinstance(made_by, dict) and isinstance(both := made_by.get("settings"), dict):
        own = {name: both[name] for name in both if name in _SETTINGS_1}
        theirs = {name: both[name] for name in both if name not in _SETTINGS_1}
        value = {**value, "made_by": {**made_by, "settings": own, "explainer_settings": theirs}}
    if value.get("status") == _WITHOUT_PATH_TERM_1 and isinstance(value.get("remarks", []), list):
        value = {**value, "status": Status.EXPLAINED.value, "remarks": [NO_WALK, *value.get("remarks", [])]}
    return {("evidence" if name == "paths" else name): item for name, item in value.items()}


def read_explanations(path: str | PathLike[str]) -> list[Explanation]:
    """Return every explanation of a report; any line that is not one is an error that names it."""
    path = Path(path)
    return [_parsed(path, number, line) for number, line in _lines(path) if line.strip()]


def read_complete(path: str | PathLike[str]) -> tuple[list[Explanation], int]:
    """Return the explanations whose lines are complete, and the byte offset where those lines end.

    A writer that was killed leaves half a line at the end: cut the file at the offset, and append.
    """
    path = Path(path)
    explanations, offset = [], 0
    for number, line in _lines(path):
        if not line.endswith(b"\n"):
            break
        if line.strip():
            explanations.append(_parsed(path, number, line))
        offset += len(line)
    return explanations, offset


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            yield from enumerate(file, start=1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _parsed(path: Path, number: int, line: bytes) -> Explanation:
    try:
        return from_json(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        raise DataError(f"{path}, line {number}: not UTF-8 at byte {error.start + 1}") from None
    except DataError as error:
        cut = "" if line.endswith(b"\n") else " (the line has no end: was its writer stopped?)"
        raise DataError(f"{path}, line {number}: {error}{cut}") from None


def _plain(value: Any, where: str) -> Any:
    """Return a value as what JSON has: objects, arrays, text, numbers, true, false, null."""
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name), _inside(where, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item, _inside(where, str(key))) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{where} is {value}, and a report holds finite numbers only")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise DataError(f"{where} is a {type(value).__name__}, which JSON has no form for")


def _typed(kind: Any, value: Any, where: str) -> Any:
    """Return a JSON value as the annotated type, or say where it is not one."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):  # every union here is `X | None`
        return None if value is None else _typed(arguments[0], value, where)
    if is_dataclass(kind):
        return _record(kind, _checked(value, dict, "an object", where), where)
    if origin is tuple:
        items = _checked(value, list, "an array", where)
        return tuple(_typed(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(items))
    if origin is Mapping:
        key_kind, item_kind = arguments
        return {
            _key(key_kind, key, where): _typed(item_kind, item, _inside(where, key))
            for key, item in _checked(value, dict, "an object", where).items()
        }
    return _scalar(kind, value, where)


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    if kind is float:
        # JSON has one kind of number: a rank of 1.0 may have come back as 1 from another tool.
        number = _checked(value, (int, float), "a number", where)
        try:
            return float(number)
        except OverflowError:
            raise DataError(f"{where} is too large for a number") from None
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise DataError(f"{where} is {_shortened(json.dumps(value))}; it must be {' or '.join(get_args(kind))}")
        return value
    if issubclass(kind, StrEnum):
        if value not in list(kind):
            raise DataError(f"{where} is {_shortened(json.dumps(value))}; it must be one of {', '.join(kind)}")
        return kind(value)
    return _checked(value, kind, {str: "text", bool: "true or false", int: "a whole number"}[kind], where)


_hints = cache(get_type_hints)


def _record(kind: Any, value: dict[str, Any], where: str) -> Any:
    if missing := [name for name in _needed(kind) if name not in value]:
        raise DataError(f"{_inside(where, missing[0])} is missing")
    there = {name: hint for name, hint in _hints(kind).items() if name in value}
    return kind(**{name: _typed(hint, value[name], _inside(where, name)) for name, hint in there.items()})


@cache
def _needed(kind: Any) -> tuple[str, ...]:
    """Return the fields without a default: a file that lacks another was written before there was such a field."""
    return tuple(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)


def _key(kind: type, key: str, where: str) -> str | int:
    if kind is str:
        return key
    if not re.fullmatch("[1-9][0-9]{0,8}", key):
        raise DataError(f"{where} has the key {key!r}; its keys are whole numbers from 1")
    return int(key)


def _checked(value: Any, kind: type | tuple[type, ...], expected: str, where: str) -> Any:
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise DataError(f"{where} must be {expected}, not {_shortened(json.dumps(value))}")


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is not a finite number")
    return value


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
