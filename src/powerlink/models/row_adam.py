"""Adam on the rows of a table that a step has read: its cost follows from what was read, not from the table."""

from __future__ import annotations

import torch
from torch import Tensor, nn

BETAS, EPS = (0.9, 0.999), 1e-8  # torch's own


@torch.no_grad()
def adam_on_rows(
    state: dict[str, Tensor],
    table: nn.Parameter,
    index: Tensor,
    slope: Tensor,
    *,
    lr: float | Tensor,
    weight_decay: float,
) -> None:
    """Take a step of AdamW on distinct rows of a table, index (n,) and slope (n, ·); `state` is kept with the table.

    Every row counts its own steps, so that a row met late begins as one met early. Of a table that is read as a whole
    in every step this is torch's AdamW.
    """
    if not state:
        state["step"] = torch.zeros(table.size(0), device=table.device)
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(table), torch.zeros_like(table)
    step = state["step"].index_select(0, index) + 1
    mean = state["exp_avg"].index_select(0, index).lerp_(slope, 1 - BETAS[0])
    square = state["exp_avg_sq"].index_select(0, index).mul_(BETAS[1]).addcmul_(slope, slope, value=1 - BETAS[1])
    for name, rows in (("step", step), ("exp_avg", mean), ("exp_avg_sq", square)):
        state[name].index_copy_(0, index, rows)
    step = step.double().view(-1, *[1] * (table.dim() - 1))
    first, second = ((1 - beta**step).to(table.dtype) for beta in BETAS)
    change = lr * (mean / first) / ((square / second).sqrt_() + EPS)
    table.index_copy_(0, index, table.index_select(0, index) * (1 - lr * weight_decay) - change)
