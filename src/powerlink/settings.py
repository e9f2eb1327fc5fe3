"""Settings: fields of frozen dataclasses that users may set, declared once with what they mean and what they may be.

Flags, their help, checks, reports and saved folders derive from the declaration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, field, fields
from typing import Any

from powerlink.errors import SettingsError


def setting(
    default: Any,
    meaning: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    among: Sequence[Any] | None = None,
    **how: Any,
) -> Any:
    """Declare a field that users may set; `check_settings` holds a value against the bounds."""
    bounds = {"least": least, "above": above, "most": most, "among": among}
    return field(default=default, metadata={"help": meaning, **bounds}, **how)


def settings_of(kind: type) -> dict[str, Field[Any]]:
    """Return the fields that users may set, by name."""
    return {f.name: f for f in fields(kind) if "help" in f.metadata}


def check_settings(settings: object) -> None:
    """Refuse a value outside of what its setting was declared to be, in one sentence; None is a default's alone."""
    for name, declared in settings_of(type(settings)).items():
        value = getattr(settings, name)
        if value is None and declared.default is None:
            continue
        if fault := fault_of(value, declared.metadata):
            raise SettingsError(f"{name} must be {fault}, not {value!r}")


def fault_of(value: Any, bounds: Mapping[str, Any]) -> str | None:
    """Say what a value must be by its setting's bounds, and is not."""
    least, above, most, among = (bounds.get(name) for name in ("least", "above", "most", "among"))
    if among is not None:
        return None if value in among else " or ".join(map(str, among))
    if least is None and above is None and most is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "a finite number"
    if least is not None and value < least:
        return f"at least {least:g}"
    if above is not None and value <= above:
        return f"above {above:g}"
    return f"at most {most:g}" if most is not None and value > most else None
