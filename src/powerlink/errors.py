"""Every error a user can cause. Each carries one sentence that says what is wrong and what would be right.

PowerlinkError
├── DataError            a file of facts or labels cannot be used (which file, which line, what was expected)
├── UnknownNameError     no such entity, relation, dataset, explainer … (with the closest names)
├── ModelError           a model folder or a model cannot be used (truncated, another version, NaN weights)
├── ExplainerError       an explainer breaks its contract (wrong shape, a changed model …)
├── MismatchError        two things that do not belong together (a report of another graph, other settings)
├── SettingsError        a setting outside its range, or two that contradict each other
├── DeviceError          no such device on this machine, or too little memory on it
├── WorkerError          workers that cannot be had, or that die again and again
└── OutputError          a file that cannot be written (missing rights, a full disk)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PowerlinkError(Exception):
    """Something the user can mend; its text is the whole story."""


class DataError(PowerlinkError):
    """A file of facts or labels cannot be used."""


class UnknownNameError(PowerlinkError):
    """A name that is not there, with the closest ones that are."""

    def __init__(self, kind: str, name: str, known: Iterable[str], listed_by: str = "") -> None:
        self.kind = kind
        self.name = name
        known = list(known)
        self.closest = closest_names(name, known)
        hint = f"; there is {', '.join(known)}" if 0 < len(known) < 5 else ""
        hint = f"; `{listed_by}` lists what there is" if listed_by else hint
        if self.closest:
            hint = f"; did you mean {' or '.join(map(repr, self.closest))}?"
        super().__init__(f"there is no {kind} named {name!r}{hint}")


class ModelError(PowerlinkError):
    """A model folder, or a model, that cannot be used."""


class ExplainerError(PowerlinkError):
    """An explainer that breaks its contract."""


class MismatchError(PowerlinkError):
    """Two things that do not belong together."""


class SettingsError(PowerlinkError):
    """A setting outside its range, or two that contradict each other."""


class DeviceError(PowerlinkError):
    """No such device on this machine, or too little memory on it."""


class WorkerError(PowerlinkError):
    """Workers that cannot be had, or that die again and again."""


class OutputError(PowerlinkError):
    """A file that cannot be written."""


def closest_names(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Return the known names most like `name`, ignoring case."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=limit, cutoff=0.6)
    if len(close) < limit and len(name) >= 3:
        inside = (folded for folded in by_folded if name.casefold() in folded and folded not in close)
        close += sorted(inside, key=len)[: limit - len(close)]
    return [by_folded[folded] for folded in close]
