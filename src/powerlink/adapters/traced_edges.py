"""An edge_index that remembers which edge every column is, however a layer slices, sorts or extends it.

A relational layer may propagate once per relation, over `edge_index[:, edge_type == r]`, and an attention layer may
drop and add self-loops first. To weigh a message one must know its edge, and source and target alone do not
tell: parallel edges share them. So the ids travel along: whatever moves the elements of the index moves their ids in
the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

ADDED = -1  # an element that a layer added by itself, such as a self-loop
MOVES = {
    "__getitem__", "cat", "chunk", "clone", "concat", "concatenate", "contiguous", "detach", "flatten",
    "flip", "gather", "hsplit", "hstack", "index_select", "masked_select", "narrow", "permute", "repeat",
    "reshape", "roll", "select", "split", "squeeze", "stack", "swapaxes", "t", "take", "take_along_dim",
    "tensor_split", "transpose", "unbind", "unsqueeze", "view", "vstack",
}  # fmt: skip


class TracedEdges(Tensor):
    """An index tensor with the edge behind each of its elements; all else gives ordinary tensors."""

    edge: Tensor  # of the same shape

    @classmethod
    def of(cls, index: Tensor, edge: Tensor) -> TracedEdges:
        """Attach edge ids to an index of the same shape."""
        traced: TracedEdges = index.as_subclass(cls)
        traced.edge = edge
        return traced

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            own, named = plain(args), {name: plain(value) for name, value in kwargs.items()}
            result = func(*own, **named)
            if getattr(func, "__name__", "") in MOVES and args and _is_traced(args[0]):
                return _attach(result, func(_ids(args[0]), *own[1:], **named))
        return result


def _is_traced(value: Any) -> bool:
    return isinstance(value, TracedEdges) or (isinstance(value, list | tuple) and any(map(_is_traced, value)))


def plain(value: Any) -> Any:
    """Return an index, or a list or tuple with some, as ordinary tensors."""
    if isinstance(value, TracedEdges):
        with torch._C.DisableTorchFunctionSubclass():
            return value.as_subclass(Tensor)
    return type(value)(map(plain, value)) if isinstance(value, list | tuple) else value


def _ids(value: Any) -> Any:
    if isinstance(value, TracedEdges):
        return value.edge
    return [_ids(part) for part in value] if isinstance(value, list | tuple) else torch.full_like(value, ADDED)


def _attach(result: Any, edge: Any) -> Any:
    if isinstance(result, list | tuple):
        return type(result)(_attach(part, ids) for part, ids in zip(result, edge, strict=True))
    return TracedEdges.of(result, edge)
