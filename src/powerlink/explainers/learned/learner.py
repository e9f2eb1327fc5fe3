"""The one loop behind every learned explainer: Adam on a mask's parameters under a sum of weighted terms."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from powerlink.explainers.learned.masks import Mask
from powerlink.explainers.learned.terms import Term


def learn_mask(mask: Mask, terms: Sequence[tuple[float, Term]], *, steps: int, lr: float) -> Tensor:
    """Return the learned mask's values in (0, 1) on the kept edges: (E,).

    Losses are summed over queries. No query sees another's edges or parameters, and Adam acts on each number alone,
    so every query is learned as if it were by itself. The model's own parameters receive no gradient.
    """
    with torch.enable_grad():
        optimizer = torch.optim.Adam(mask.parameters, lr=lr)
        for _ in range(steps):
            logits = mask.logits()
            loss = torch.stack([weight * term(logits).sum() for weight, term in terms]).sum()
            gradients = torch.autograd.grad(loss, mask.parameters)
            for parameter, gradient in zip(mask.parameters, gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()
    with torch.no_grad():
        return torch.sigmoid(mask.logits())
