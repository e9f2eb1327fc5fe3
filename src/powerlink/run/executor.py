"""Executor, the seam for scale: it wraps the algorithm and never enters it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")


class Executor(Protocol):
    """Runs a function over jobs and gives the outcomes back in the jobs' order."""

    def map(self, function: Callable[[Job], Outcome], jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Yield function(job) for every job, in order, as they become ready."""
        ...


class Serial:
    """One job after the other, in this process."""

    def map(self, function: Callable[[Job], Outcome], jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Yield function(job) for every job, in order."""
        return map(function, jobs)
