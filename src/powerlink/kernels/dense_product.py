"""Large float32 products on a CPU, by whichever of torch's two libraries uses the whole processor.

MKL, which `@` calls, takes the widest vector instructions (AVX-512) on Intel's processors alone; oneDNN takes them
wherever they are, and is then more than twice as fast. Both are float32 throughout.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

# oneDNN, and torch before it, keep what they prepare for a shape: 0.6 MB each, of up to 1,024 shapes. What-if graphs
# have a new shape each; a training step has a few dozen. Both libraries ask when they are first used.
SHAPES_KEPT = 64
for _cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_cache, str(SHAPES_KEPT))

LEAST_WORK = 2**22  # multiplications; to call oneDNN costs more than to call MKL

_shapes_vary: ContextVar[bool] = ContextVar("_shapes_vary", default=False)


@contextmanager
def shapes_that_vary() -> Iterator[None]:
    """Leave oneDNN alone for a while: it compiles for every shape and keeps a thousand of them, megabytes each."""
    token = _shapes_vary.set(True)
    try:
        yield
    finally:
        _shapes_vary.reset(token)


def dense_product(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return rows @ matrix: (n, k), (k, m) → (n, m)."""
    if not _worth_it(rows, matrix):
        return rows @ matrix
    if rows.size(0) > matrix.size(1) and rows.stride(0) < rows.stride(1):
        return dense_product(matrix.t(), rows.t()).t()  # twice as fast as many rows that lie as columns
    product: Tensor = _OneDNNProduct.apply(rows, matrix)  # type: ignore[no-untyped-call]
    return product


class Linear(nn.Linear):
    """A linear layer that multiplies as above."""

    def forward(self, input: Tensor) -> Tensor:
        """Map rows (n, in) to (n, out)."""
        if not _worth_it(input, self.weight.t()):
            return super().forward(input)
        product = dense_product(input, self.weight.t())
        return product if self.bias is None else product + self.bias


class _OneDNNProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Tensor) -> Tensor:
        ctx.save_for_backward(rows, matrix)
        return onednn_product(rows, matrix)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (rows, matrix), grad = ctx.saved_tensors, grads[0]
        to_rows = dense_product(grad, matrix.t()) if ctx.needs_input_grad[0] else None
        to_matrix = dense_product(rows.t(), grad) if ctx.needs_input_grad[1] else None
        return to_rows, to_matrix


def onednn_product(rows: Tensor, matrix: Tensor) -> Tensor:
    """The same by oneDNN alone, without a way back."""
    # what torch.compile calls for a linear layer; it takes the matrix transposed, however that lies in memory
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, matrix.t(), None, "none", [], "")
    return product


def _worth_it(rows: Tensor, matrix: Tensor) -> bool:
    return (
        rows.dim() == 2
        and rows.device.type == "cpu"
        and rows.dtype == matrix.dtype == torch.float32
        and rows.size(0) * matrix.numel() >= LEAST_WORK
        and not _shapes_vary.get()
        and not torch.is_autocast_enabled("cpu")
        and onednn_is_faster()
    )


@cache
def onednn_is_faster() -> bool:
    """Say whether oneDNN takes wider instructions here than MKL does."""
    return (
        torch.backends.mkl.is_available()
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and "GenuineIntel" not in _processor()
    )


def _processor() -> str:
    """Return a text that names the processor's maker."""
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.read_text() if cpuinfo.exists() else platform.processor()
