"""How long work says where it is: one callback, whoever listens."""

from __future__ import annotations

from collections.abc import Callable

Told = Callable[[str, int, int], None]  # hears what is going on, how many are done, and of how many


def nobody(what: str, done: int, of: int) -> None:
    """Listen to nothing."""


def adding_up(told: Told, what: str, of: int) -> Callable[[int], None]:
    """Return a callback that hears how many more are done, and tells how many are done in all."""
    done = 0

    def more(some: int) -> None:
        nonlocal done
        done += some
        told(what, done, of)

    return more
