"""Workers that are actors of a Ray cluster, on any number of machines."""

from __future__ import annotations

import importlib
import logging
import math
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from powerlink.errors import SettingsError, WorkerError
from powerlink.run.pool import Death, Pool
from powerlink.run.workbench import Answer, Order, Work, Workbench

KNOCK = 10.0  # seconds until somebody must have answered


def ray_actors(
    workers: int | None = None,
    *,
    address: str | None = None,
    gpus_per_worker: float | None = None,
    cores_per_worker: int = 1,
) -> Pool:
    """Run jobs in actors of the Ray cluster at an address, or of one that is begun here.

    By default there are as many as the cluster has room for, with a GPU each where it has any.
    """
    try:
        ray: Any = importlib.import_module("ray")  # an extra, and slow to import
    except ImportError:
        raise SettingsError("Ray is not installed: python -m pip install 'powerlink[ray]'") from None
    if address:
        _knock(address)
    own = not ray.is_initialized()
    if own:
        begin: dict[str, Any] = {"address": address} if address else {"include_dashboard": False}
        if workers and not address:
            begin["num_cpus"] = workers * cores_per_worker
        try:
            logging.getLogger("ray").setLevel(logging.ERROR)
            ray.init(log_to_driver=False, configure_logging=False, **begin)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise WorkerError(f"there is no Ray cluster at {address}: {str(error).splitlines()[0]}") from None
    room = ray.cluster_resources()
    cores, gpus = int(room.get("CPU", 0)), room.get("GPU", 0.0)
    each = gpus_per_worker if gpus_per_worker is not None else float(gpus > 0)
    most = min(cores // cores_per_worker, math.floor(gpus / each) if each else cores)
    count = workers or most
    if not 0 < count <= most:
        if own:
            ray.shutdown()
        raise SettingsError(
            f"the Ray cluster has {cores} cores and {gpus:g} GPUs: room for {most} workers with {cores_per_worker} "
            f"cores and {each:g} GPUs each, not for {count}"
        )
    return Pool(_Actors(ray, count, cores_per_worker, each, own))


def _knock(address: str) -> None:
    """Say at once that nobody is there: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return  # `auto`, or what Ray refuses itself
    try:
        socket.create_connection((host, int(port)), timeout=KNOCK).close()
    except (OSError, OverflowError) as error:
        raise WorkerError(
            f"there is no Ray cluster at {address}: {getattr(error, 'strerror', None) or error}"
        ) from None


class _Actors:
    """A handle of each actor, and the answers that are still to come."""

    def __init__(self, ray: Any, count: int, cores: int, gpus: float, own: bool) -> None:
        self.size = count
        self._ray, self._own = ray, own
        self._kind = ray.remote(num_cpus=cores, num_gpus=gpus)(Workbench)
        self._settings = "cuda" if gpus else "cpu", cores, min(gpus, 1.0) or 1.0
        self._actors: dict[int, Any] = {}
        self._coming: dict[Any, int] = {}
        self._stored: tuple[Order, Any] | None = None  # an order lies in the object store once, for all of them

    def pack(self, value: Any) -> bytes:
        packed: bytes = self._ray.cloudpickle.dumps(value, protocol=5)  # also what a script defines itself
        return packed

    def hire(self, worker: int) -> None:
        self._actors[worker] = self._kind.remote(*self._settings)

    def tell(self, worker: int, message: Order | Work) -> None:
        actor = self._actors[worker]
        if isinstance(message, Order):
            if self._stored is None or self._stored[0] is not message:
                self._stored = message, self._ray.put(message)
            actor.take.remote(self._stored[1])
        else:
            self._coming[actor.work.remote(message)] = worker

    def hear(self, seconds: float | None) -> Sequence[tuple[int, Answer | Death]]:
        ready, _ = self._ray.wait(list(self._coming), num_returns=1, timeout=seconds)
        said: list[tuple[int, Answer | Death]] = []
        for answer in ready:
            worker = self._coming.pop(answer)
            try:
                said.append((worker, self._ray.get(answer)))
            except self._ray.exceptions.RayError as error:  # the work itself raises nothing: its place is gone
                self.dismiss(worker)
                said.append((worker, Death(_reason(error))))
        return said

    def dismiss(self, worker: int) -> None:
        self._coming = {answer: other for answer, other in self._coming.items() if other != worker}
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._actors.pop(worker))

    def close(self) -> None:
        for worker in list(self._actors):
            self.dismiss(worker)
        self._stored = None
        if self._own:
            self._ray.shutdown()


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}, {lines[0]}" if lines else type(error).__name__
