"""torch as a process begins with it, around our own code, whatever its user has set; afterwards it is theirs again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Generic, TypeVar

import torch

Value = TypeVar("Value")
_GPU = threading.RLock()  # while one thread records a CUDA graph, no other may use the GPU


class Held(Generic[Value]):
    """A setting of the whole process, held at a value while any thread is inside: the last one out puts it back."""

    def __init__(self, read: Callable[[], Value], write: Callable[[Value], None], value: Value) -> None:
        self._read, self._write, self._value = read, write, value
        self._lock, self._inside = threading.Lock(), 0
        self.before = value  # what it was before the first one came in

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self.before = self._read()
                self._write(self._value)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._write(self.before)


_FLOAT32 = Held(torch.get_default_dtype, torch.set_default_dtype, torch.float32)
HIGHEST_PRECISION = Held(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest")


@contextmanager
def plain_torch(device: torch.device | str = "cpu") -> Iterator[None]:
    """Compute on a device without inference mode, autocast, or another default dtype or device.

    A GPU becomes the current one: Triton launches there, and recordings are made there.
    """
    device = torch.device(device)
    with ExitStack() as stack:
        if device.type == "cuda":
            stack.enter_context(_GPU)
            stack.enter_context(torch.cuda.device(device))
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        for kind in {"cpu", device.type}:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        stack.enter_context(_FLOAT32)
        yield
