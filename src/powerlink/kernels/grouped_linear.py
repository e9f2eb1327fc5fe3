"""One small matrix product per query over rows that lie query by query, without padding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from powerlink.kernels.fused import can_fuse, scorer_precision
from powerlink.kernels.incidence import Incidence, Lookup

RUN = 256  # rows of one group that a GPU program multiplies


@dataclass(frozen=True, eq=False)
class Runs:
    """Places in runs of one group each, however different the groups' sizes."""

    start: Tensor  # (runs,)
    end: Tensor  # (runs,)
    group: Tensor  # (runs,)
    by_group: Incidence  # the runs of each group

    @property
    def bounds(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.start, self.end, self.group

    @classmethod
    def of(cls, row: Tensor, longest: int) -> Runs:
        """Cut groups, given by where they begin (G + 1,), into runs of at most `longest`."""
        begin, end = row[:-1], row[1:]
        count = (end - begin + longest - 1) // longest
        group = torch.repeat_interleave(torch.arange(count.numel(), device=row.device), count)
        which = torch.arange(group.numel(), device=row.device) - (count.cumsum(0) - count)[group]
        start = begin[group] + which * longest
        return cls(start, torch.minimum(start + longest, end[group]), group, Lookup(group, count.numel()).readers)


@dataclass(frozen=True, eq=False)
class Groups:
    """How many rows each group has."""

    row: Tensor  # (G + 1,) where each group begins

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.row.diff().tolist())

    @cached_property
    def runs(self) -> Runs:
        """The rows in runs for the fused kernel."""
        return Runs.of(self.row, RUN)


class _GroupedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, groups: Groups) -> Tensor:
        ctx.save_for_backward(rows, weight)
        ctx.groups = groups
        return _product(rows, weight, groups.sizes)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        rows, weight = ctx.saved_tensors
        sizes, grad = ctx.groups.sizes, grads[0].contiguous()
        to_rows = to_weight = None
        if ctx.needs_input_grad[0]:
            to_rows = _product(grad, weight.transpose(1, 2), sizes)
        if ctx.needs_input_grad[1]:
            to_weight = torch.empty_like(weight)
            for part, given, target in zip(rows.split(sizes), grad.split(sizes), to_weight, strict=True):
                torch.mm(part.t(), given, out=target)
        return to_rows, to_weight, None


def _product(rows: Tensor, weight: Tensor, sizes: tuple[int, ...]) -> Tensor:
    out = rows.new_empty(rows.size(0), weight.size(2))
    for part, matrix, target in zip(rows.split(sizes), weight, out.split(sizes), strict=True):
        torch.mm(part, matrix, out=target)
    return out


class FusedGroupedLinear(torch.autograd.Function):
    """The same on a GPU, in one launch whatever the number of groups."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, groups: Groups) -> Tensor:
        from powerlink.kernels.gpu.grouped_linear import product_of_runs  # noqa: PLC0415 - only where there is Triton

        ctx.save_for_backward(rows, weight)
        ctx.groups, ctx.precision = groups, scorer_precision()  # asked here: the way back runs in a thread of its own
        return product_of_runs(rows, weight, groups.runs.bounds, ctx.precision)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        from powerlink.kernels.gpu.grouped_linear import outer_of_runs, product_of_runs  # noqa: PLC0415
        from powerlink.kernels.gpu.product_sum import product_sum  # noqa: PLC0415

        rows, weight = ctx.saved_tensors
        runs, grad = ctx.groups.runs, grads[0].contiguous()
        to_rows = to_weight = None
        if ctx.needs_input_grad[0]:
            to_rows = product_of_runs(grad, weight.transpose(1, 2), runs.bounds, ctx.precision)
        if ctx.needs_input_grad[1]:
            shares = outer_of_runs(rows, grad, runs.bounds, ctx.precision)  # (runs, in, out)
            to_weight = product_sum(shares.flatten(1), None, None, runs.by_group).view_as(weight)
        return to_rows, to_weight, None


def grouped_linear(rows: Tensor, weight: Tensor, groups: Groups) -> Tensor:
    """Multiply each group of rows by its own matrix.

    rows (n, in) lie group by group; weight (G, in, out); returns (n, out).
    """
    fused = can_fuse(rows) and rows.dtype == torch.float32  # matrix units multiply no float64
    function = FusedGroupedLinear if fused else _GroupedLinear
    result: Tensor = function.apply(rows, weight, groups)  # type: ignore[no-untyped-call]
    return result
