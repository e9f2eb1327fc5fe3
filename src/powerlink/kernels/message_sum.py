"""The sum every encoder ends in: messages times edge weights, added up at the edges' targets.

A message depends on its source and its relation, not on its target, so it is computed once per (source, relation) and
the sum over edges is one sparse product. Its backward is another sparse product over the transposed order (by
messages) and one sampled product (by weights): no tensor of edges × width ever exists.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from powerlink.graphs.incidence import Incidence

with warnings.catch_warnings():
    # torch says once per process that sparse rows are "in beta" and unchecked; hear it here, not in the user's run
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False)


class _MessageSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, messages: Tensor, weight: Tensor, incidence: Incidence) -> Tensor:
        ctx.save_for_backward(messages, weight)
        ctx.incidence = incidence
        return _matrix(incidence, weight) @ messages

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        messages, weight = ctx.saved_tensors
        incidence, grad = ctx.incidence, grads[0].contiguous()
        grad_messages = grad_weight = None
        if ctx.needs_input_grad[0]:
            grad_messages = _matrix(incidence.transposed, weight) @ grad
        if ctx.needs_input_grad[1]:
            pattern = _matrix(incidence, torch.zeros_like(weight))
            sampled = torch.sparse.sampled_addmm(pattern, grad, messages.t(), beta=0.0).values()
            grad_weight = torch.empty_like(weight).index_copy_(0, incidence.edge, sampled)
        return grad_messages, grad_weight, None


def message_sum(messages: Tensor, weight: Tensor, incidence: Incidence) -> Tensor:
    """Return Σ weight·message at every row: messages (columns, d), weight (E,) → (rows, d)."""
    weight = weight.to(messages.dtype)  # norms are float32, a model may be float64
    on_cpu_without_sparse = messages.device.type == "cpu" and not torch.backends.mkl.is_available()
    if on_cpu_without_sparse or not incidence.edge.numel():
        return message_sum_reference(messages, weight, incidence)
    result: Tensor = _MessageSum.apply(messages, weight, incidence)  # type: ignore[no-untyped-call]
    return result


def message_sum_reference(messages: Tensor, weight: Tensor, incidence: Incidence) -> Tensor:
    """The same sum edge by edge in plain torch: the oracle, and the way on machines without a sparse library."""
    carried = messages.index_select(0, incidence.column) * weight.index_select(0, incidence.edge).unsqueeze(1)
    return messages.new_zeros(incidence.num_rows, messages.size(1)).index_add(0, incidence.row_of_entry, carried)


def _matrix(incidence: Incidence, weight: Tensor) -> Tensor:
    """Return the sparse matrix with each edge's weight (E,) at its place."""
    values = weight.index_select(0, incidence.edge)
    return torch.sparse_csr_tensor(
        incidence.row, incidence.column, values, (incidence.num_rows, incidence.num_columns), check_invariants=False
    )
