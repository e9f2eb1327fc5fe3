"""The explainers by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from powerlink.errors import SettingsError, UnknownNameError
from powerlink.explainers.floor import Gradient, Random
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explainers.protocol import Explainer

EXPLAINERS: dict[str, type[PowerLink] | type[Gradient] | type[Random]] = {
    kind.name: kind for kind in (PowerLink, Gradient, Random)
}


def make_explainer(name: str, settings: Mapping[str, Any] | None = None) -> Explainer:
    """Make an explainer by name; settings are its dataclass fields."""
    if name not in EXPLAINERS:
        raise UnknownNameError("explainer", name, EXPLAINERS)
    kind = EXPLAINERS[name]
    known = {field.name for field in fields(kind)}
    for setting in settings or {}:
        if setting not in known:
            listed = ", ".join(sorted(known)) or "none at all"
            raise SettingsError(f"{name} has no setting {setting!r}; it has {listed}")
    return kind(**(settings or {}))
