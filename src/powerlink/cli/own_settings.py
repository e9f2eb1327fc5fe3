"""Settings given as text, name=value: whatever an explainer has, without a flag for each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from powerlink.errors import SettingsError
from powerlink.settings import settings_of

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="A setting of the explainer as name=value; `powerlink explainers NAME` lists them."),
]
WORDS = {int: "a whole number", float: "a finite number", bool: "true or false"}


def read_settings(owner: str, kind: type, texts: Iterable[str]) -> dict[str, Any]:
    """Read name=value texts as the settings of a dataclass, each in its field's type."""
    known, hints = settings_of(kind), get_type_hints(kind)
    given: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise SettingsError(f"--set takes name=value, not {text!r}")
        if name not in known:
            raise SettingsError(f"{owner} has no setting {name!r}; it has {', '.join(sorted(known)) or 'none at all'}")
        if name in given:
            raise SettingsError(f"{name} is set twice")
        given[name] = _value(f"{name} of {owner}", value.strip(), hints[name])
    return given


def _value(what: str, text: str, hint: Any) -> Any:
    """Read a value of a type: whole or finite numbers, true or false, one of some words, text; `none` if allowed."""
    if get_origin(hint) in (Union, UnionType):
        if text.lower() == "none":
            return None
        (hint,) = [part for part in get_args(hint) if part is not type(None)]
    if get_origin(hint) is Literal:
        if text not in get_args(hint):
            raise SettingsError(f"{what} must be {' or '.join(get_args(hint))}, not {text!r}")
        return text
    try:
        if hint is bool:
            return {"true": True, "false": False}[text.lower()]
        value = hint(text)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError
    except (ValueError, KeyError, OverflowError):
        raise SettingsError(f"{what} must be {WORDS.get(hint, 'a ' + hint.__name__)}, not {text!r}") from None
    return value
