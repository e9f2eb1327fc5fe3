"""A training step recorded as a CUDA graph: hundreds of small launches become one replay."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

RUNS_BEFORE_RECORDING = 3  # real steps: kernels compile, libraries pick their ways, the optimizer makes its state


class RecordedStep:
    """Runs `step` on batches; those of the usual size are, after a few real runs on a GPU, replayed from a recording.

    A replay does what a run does, to the same tensors and with the same random numbers, without the host in between.
    """

    def __init__(self, step: Callable[[Tensor], Tensor], size: int, device: torch.device) -> None:
        self._step, self._size, self._device = step, size, device
        self._runs = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, batch: Tensor) -> Tensor:
        """Take one step on a batch (n,) and return its loss."""
        if self._device.type != "cuda" or batch.numel() != self._size:
            return self._step(batch)
        if self._runs < RUNS_BEFORE_RECORDING:
            self._runs += 1
            return self._aside(batch)
        if self._graph is None:
            self._batch = batch.clone()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._loss = self._step(self._batch)
        self._batch.copy_(batch)
        self._graph.replay()
        return self._loss.clone()

    def _aside(self, batch: Tensor) -> Tensor:
        """Run on a stream of its own, as a recording will."""
        stream = torch.cuda.Stream(self._device)
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            loss = self._step(batch)
        torch.cuda.current_stream(self._device).wait_stream(stream)
        return loss
