"""How names and numbers are written for people: names made harmless, numbers with the digits that matter."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass

from powerlink.explanation import Query, Status

# Embeddings, overrides and isolates reorder everything that follows them, arrows included.
_REORDERING = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"


def harmless(name: str) -> str:
    """Return the name with control characters as visible escapes; a blank name is shown in quotes."""
    if not name.isprintable():
        name = "".join(char.encode("unicode_escape").decode() if _controls(char) else char for char in name)
    return name if name.strip() else f'"{name}"'


def _controls(char: str) -> bool:
    return char in _REORDERING or unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}


def isolated(name: str) -> str:
    """Return the name so that right-to-left letters in it cannot turn the arrows around it."""
    if any(unicodedata.bidirectional(char) in {"R", "AL"} for char in name):
        return f"{_FIRST_STRONG_ISOLATE}{name}{_POP_ISOLATE}"
    return name


def number(value: float, decimals: int = 2) -> str:
    """Return a number with a true minus sign, and never `−0.00`."""
    digits = f"{value:.3g}" if abs(value) >= 1e6 else f"{value:.{decimals}f}"
    if digits.startswith("-") and not digits.strip("-0."):
        digits = digits[1:]
    return digits.replace("-", "−")


def carried(value: float) -> str:
    """Return what facts carry together: it orders the paths also where it is too small to be read as a number."""
    return "next to nothing" if 0 < value < 0.0005 else amount(value)


def amount(value: float) -> str:
    """Return a part of a score: two decimals, three where it takes them to tell it from nothing."""
    return number(value, 3 if 0.0005 <= abs(value) < 0.095 else 2)


@dataclass(frozen=True)
class Change:
    """A score before and after, and what lies between, in as many digits as it takes to see it."""

    before: str
    after: str
    difference: str


def change(before: float, after: float) -> Change:
    """Word the change of a score; at least two digits of the difference are shown."""
    difference = after - before
    decimals = 2
    if difference and abs(difference) < 0.1:
        decimals = min(6, 1 - math.floor(math.log10(abs(difference))))
    shown = number(difference, decimals)
    if difference and not shown.strip("−0."):
        shown = f"{difference:.0e}".replace("-", "−")
    sign = "+" if difference > 0 else "" if difference else "±"
    return Change(number(before, decimals), number(after, decimals), sign + shown)


def rank(value: float) -> str:
    """Return a rank; ties at their mean may leave a half."""
    return f"{value:,.1f}".removesuffix(".0")


def probability(chance: float) -> str:
    """Return a probability in per cent."""
    if chance > 0.9999:
        return "> 99.99 %"
    if chance < 0.0001:
        return "< 0.01 %"
    return f"{100 * chance:.{1 if 0.01 <= chance <= 0.99 else 2}f} %"


def ranked(query: Query) -> str:
    """Return among which entities the rank was taken."""
    return "among heads" if query.inverse else "among tails"


def status_name(status: Status) -> str:
    """Return a status as words."""
    return status.value.replace("_", " ")


def sentence(words: str) -> str:
    """Return words as a sentence: a capital first, a full stop last."""
    words = words.strip()
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")


def counted(count: int, noun: str) -> str:
    """Return `1 path`, `3 paths`, `3 queries`."""
    several = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else several}"


def duration(seconds: float) -> str:
    """Return a time as people say it: 0.21 s, 12.5 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
