"""The one loop behind every learned explainer: Adam on a mask's parameters under a sum of weighted terms."""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.explainers.learned.masks import Mask, mask_of
from powerlink.explainers.learned.terms import WeightedTerms
from powerlink.models.recorded_step import RecordedIfPossible


def learn_mask(mask: Mask, terms: WeightedTerms, *, steps: int, lr: float) -> Tensor:
    """Return the learned mask's values in (0, 1) on the kept edges, float64: (E,).

    Losses are summed over queries. No query sees another's edges or parameters, and Adam acts on each number alone,
    so every query is learned as if it were by itself. Terms of weight zero are left out; without any, nothing is
    learned.
    """
    used = [(weight, term) for weight, term in terms if weight]
    descent = Descent(mask.parameters, lr)
    step = RecordedIfPossible(lambda: descent.step(mask, used), mask.parameters[0].device)
    for _ in range(steps if used else 0):
        step()
    with torch.no_grad():
        return mask_of(mask.logits())


class Descent:
    """Adam over a mask's parameters, a step at a time. The model's own parameters receive no gradient."""

    def __init__(self, parameters: list[Tensor], lr: float) -> None:
        self._parameters = parameters
        kind = parameters[0].device.type
        # one pass over all numbers; a recorded step keeps the count of steps on the device
        self._adam = torch.optim.Adam(parameters, lr=lr, fused=kind in ("cpu", "cuda"), capturable=kind == "cuda")

    def step(self, mask: Mask, terms: WeightedTerms) -> Tensor:
        """Take one step down the losses' sum, and return the loss of each query before it: (Q,)."""
        with torch.enable_grad():
            losses = total_loss(mask, terms)
            gradients = torch.autograd.grad(losses.sum(), self._parameters)
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient.contiguous()  # as the parameter lies: fused Adam takes no other
        self._adam.step()
        return losses.detach()


def total_loss(mask: Mask, terms: WeightedTerms) -> Tensor:
    """Return the weighted sum of the terms, one loss per query: (Q,)."""
    logits = mask.logits()
    return torch.stack([weight * term(logits) for weight, term in terms]).sum(0)
