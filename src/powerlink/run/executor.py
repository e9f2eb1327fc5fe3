"""Executor, the seam for scale: it runs a job over parcels of work and never enters the algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from powerlink.memory import Budget
from powerlink.models.session import Session

Content = TypeVar("Content")
Content_contra = TypeVar("Content_contra", contravariant=True)
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True)
class Parcel(Generic[Content]):
    """A part of a job's work, and how large it is: the largest are begun first."""

    content: Content
    size: int


class Job(Protocol[Content_contra, Result_co]):
    """What is to be done to many parcels, as a value that pickles; results are values, too.

    The session is None for a job that asks no model.
    """

    def run(self, session: Any, content: Content_contra, /) -> Result_co:
        """Do it to one parcel's content."""
        ...

    def lost(self, session: Any, content: Content_contra, reason: str, /) -> Result_co:
        """Return what stands for a parcel that no worker survived."""
        ...


class Bounded(Protocol):
    """A job that says what it may take beside a session, in the process that asks."""

    def budget(self, session: Session) -> Budget:
        """Return what a batch may take."""
        ...


class Executor(Protocol):
    """Runs a job over parcels, wherever that may be."""

    def map(
        self, job: Job[Content, Result], parcels: Sequence[Parcel[Content]], session: Session | None
    ) -> Iterator[tuple[int, Result]]:
        """Yield the place and the result of every parcel once, as they become ready, in any order."""
        ...

    def budget(self, job: Bounded, session: Session) -> Budget:
        """Return what a batch may take where it is explained."""
        ...


class Serial:
    """One parcel after the other, in this process."""

    def map(
        self, job: Job[Content, Result], parcels: Sequence[Parcel[Content]], session: Session | None
    ) -> Iterator[tuple[int, Result]]:
        """Yield the results in order."""
        return ((place, job.run(session, parcel.content)) for place, parcel in enumerate(parcels))

    def budget(self, job: Bounded, session: Session) -> Budget:
        """Return what a batch may take in this process."""
        return job.budget(session)
