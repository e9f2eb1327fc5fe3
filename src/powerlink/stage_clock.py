"""How long each stage of many explanations took."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class StageClock:
    """Seconds per stage. A GPU is waited for at the end of a stage, so that its work counts where it is due."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._device = torch.device(device)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Count what happens inside towards a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
            self.seconds[stage] += time.perf_counter() - start
