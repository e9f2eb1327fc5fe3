"""Whether the fused GPU kernels can serve a tensor."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def can_fuse(tensor: Tensor) -> bool:
    """Say whether a tensor lies where Triton kernels run; everything else takes the plain-torch way."""
    return tensor.is_cuda and tensor.dtype in (torch.float32, torch.float64) and _has_triton()


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Make a GPU the current one for a while: Triton launches there, and recordings are made there."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def product_precision() -> str:
    """Say how fused float32 products are taken: in TF32 only where torch's own may be, too."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def scorer_precision() -> str:
    """Say how the scorer's products are taken: as torch's own float32 products may be (highest, high or medium).

    Three products of TF32 are as exact as float32 for ReLUs to come, on matrix units.
    """
    return {"highest": "tf32x3", "high": "tf32", "medium": "bf16"}[torch.get_float32_matmul_precision()]
