"""Workers that are processes of this machine; they end when their driver does, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

import torch

from powerlink.errors import SettingsError
from powerlink.run.pool import Death, Pool
from powerlink.run.workbench import Answer, Order, Work, Workbench

PATIENCE = 5.0  # seconds that a process has to end by itself


def processes(
    workers: int | None = None, *, device: torch.device | str = "cpu", gpus_per_worker: float | None = None
) -> Pool:
    """Run jobs in processes of this machine: by default one a core, or one a GPU.

    With `gpus_per_worker` 0.5, two share a GPU.
    """
    kind = torch.device(device).type
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if kind == "cuda" and gpus_per_worker != 0:
        gpus, each = torch.cuda.device_count(), gpus_per_worker or 1.0
        count = workers or max(int(gpus / each), 1)
        devices = [f"cuda:{worker % gpus}" for worker in range(count)]
        share = min(1.0, gpus / count)
    else:
        if gpus_per_worker:
            raise SettingsError(f"gpus_per_worker is {gpus_per_worker:g}, but the device is the CPU")
        count = workers or cores
        devices, share = ["cpu"] * count, 1 / count
    threads = max(min(cores // count, torch.get_num_threads()), 1)
    return Pool(_Processes(devices, threads, share))


class _Processes:
    """A pipe to each process; messages are plain pickles, so that no memory is shared by accident."""

    def __init__(self, devices: Sequence[str], threads: int, share: float) -> None:
        self.size = len(devices)
        self._devices, self._threads, self._share = devices, threads, share
        self._running: dict[int, tuple[SpawnProcess, Connection]] = {}

    def pack(self, value: Any) -> bytes:
        return pickle.dumps(value, protocol=5)

    def hire(self, worker: int) -> None:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        settings = (there, self._devices[worker], self._threads, self._share)
        process = context.Process(target=_serve, args=settings, daemon=True, name=f"powerlink worker {worker}")
        process.start()
        there.close()  # so that the pipe ends with the process
        self._running[worker] = process, here

    def tell(self, worker: int, message: Order | Work) -> None:
        with suppress(OSError):  # its death is heard
            self._running[worker][1].send_bytes(pickle.dumps(message, protocol=5))

    def hear(self, seconds: float | None) -> Sequence[tuple[int, Answer | Death]]:
        by_pipe: dict[Any, int] = {pipe: worker for worker, (_, pipe) in self._running.items()}
        said: list[tuple[int, Answer | Death]] = []
        for pipe in wait(list(by_pipe), seconds):
            worker = by_pipe[pipe]
            try:
                said.append((worker, pickle.loads(pipe.recv_bytes())))  # type: ignore[union-attr]
            except (EOFError, OSError):
                process, _ = self._running[worker]
                process.join(PATIENCE)
                reason = _reason(process.exitcode)
                self.dismiss(worker)
                said.append((worker, Death(reason)))
        return said

    def dismiss(self, worker: int) -> None:
        process, pipe = self._running.pop(worker)
        pipe.close()
        process.kill()
        process.join(PATIENCE)
        process.close()

    def close(self) -> None:
        for worker in list(self._running):
            self.dismiss(worker)


def _reason(code: int | None) -> str:
    if code is not None and code < 0:
        often = ", as the system does when memory is full" if -code == signal.SIGKILL else ""
        return f"killed by {signal.Signals(-code).name}{often}"
    return f"ended with exit code {code}"


def _serve(pipe: Connection, device: str, threads: int, share: float) -> None:
    """Work until the driver is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to hear
    bench = Workbench(device, threads, share)
    with suppress(EOFError, OSError):
        while True:
            message = pickle.loads(pipe.recv_bytes())
            if isinstance(message, Order):
                bench.take(message)
            else:
                pipe.send_bytes(pickle.dumps(bench.work(message), protocol=5))
