"""Whether the fused GPU kernels can serve a tensor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from importlib.util import find_spec

import torch
from torch import Tensor

from powerlink.kernels.plain_torch import HIGHEST_PRECISION

_HAS_TRITON = find_spec("triton") is not None
_asked_of_scorer: ContextVar[str | None] = ContextVar("_asked_of_scorer", default=None)


def can_fuse(tensor: Tensor) -> bool:
    """Say whether a tensor lies where Triton kernels run; everything else takes the plain-torch way."""
    return tensor.is_cuda and tensor.dtype in (torch.float32, torch.float64) and _HAS_TRITON


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Make a GPU the current one for a while: Triton launches there, and recordings are made there."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def product_precision() -> str:
    """Say how fused float32 products are taken: in TF32 only where torch's own may be, too."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def scorer_precision() -> str:
    """Say how the scorer's products are taken: as torch's own float32 products may be (highest, high or medium).

    Three products of TF32 are as exact as float32 for ReLUs to come, on matrix units; three of bf16, each number the
    sum of two, are half the work and carry some sixteen bits; one of bf16 carries eight.
    """
    asked = _asked_of_scorer.get() or torch.get_float32_matmul_precision()
    return {"highest": "tf32x3", "high": "bf16x3", "medium": "bf16"}[asked]


@contextmanager
def exact_but_for_the_scorer() -> Iterator[None]:
    """Take torch's own products in float32 for a while, and only the scorer's as they were asked for until now.

    The model's are few, but fifty steps carry their rounding far.
    """
    with HIGHEST_PRECISION:
        token = _asked_of_scorer.set(_asked_of_scorer.get() or HIGHEST_PRECISION.before)
        try:
            yield
        finally:
            _asked_of_scorer.reset(token)
