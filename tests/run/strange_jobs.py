"""Jobs and explainers that workers are tried with; a module, so that other processes can import them."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from powerlink.errors import ExplainerError
from powerlink.explainers.floor import Gradient
from powerlink.explainers.protocol import setting
from powerlink.memory import Budget


@dataclass(frozen=True)
class Counted:
    """Squares numbers and leaves a mark of every attempt; what it does to some of them is said by name."""

    marks: Path
    kills: frozenset[int] = frozenset()  # whoever tries these dies
    kills_once: frozenset[int] = frozenset()
    hangs_once: frozenset[int] = frozenset()
    refuses: frozenset[int] = frozenset()

    def run(self, session: None, number: int, /) -> int:
        before = len(list(self.marks.glob(f"{number}.*")))
        (self.marks / f"{number}.{os.getpid()}.{time.monotonic_ns()}").touch()
        if number in self.kills or (number in self.kills_once and not before):
            os.kill(os.getpid(), signal.SIGKILL)
        if number in self.hangs_once and not before:
            time.sleep(3600)
        if number in self.refuses:
            raise ExplainerError(f"{number} is refused")
        return number * number

    def lost(self, session: None, number: int, reason: str, /) -> str:
        return reason

    def attempts(self, number: int) -> int:
        return len(list(self.marks.glob(f"{number}.*")))


@dataclass(frozen=True)
class DeadlyElsewhere:
    """Says what it may take in one process, and ends every other one."""

    home: int

    def budget(self, session):
        if os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGKILL)
        return Budget(queries=5)


@dataclass(frozen=True, kw_only=True)
class Hungry(Gradient):
    """Wants more memory than there is."""

    name: ClassVar[str] = "hungry"

    def score_edges(self, model, graph, seed):
        torch.empty(10**15)
        return super().score_edges(model, graph, seed)


@dataclass(frozen=True, kw_only=True)
class Poisoned:
    """The slopes of the score, but whoever explains a fact of the head `deadly` dies."""

    name: ClassVar[str] = "poisoned"
    cost: ClassVar[str] = "inverse"
    deadly: int = setting(-1, "a head", least=-1)

    def score_edges(self, model, graph, seed):
        if (graph.queries[:, 0] == self.deadly).any():
            os.kill(os.getpid(), signal.SIGKILL)
        return Gradient().score_edges(model, graph, seed)
