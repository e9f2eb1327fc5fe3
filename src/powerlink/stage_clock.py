"""How long each stage of many explanations took: noted by the stages themselves while somebody listens."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Elapsed:
    """Seconds by the clock, and of the processor: on a shared machine the second is the fairer one."""

    clock: float = 0.0
    cpu: float = 0.0

    @classmethod
    def now(cls) -> Elapsed:
        """Read both clocks, once what a GPU still has to do is done: its work counts where it is due."""
        torch = sys.modules.get("torch")  # who never loaded it has nothing on a GPU
        if torch and torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: Elapsed) -> Elapsed:
        return Elapsed(self.clock + other.clock, self.cpu + other.cpu)

    def __sub__(self, other: Elapsed) -> Elapsed:
        return Elapsed(self.clock - other.clock, self.cpu - other.cpu)


Seconds = dict[str, Elapsed]  # by stage
_listening: ContextVar[tuple[Seconds, ...]] = ContextVar("_listening", default=())


@contextmanager
def timed(*, if_heard: bool = False) -> Iterator[Seconds]:
    """Listen to the stages of what is done inside, in this thread; who listens outside hears them, too.

    With `if_heard`, only where somebody listens outside: else nothing is measured, and no GPU is waited for.
    """
    seconds: Seconds = {}
    listeners = _listening.get()
    token = _listening.set((*listeners, seconds) if listeners or not if_heard else ())
    try:
        yield seconds
    finally:
        _listening.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Count what happens inside towards a stage, and towards none of the stages within it."""
    listeners = _listening.get()
    if not listeners:
        yield
        return
    token, start = _listening.set(()), Elapsed.now()
    try:
        yield
    finally:
        _listening.reset(token)
        heard({name: Elapsed.now() - start})


def heard(more: Seconds) -> None:
    """Count what stages took elsewhere, as if they had been here."""
    for seconds in _listening.get():
        for name, took in more.items():
            seconds[name] = seconds.get(name, Elapsed()) + took
