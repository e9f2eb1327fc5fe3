"""Edge weights in somebody else's layers: every message is multiplied on its way, and no trace of it remains.

PyG calls hooks around `propagate` and `message`. They are registered for the length of one forward pass and removed
again whatever happens, and so is all that a forward pass leaves behind in its modules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch_geometric.nn import MessagePassing

from powerlink.adapters.traced_edges import ADDED, TracedEdges
from powerlink.errors import ModelError

LayerCall = tuple[str, int]  # a layer's name, and how often it was called before in the same pass
AtInput = Callable[[LayerCall, Tensor], Tensor]  # sees, and may replace, the node rows a layer is given


def layers_of(module: nn.Module) -> dict[str, MessagePassing]:
    """Return the message-passing layers by name."""
    return {name: layer for name, layer in module.named_modules() if isinstance(layer, MessagePassing)}


def check_flow(module: nn.Module) -> None:
    """Refuse layers in which messages run against the edges: which edges a node reads would be mistaken."""
    for name, layer in layers_of(module).items():
        if layer.flow != "source_to_target":
            raise ModelError(
                f"layer {name!r} ({type(layer).__name__}) passes messages from target to source: turn its edge_index "
                "round and make it with flow='source_to_target'"
            )


@contextmanager
def weighted(
    module: nn.Module, edge_index: Tensor, weight: Tensor | None, at_input: AtInput | None = None
) -> Iterator[TracedEdges]:
    """Multiply every message of the passes run inside by its edge's weight (E,); yields the edge_index to give."""
    edges = torch.arange(edge_index.size(1), device=edge_index.device)
    watch = _Watch(layers_of(module), edge_index, edges, weight, at_input)
    with ExitStack() as hooks:
        for layer in watch.names:
            handles = [
                layer.register_propagate_forward_pre_hook(watch.before_propagate),
                layer.register_edge_update_forward_pre_hook(watch.before_edge_update),
                layer.register_message_forward_hook(watch.after_message),
                layer.register_forward_pre_hook(watch.before_layer, with_kwargs=True),
            ]
            for handle in handles:
                hooks.callback(handle.remove)
        yield TracedEdges.of(edge_index, edges.expand(2, -1))


class _Watch:
    """What the hooks of one pass share."""

    def __init__(
        self,
        layers: dict[str, MessagePassing],
        edge_index: Tensor,
        edges: Tensor,
        weight: Tensor | None,
        at_input: AtInput | None,
    ) -> None:
        self.names = {layer: name.removeprefix("encoder.") for name, layer in layers.items()}
        self._edge_index, self._edges, self._at_input = edge_index, edges, at_input
        # what a layer added by itself weighs one: it stands behind the last edge
        self._weight = None if weight is None else torch.cat([weight, weight.new_ones(1)])
        self._current: dict[MessagePassing, Tensor] = {}  # layer → the edges of the propagation it is in
        self._calls: Counter[str] = Counter()

    def before_layer(
        self, layer: MessagePassing, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        call = (self.names[layer], self._calls[self.names[layer]])
        self._calls[self.names[layer]] += 1
        if self._at_input is None:
            return None
        # by PyG's convention node rows come first; the edges may stand before them
        for place, value in enumerate(args):
            if _are_rows(value):
                return (*args[:place], self._rows(call, value), *args[place + 1 :]), kwargs
        name = "x" if "x" in kwargs else next((name for name, value in kwargs.items() if _are_rows(value)), None)
        return args, kwargs if name is None else kwargs | {name: self._rows(call, kwargs[name])}

    def _rows(self, call: LayerCall, value: Any) -> Any:
        assert self._at_input is not None
        if isinstance(value, list | tuple):
            return type(value)(self._rows(call, part) for part in value)
        return self._at_input(call, value) if isinstance(value, Tensor) else value

    def before_propagate(self, layer: MessagePassing, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        edge_index, *rest = inputs
        self._current[layer] = self._edges_of(layer, edge_index)
        return (_plain(edge_index), *rest)

    def before_edge_update(self, layer: MessagePassing, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        edge_index, *rest = inputs
        return (_plain(edge_index), *rest)

    def after_message(self, layer: MessagePassing, inputs: tuple[Any, ...], messages: Tensor) -> Tensor | None:
        if self._weight is None:
            return None
        edges = self._current[layer]
        if messages.size(layer.node_dim) != edges.numel():
            raise ModelError(
                f"layer {self.names[layer]!r} ({type(layer).__name__}) makes {messages.size(layer.node_dim)} messages "
                f"of {edges.numel()} edges: a message per edge is needed to weigh it"
            )
        shape = [1] * messages.dim()
        shape[layer.node_dim] = -1
        return messages * self._weight.index_select(0, edges).to(messages.dtype).view(shape)

    def _edges_of(self, layer: MessagePassing, edge_index: Any) -> Tensor:
        """Tell which edges a propagation runs over; what the layer added by itself comes after the last edge."""
        if isinstance(edge_index, TracedEdges) and torch.equal(edge_index.edge[0], edge_index.edge[1]):
            edge = edge_index.edge[1]
            return torch.where(edge == ADDED, self._edges.numel(), edge)
        if type(edge_index) is Tensor and torch.equal(edge_index, self._edge_index):
            return self._edges
        raise ModelError(
            f"layer {self.names[layer]!r} ({type(layer).__name__}) passes messages over other edges than the "
            "edge_index it is given (kept from an earlier call, built anew, or a sparse matrix), so they cannot be "
            "weighed: let it use the edge_index of the call, sliced or extended as it likes, and switch caching off"
        )


def _are_rows(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_are_rows, value))
    return isinstance(value, Tensor) and not isinstance(value, TracedEdges)


def _plain(edge_index: Any) -> Any:
    return edge_index.plain if isinstance(edge_index, TracedEdges) else edge_index


def run_detached(module: nn.Module, replaced: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
    """Call a module with some of its tensors replaced, and leave it as it was.

    Parameters get no gradient; buffers and attributes that the call writes, and the random state, are put back.
    """
    tensors = {name: parameter.detach() for name, parameter in module.named_parameters()}
    tensors |= {name: buffer.clone() for name, buffer in module.named_buffers()} | replaced
    devices = sorted({t.device.index for t in tensors.values() if t.device.type == "cuda"})
    saved = [(part, dict(part.__dict__)) for part in module.modules()]
    try:
        with torch.random.fork_rng(devices=devices):
            return functional_call(module, tensors, args, kwargs)
    finally:
        for part, attributes in saved:
            part.__dict__.clear()
            part.__dict__.update(attributes)
