"""Edge weights in somebody else's layers: every message is multiplied on its way, and no trace of it remains.

PyG calls hooks around `propagate` and `message`. They are registered for the length of one forward pass and removed
again whatever happens, and so is all that a forward pass leaves behind in its modules.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch_geometric.nn import MessagePassing

from powerlink.adapters.messages import Make, MessageArguments
from powerlink.adapters.traced_edges import ADDED, TracedEdges
from powerlink.errors import ModelError

LayerCall = tuple[str, int]  # a layer's name, and how often it was called before in the same pass


class ByEdge:
    """Which arguments of a layer's call, and of its messages, have a row per edge, as all watched passes agree."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], set[int | str]] = {}  # by layer and method

    def watch(self, layer: str, method: str, arguments: Mapping[Any, Any], count: int) -> None:
        """Look at the arguments of a pass over `count` edges."""
        rows = {name for name, value in arguments.items() if isinstance(value, Tensor) and value.size()[:1] == (count,)}
        self._names[layer, method] = self._names.get((layer, method), rows) & rows

    def of(self, layer: str, method: str, arguments: Mapping[Any, Any], count: int) -> dict[Any, Tensor]:
        """Return those of the arguments."""
        names = self._names.get((layer, method), set())
        return {name: v for name, v in arguments.items() if name in names and v is not None and v.size(0) == count}


class Onlooker:
    """Who sees what layers are given and what they return, and may have a say in it; this one has none."""

    by_edge: ByEdge | None = None
    saves = False  # what is not needed is left out; else the pass is watched for what is by edge

    def at_input(self, call: LayerCall, rows: Tensor) -> Tensor:
        """See, and perhaps replace, the node rows a layer is given."""
        return rows

    def needed(self, call: LayerCall) -> Tensor | None:
        """Tell into which nodes messages are needed, (nodes,) bool; None: into all."""
        return None

    def at_messages(self, call: LayerCall, given: MessageArguments, make: Make) -> Tensor:
        """Make the messages of a propagation, perhaps in another way: (edges, …)."""
        return make(**given.arguments)

    def at_output(self, call: LayerCall, rows: Tensor) -> Tensor:
        """See, and perhaps replace, the node rows a layer returns."""
        return rows


_ONE_PASS = threading.RLock()  # hooks are on a module for all threads that call it


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
    module: nn.Module, edge_index: Tensor, weight: Tensor | None, onlooker: Onlooker | None = None
) -> Iterator[TracedEdges]:
    """Multiply every message of the passes run inside by its edge's weight (E,); yields the edge_index to give."""
    edges = torch.arange(edge_index.size(1), device=edge_index.device)
    watch = _Watch(layers_of(module), edge_index, edges, weight, onlooker or Onlooker())
    with _ONE_PASS, ExitStack() as hooks:
        for layer in watch.names:
            handles = [
                layer.register_propagate_forward_pre_hook(watch.before_propagate),
                layer.register_edge_update_forward_pre_hook(watch.before_edge_update),
                layer.register_message_forward_hook(watch.after_message),
                layer.register_forward_pre_hook(watch.before_layer, with_kwargs=True),
                layer.register_forward_hook(watch.after_layer),
            ]
            for handle in handles:
                hooks.callback(handle.remove)
            if watch.looks_at_edges:
                layer.message = partial(watch.message, layer, layer.message)  # no hook can make them in pieces
                hooks.callback(layer.__dict__.pop, "message")
        yield TracedEdges.of(edge_index, edges.expand(2, -1))


class _Watch:
    """What the hooks of one pass share."""

    def __init__(
        self,
        layers: dict[str, MessagePassing],
        edge_index: Tensor,
        edges: Tensor,
        weight: Tensor | None,
        onlooker: Onlooker,
    ) -> None:
        self.names = {layer: name.removeprefix("encoder.") for name, layer in layers.items()}
        self._edge_index, self._edges, self._onlooker = edge_index, edges, onlooker
        # what a layer added by itself weighs one: it stands behind the last edge
        self._weight = None if weight is None else torch.cat([weight, weight.new_ones(1)])
        self._current: dict[MessagePassing, Tensor] = {}  # layer → the edges of the propagation it is in
        self._ends: dict[MessagePassing, Tensor] = {}  # layer → source and target of those edges
        self._calls: Counter[str] = Counter()

    def before_layer(
        self, layer: MessagePassing, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        call = (self.names[layer], self._calls[self.names[layer]])
        self._calls[self.names[layer]] += 1
        arguments: dict[Any, Any] = dict(enumerate(args)) | kwargs
        # by PyG's convention node rows come first; the edges may stand before them
        rows: Any = next((name for name, value in arguments.items() if _are_rows(value)), None)
        if rows in kwargs and "x" in kwargs:
            rows = "x"
        if rows is not None:
            arguments[rows] = self._rows(call, arguments[rows])
        self._keep_needed(call, arguments, rows)
        return tuple(arguments[i] for i in range(len(args))), {name: arguments[name] for name in kwargs}

    def _rows(self, call: LayerCall, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(self._rows(call, part) for part in value)
        return self._onlooker.at_input(call, value) if isinstance(value, Tensor) else value

    def _keep_needed(self, call: LayerCall, arguments: dict[Any, Any], rows: Any) -> None:
        """Leave out the edges that the layer need not be given, and what belongs to them."""
        place = next((name for name, value in arguments.items() if _are_edges(value)), None)
        by_edge, needed = self._onlooker.by_edge, self._onlooker.needed(call)
        if place is None or by_edge is None:
            return
        index, others = arguments[place], {n: v for n, v in arguments.items() if n not in (place, rows)}
        if not self._onlooker.saves:
            by_edge.watch(call[0], "forward", others, index.size(1))
        elif needed is not None:
            kept = some(needed[index.plain[1]])
            for name, value in by_edge.of(call[0], "forward", others, index.size(1)).items():
                arguments[name] = value[kept]
            arguments[place] = index[:, kept]

    def after_layer(self, layer: MessagePassing, inputs: tuple[Any, ...], output: Any) -> Any:
        call = (self.names[layer], self._calls[self.names[layer]] - 1)
        if isinstance(output, tuple) and output and isinstance(output[0], Tensor):
            return (self._onlooker.at_output(call, output[0]), *output[1:])
        return self._onlooker.at_output(call, output) if isinstance(output, Tensor) else output

    def before_propagate(self, layer: MessagePassing, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        edge_index, *rest = inputs
        self._current[layer], self._ends[layer] = self._edges_of(layer, edge_index), _plain(edge_index)
        return (self._ends[layer], *rest)

    def before_edge_update(self, layer: MessagePassing, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        edge_index, *rest = inputs
        return (_plain(edge_index), *rest)

    @property
    def looks_at_edges(self) -> bool:
        return self._onlooker.by_edge is not None

    def message(self, layer: MessagePassing, make: Make, **arguments: Any) -> Tensor:
        """Make a layer's messages as it makes them, perhaps piece by piece."""
        by_edge, (source, target) = self._onlooker.by_edge, self._ends[layer]
        assert by_edge is not None
        call = (self.names[layer], self._calls[self.names[layer]] - 1)
        if not self._onlooker.saves:
            by_edge.watch(call[0], "message", arguments, source.numel())
        rows = by_edge.of(call[0], "message", arguments, source.numel())
        return self._onlooker.at_messages(call, MessageArguments(arguments, rows, source, target), make)

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


def some(kept: Tensor) -> Tensor:
    """Keep at least the first edge, (edges,) bool: layers may not be made for none."""
    return kept | (torch.arange(kept.numel(), device=kept.device) < int(not kept.any()))


def _are_rows(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_are_rows, value))
    return isinstance(value, Tensor) and not isinstance(value, TracedEdges)


def _are_edges(value: Any) -> bool:
    return isinstance(value, TracedEdges) and value.dim() == 2 and value.size(0) == 2


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
