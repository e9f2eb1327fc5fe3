"""Who does what: largest first, one ahead, from the dead to the living, and copies of what a straggler holds."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from types import TracebackType
from typing import Any, Protocol, Self

from powerlink.errors import WorkerError
from powerlink.memory import Budget
from powerlink.models.session import Session
from powerlink.run.executor import Bounded, Content, Job, Parcel, Result
from powerlink.run.workbench import Answer, Order, Packed, Work
from powerlink.stage_clock import heard

AHEAD = 2  # parcels at a worker while there are many: nobody waits for the next one to arrive
TRIES = 3  # a dead worker's parcel goes to another, twice
STRAGGLES = 2.0  # times the longest that any parcel took; the largest went first
GRACE = 10.0  # seconds more: a new worker opens the model first
GLANCE = 0.2  # seconds between looks at stragglers


@dataclass(frozen=True)
class Death:
    """A worker is no more."""

    reason: str


class Crew(Protocol):
    """Workers by number, and how they are spoken to."""

    size: int

    def pack(self, value: Any) -> bytes:
        """Make bytes of a value, from which `pickle.loads` makes it again at a worker."""
        ...

    def hire(self, worker: int) -> None:
        """Begin a worker, or another in its place."""
        ...

    def tell(self, worker: int, message: Order | Work) -> None:
        """Say something to a worker; of one that is dead, the death is heard later."""
        ...

    def hear(self, seconds: float | None) -> Sequence[tuple[int, Answer | Death]]:
        """Wait until somebody says something, or as long as that."""
        ...

    def dismiss(self, worker: int) -> None:
        """Let a worker go, whatever it is doing."""
        ...

    def close(self) -> None:
        """Let go of all, and of what they stood on."""
        ...


@dataclass
class _Desk:
    """What a worker was told, and since when it is at the first of it."""

    order: int = -1
    line: list[int] = field(default_factory=list)  # places, in the order they were given
    since: float = 0.0


@dataclass(frozen=True)
class _Measure:
    """A job that asks a worker for what another may take there."""

    job: Bounded

    def run(self, session: Session, content: None, /) -> Budget:
        return self.job.budget(session)

    def lost(self, session: Session, content: None, reason: str, /) -> Budget:
        return self.job.budget(session)  # here: whoever explains says what is wrong


class Pool:
    """An executor with workers that stay: they keep the model they opened from one job to the next.

    A context manager: workers are hired when they are first needed, and let go at the end.
    """

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._desks: dict[int, _Desk] = {}
        self._numbers = count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._desks.clear()
        self._crew.close()

    def budget(self, job: Bounded, session: Session) -> Budget:
        """Ask a worker what a batch may take there."""
        ((_, found),) = self.map(_Measure(job), [Parcel(None, 0)], session)
        return found

    def map(
        self, job: Job[Content, Result], parcels: Sequence[Parcel[Content]], session: Session | None
    ) -> Iterator[tuple[int, Result]]:
        """Yield the place and the result of every parcel once, as they become ready."""
        shift = _Shift(self._crew, self._desks, next(self._numbers), job, parcels, session)
        try:
            yield from shift.run()
        finally:
            for worker in [worker for worker, desk in self._desks.items() if desk.line]:
                self._crew.dismiss(worker)  # it is at something that nobody waits for
                del self._desks[worker]


class _Shift:
    """One job's parcels on their way through the workers."""

    def __init__(
        self,
        crew: Crew,
        desks: dict[int, _Desk],
        number: int,
        job: Job[Any, Any],
        parcels: Sequence[Parcel[Any]],
        session: Session | None,
    ) -> None:
        self.crew, self.desks, self.job, self.parcels, self.session = crew, desks, job, parcels, session
        model = None if session is None else session.source or crew.pack(Packed.of(session))
        self.order = Order(number, crew.pack(job), model)
        if session is not None:
            self.order = replace(self.order, hash=session.hash, fit=session.fit)
        sizes = [parcel.size for parcel in parcels]
        self.waiting = deque(sorted(range(len(parcels)), key=lambda place: -sizes[place]))
        self.deaths: Counter[int] = Counter()
        self.in_a_row = 0  # deaths since anybody answered
        self.longest = 0.0  # seconds that any parcel took

    def run(self) -> Iterator[tuple[int, Any]]:
        still_open = set(range(len(self.parcels)))
        while still_open:
            somebody_idle = self._hand_out(still_open)
            for worker, said in self.crew.hear(GLANCE if somebody_idle else None):
                if isinstance(said, Death):
                    place, result = self._bury(worker, said, still_open)
                else:
                    place, result = self._receive(worker, said), said.result
                if place in still_open:  # and no copy of it came before
                    still_open.remove(place)
                    yield place, result

    def _hand_out(self, still_open: set[int]) -> bool:
        """Give every worker something to do; return whether somebody has nothing."""
        for worker in range(self.crew.size):
            if worker not in self.desks:
                if not self.waiting:
                    continue
                self.crew.hire(worker)
                self.desks[worker] = _Desk()
            desk = self.desks[worker]
            # One ahead, so that nobody waits for the next; but not of the last ones, which others could do meanwhile.
            while self.waiting and len(desk.line) < (AHEAD if len(self.waiting) > AHEAD * self.crew.size else 1):
                self._give(worker, self.waiting.popleft())
            if not desk.line and (copy := self._straggling(still_open)) is not None:
                self._give(worker, copy)
        return any(not desk.line for desk in self.desks.values())

    def _give(self, worker: int, place: int) -> None:
        desk = self.desks[worker]
        if desk.order != self.order.number:
            self.crew.tell(worker, self.order)
            desk.order = self.order.number
        if not desk.line:
            desk.since = time.monotonic()
        desk.line.append(place)
        self.crew.tell(worker, Work(self.order.number, place, self.crew.pack(self.parcels[place].content)))

    def _straggling(self, still_open: set[int]) -> int | None:
        """Return a parcel that one worker alone holds: one that waits there, or one that takes too long."""
        held = Counter(place for desk in self.desks.values() for place in desk.line)
        single = {place for place in still_open if held[place] == 1}
        for desk in self.desks.values():
            behind = [place for place in desk.line[1:] if place in single]
            if behind:
                return behind[0]
        began = [(desk.since, desk.line[0]) for desk in self.desks.values() if desk.line and desk.line[0] in single]
        since, place = min(began, default=(0.0, None))
        late = self.longest and time.monotonic() - since > GRACE + STRAGGLES * self.longest
        return place if late else None

    def _receive(self, worker: int, answer: Answer) -> int | None:
        """Take an answer and return its place, or None where the worker is to try again."""
        desk, now = self.desks[worker], time.monotonic()
        desk.line.remove(answer.place)
        if answer.unopened and self.session is not None:  # its source is not there: send the model itself
            if isinstance(self.order.model, str):
                self.order = replace(self.order, model=self.crew.pack(Packed.of(self.session)))
            desk.order = -1
            self._give(worker, answer.place)
            return None
        if answer.error is not None:
            raise answer.error
        took, desk.since = now - desk.since, now
        self.longest = max(self.longest, took)
        self.in_a_row = 0
        heard(getattr(answer.result, "seconds", {}))
        return answer.place

    def _bury(self, worker: int, death: Death, still_open: set[int]) -> tuple[int | None, Any]:
        """Give a dead worker's parcels to others; what it was at is lost if that has been tried often enough."""
        line = self.desks.pop(worker).line
        self.in_a_row += 1
        if self.in_a_row > (TRIES + 1) * (self.crew.size + 1):
            raise WorkerError(f"{self.in_a_row} workers died one after the other: {death.reason}")
        self.deaths.update(line[:1])
        elsewhere = {place for desk in self.desks.values() for place in desk.line}
        orphans = [place for place in line if place in still_open and place not in elsewhere]
        lost = next((place for place in orphans if self.deaths[place] >= TRIES), None)
        self.waiting.extendleft(place for place in reversed(orphans) if place != lost)
        if lost is None:
            return None, None
        content = self.parcels[lost].content
        return lost, self.job.lost(self.session, content, f"{TRIES} workers died of it: {death.reason}")
