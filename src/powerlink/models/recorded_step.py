"""Steps recorded as CUDA graphs: hundreds of small launches become one replay."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor

RUNS_BEFORE_RECORDING = 3  # real steps: kernels compile, libraries pick their ways, the optimizer makes its state


class Recorded:
    """Runs `step`, which reads and changes the same tensors every time; after a few real runs on a GPU, by replay.

    A replay does what a run does, with the same random numbers, without the host in between. The result is the same
    tensor at every replay.
    """

    def __init__(self, step: Callable[[], Tensor], device: torch.device) -> None:
        self._step, self._device = step, device
        self._runs = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self) -> Tensor:
        """Take one step and return its result."""
        if self._stream is None:
            return self._step()
        if self._runs < RUNS_BEFORE_RECORDING:
            self._runs += 1
            return self._aside(self._stream)
        if self._graph is None:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self._stream):
                self._result = self._step()
            self._graph = graph
        self._graph.replay()
        return self._result

    @property
    def recorded(self) -> bool:
        return self._graph is not None

    def _aside(self, stream: torch.cuda.Stream) -> Tensor:
        """Run on a stream of its own, as a recording will."""
        stream.wait_stream(torch.cuda.current_stream(self._device))
        try:
            with torch.cuda.stream(stream):
                return self._step()
        finally:
            torch.cuda.current_stream(self._device).wait_stream(stream)


class RecordedStep:
    """Runs `step` on batches; those of the usual size are recorded."""

    def __init__(self, step: Callable[[Tensor], Tensor], size: int, device: torch.device) -> None:
        self._step = step
        self._batch = torch.zeros(size, dtype=torch.long, device=device)
        self._recorded = Recorded(lambda: self._step(self._batch), device)

    def __call__(self, batch: Tensor) -> Tensor:
        """Take one step on a batch (n,) and return its loss."""
        if not batch.is_cuda or batch.numel() != self._batch.numel():
            return self._step(batch)
        self._batch.copy_(batch)
        return self._recorded().clone()


class RecordedIfPossible:
    """Runs `step`; on a GPU by replay, unless it waits for the device in between or cannot be recorded.

    A step that waits is found without being recorded: torch refuses to wait if it is asked to. A step must change
    nothing before all that could wait is done.
    """

    def __init__(self, step: Callable[[], Tensor], device: torch.device) -> None:
        self._step, self._on_cuda = step, device.type == "cuda"
        self._recorded = Recorded(step, device)
        self._runs = 0
        self._plain = not self._on_cuda

    def __call__(self) -> Tensor:
        """Take one step and return its result."""
        self._runs += 1
        if not self._plain and self._runs > 1:  # compiling and the first look at a graph may well wait
            try:
                with _refusing_to_wait() if self._runs == 2 else nullcontext():
                    return self._recorded()
            except torch.OutOfMemoryError:
                raise
            except RuntimeError:
                if self._recorded.recorded:
                    raise
                self._plain = True
        # Outside of the handler: the error holds on to all that the attempt had computed.
        return self._step()


@contextmanager
def _refusing_to_wait() -> Iterator[None]:
    """Let torch raise an error where the host would wait for the GPU."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that this is a prototype
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)
