"""Executor, the seam for scale: it runs a job over batches and never enters the algorithm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from torch import Tensor

from powerlink.models.session import Session
from powerlink.run.job import ExplainJob, JobResult


class Executor(Protocol):
    """Runs a job over batches and gives the results back in the batches' order."""

    def map(self, job: ExplainJob, batches: Iterable[Tensor], session: Session) -> Iterator[JobResult]:
        """Yield the job's result for every batch, in order, as they become ready."""
        ...


class Serial:
    """One batch after the other, in this process."""

    def map(self, job: ExplainJob, batches: Iterable[Tensor], session: Session) -> Iterator[JobResult]:
        """Yield the job's result for every batch, in order."""
        return (job.run(session, batch) for batch in batches)
