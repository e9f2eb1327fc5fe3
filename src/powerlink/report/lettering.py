"""How much room a name takes in a drawing, and where a long one breaks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from powerlink.report.wording import harmless

_JOINER = "\u200d"
_NARROW = frozenset("iljtfrI.,:;'|!()[] ")
_BROAD = frozenset("mwMWQOG@%&")
# A name may break after these, and stays readable: Western_Europe, /film/actor, born-in.
_PIECES = re.compile(r"[^\s_/.:#-]*[\s_/.:#-]*")


@dataclass(frozen=True)
class Letters:
    """How names are set: the size of letters, the height of a line, and the widest that a line may be."""

    size: float
    line: float
    widest: float

    def broken(self, name: str) -> tuple[str, ...]:
        """Return a name in at most three lines."""
        return break_lines(harmless(name), self.size, self.widest, 3)

    def width(self, lines: Sequence[str]) -> float:
        """Return the width of the longest line."""
        return max(text_width(line, self.size) for line in lines)

    def placed(self, lines: Sequence[str], middle: float, *, baseline: bool = False) -> list[tuple[str, float]]:
        """Return lines with the y of their middles, or baselines: letters stand 0.35 of their size below the middle."""
        first = middle - (len(lines) - 1) / 2 * self.line + (0.35 * self.size if baseline else 0.0)
        return [(line, first + i * self.line) for i, line in enumerate(lines)]


def text_width(text: str, size: float) -> float:
    """Estimate the width of text in a sans-serif font; no font is asked, so that every machine agrees."""
    return size * sum(map(_advance, text))


@cache
def _advance(char: str) -> float:
    if char in _NARROW:
        return 0.37
    if char in _BROAD:
        return 0.86
    if char.isascii():
        return 0.68 if char.isupper() or char.isdecimal() else 0.6
    if char == _JOINER or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0.0
    if unicodedata.east_asian_width(char) in {"W", "F"}:
        return 1.1
    return 0.66


def break_lines(text: str, size: float, width: float, limit: int) -> tuple[str, ...]:
    """Return the text in at most `limit` lines no wider than `width`; what is left over becomes `…`."""
    lines = [""]
    for piece in _pieces(text, size, width):
        if lines[-1] and text_width((lines[-1] + piece).rstrip(), size) > width:
            lines.append("")
        lines[-1] += piece
    lines = [line.strip() for line in lines if line.strip()]
    if len(lines) > limit:
        room = width - text_width("…", size)
        lines = [*lines[: limit - 1], _cut(lines[limit - 1], size, room) + "…"]
    return tuple(lines) or (text,)


def _pieces(text: str, size: float, width: float) -> list[str]:
    pieces: list[str] = []
    for piece in _PIECES.findall(text):
        rest = piece
        while rest and text_width(rest.rstrip(), size) > width:
            start = _cut(rest, size, width)
            pieces.append(start)
            rest = rest[len(start) :]
        if rest:
            pieces.append(rest)
    return pieces


def _cut(text: str, size: float, width: float) -> str:
    """Return the longest start that fits, at least one letter, never splitting a letter from its marks."""
    kept, used = "", 0.0
    for letter in _letters(text):
        used += text_width(letter, size)
        if kept and used > width:
            break
        kept += letter
    return kept


def _letters(text: str) -> list[str]:
    letters: list[str] = []
    for char in text:
        if letters and (_advance(char) == 0 or letters[-1].endswith(_JOINER)):
            letters[-1] += char
        else:
            letters.append(char)
    return letters
