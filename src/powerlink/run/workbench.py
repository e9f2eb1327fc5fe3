"""What a worker does, wherever it is: it opens the model it is told of, keeps it, and runs jobs on it."""

from __future__ import annotations

import copy
import pickle
import traceback
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from powerlink import memory
from powerlink.errors import MismatchError, PowerlinkError, WorkerError
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.models.calibration import Calibration
from powerlink.models.protocol import LinkModel
from powerlink.models.session import Session
from powerlink.models.stand_ins import Fit
from powerlink.run import ceiling
from powerlink.sources import open_model


@dataclass(frozen=True, eq=False)
class Packed:
    """A model that travels itself, to workers that cannot open its source."""

    graph: KnowledgeGraph
    model: LinkModel
    name: str
    hash: str
    calibration: Calibration | None

    @classmethod
    def of(cls, session: Session) -> Packed:
        """Pack a session for another device; what it has computed is computed again there."""
        model = session.settled
        if isinstance(model, nn.Module) and session.messages.device.type != "cpu":
            model = copy.deepcopy(model).cpu()
        return cls(session.graph, model, session.name, session.hash, session.calibration)

    def open(self, device: torch.device) -> Session:
        """Settle it here."""
        model = self.model.to(device) if isinstance(self.model, nn.Module) else self.model
        return Session.of(self.graph, model, device, name=self.name, hash=self.hash, calibration=self.calibration)


@dataclass(frozen=True, eq=False)
class Order:
    """A job and the model it is run on, as a worker is told of them once.

    What may be a stranger's travels as bytes, so that a worker that cannot read it can say so.
    """

    number: int
    job: bytes
    model: str | bytes | None  # its source, or itself; None where the job asks no model
    hash: str = ""
    fit: Fit = Fit()  # how stand-ins are fitted, which no source tells


@dataclass(frozen=True)
class Work:
    """One parcel of an order."""

    order: int
    place: int
    content: bytes


@dataclass(frozen=True)
class Answer:
    """What became of a parcel: its result, or the error that it ended with."""

    order: int
    place: int
    result: Any = None
    error: BaseException | None = None
    unopened: bool = False  # the model's source could not be opened


class Workbench:
    """A worker's place: the model it keeps open and the order it is on."""

    def __init__(self, device: str, threads: int, share: float) -> None:
        torch.set_num_threads(threads)
        memory.SHARE_OF_A_GPU *= share  # others work on the same one, or in the same machine
        ceiling.SHARE_OF_THE_MACHINE *= share
        self._device = torch.device(device)
        self._orders: dict[int, Order] = {}
        self._open: tuple[str, Session] | None = None  # one at a time: orders go model by model

    def take(self, order: Order) -> None:
        """Remember an order; those before it are done with."""
        self._orders = {order.number: order}

    def work(self, work: Work) -> Answer:
        """Run the order's job on one parcel; whatever goes wrong is an answer, too."""
        order = self._orders[work.order]
        try:
            session = self._session(order)
        except Exception as error:
            unopened = isinstance(order.model, str) and not isinstance(error, MismatchError)
            return Answer(work.order, work.place, error=_travelling(error), unopened=unopened)
        try:
            job, content = _read(order.job), _read(work.content)
            return Answer(work.order, work.place, job.run(session, content))
        except Exception as error:
            self._open = None  # who failed may have changed the model
            return Answer(work.order, work.place, error=_travelling(error))

    def _session(self, order: Order) -> Session | None:
        if order.model is None:
            return None
        if self._open is None or self._open[0] != order.hash:
            self._open = None  # first, so that two never fill the memory together
            model, device = order.model, self._device
            session = open_model(model, device) if isinstance(model, str) else _read(model).open(device)
            if session.hash != order.hash:
                raise MismatchError(f"a worker found another model at {model!r}: {session.hash}, not {order.hash}")
            self._open = order.hash, session
        if self._open[1].fit != order.fit:
            self._open = order.hash, replace(self._open[1], fit=order.fit)
        return self._open[1]


def _read(data: bytes) -> Any:
    try:
        return pickle.loads(data)
    except (ImportError, AttributeError) as error:
        raise WorkerError(
            f"a worker cannot read its job ({error}): what it is made of must be importable where workers are"
        ) from None


def _travelling(error: Exception) -> BaseException:
    """Return an error as one that pickles; a stranger's brings along where it was raised."""
    if not isinstance(error, PowerlinkError):
        error.add_note("in a worker:\n" + traceback.format_exc().rstrip())
    try:
        return pickle.loads(pickle.dumps(error))  # type: ignore[no-any-return]
    except Exception:  # its class wants other arguments than it kept
        kind = PowerlinkError if isinstance(error, PowerlinkError) else RuntimeError
        return kind(str(error) if kind is PowerlinkError else f"{type(error).__name__}: {error}")
