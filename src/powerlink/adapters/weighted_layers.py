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
from powerlink.adapters.traced_edges import ADDED, TracedEdges, plain
from powerlink.errors import ModelError

LayerCall = tuple[str, int]  # a layer's name, and how often it was called before in the same pass
RowNames = dict[tuple[str, str], set[Any]]  # by layer and method, the arguments that have a row per edge
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


class Pass:
    """One pass of a module over edges of some weight (E,); whoever inherits it has a say in what its layers do."""

    saves = False  # what is not needed is left out

    def __init__(
        self, module: nn.Module, edge_index: Tensor, weight: Tensor | None, row_names: RowNames | None = None
    ) -> None:
        self._names = {layer: name.removeprefix("encoder.") for name, layer in layers_of(module).items()}
        self._edges = TracedEdges.of(
            edge_index, torch.arange(edge_index.size(1), device=edge_index.device).expand(2, -1)
        )
        self._row_names = {} if row_names is None else row_names
        # what a layer added by itself weighs one: it stands behind the last edge
        self._weight = None if weight is None else torch.cat([weight, weight.new_ones(1)])
        self._current: dict[MessagePassing, tuple[Tensor, Tensor]] = {}  # edges it propagates over, and their ends
        self._calls: Counter[str] = Counter()

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

    @contextmanager
    def weighing(self) -> Iterator[TracedEdges]:
        """Multiply every message of the call inside by its edge's weight; yields the edge_index to give."""
        with _ONE_PASS, ExitStack() as hooks:
            for layer in self._names:
                handles = [
                    layer.register_propagate_forward_pre_hook(self._before_propagate),
                    layer.register_edge_update_forward_pre_hook(self._before_edge_update),
                    layer.register_message_forward_hook(self._after_message),
                    layer.register_forward_pre_hook(self._before_layer, with_kwargs=True),
                    layer.register_forward_hook(self._after_layer),
                ]
                for handle in handles:
                    hooks.callback(handle.remove)
                layer.message = partial(self._message, layer, layer.message)  # no hook can make them in pieces
                hooks.callback(layer.__dict__.pop, "message")
            yield self._edges

    def _before_layer(
        self, layer: MessagePassing, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        self._calls[self._names[layer]] += 1
        call = self._call(layer)
        arguments: dict[Any, Any] = dict(enumerate(args)) | kwargs
        # by PyG's convention node rows come first; the edges may stand before them
        rows: Any = next((name for name, value in arguments.items() if _are_rows(value)), None)
        if rows in kwargs and "x" in kwargs:
            rows = "x"
        if rows is not None:
            arguments[rows] = self._rows(call, arguments[rows])
        self._keep_needed(call, arguments, rows)
        return tuple(arguments[i] for i in range(len(args))), {name: arguments[name] for name in kwargs}

    def _call(self, layer: MessagePassing) -> LayerCall:
        return self._names[layer], self._calls[self._names[layer]] - 1

    def _rows(self, call: LayerCall, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(self._rows(call, part) for part in value)
        return self.at_input(call, value) if isinstance(value, Tensor) else value

    def _keep_needed(self, call: LayerCall, arguments: dict[Any, Any], rows: Any) -> None:
        """Leave out the edges that the layer need not be given, and what belongs to them."""
        place = next((name for name, value in arguments.items() if _are_edges(value)), None)
        needed = self.needed(call)
        if place is None:
            return
        index, others = arguments[place], {n: v for n, v in arguments.items() if n not in (place, rows)}
        by_edge = self._by_edge(call, "forward", others, index.size(1))
        if needed is not None:
            kept = some(needed[plain(index)[1]])
            arguments |= {name: value[kept] for name, value in by_edge.items()}
            arguments[place] = index[:, kept]

    def _by_edge(self, call: LayerCall, method: str, arguments: Mapping[Any, Any], count: int) -> dict[Any, Tensor]:
        """Return the arguments that have a row per edge, as all passes agree in which nothing is left out."""
        found = {n: v for n, v in arguments.items() if isinstance(v, Tensor) and v.size()[:1] == (count,)}
        names = self._row_names.get((call[0], method), set(found))
        if not self.saves:
            names = self._row_names[call[0], method] = names & found.keys()
        return {name: rows for name, rows in found.items() if name in names}

    def _after_layer(self, layer: MessagePassing, inputs: tuple[Any, ...], output: Any) -> Any:
        if isinstance(output, tuple) and output and isinstance(output[0], Tensor):
            return (self.at_output(self._call(layer), output[0]), *output[1:])
        return self.at_output(self._call(layer), output) if isinstance(output, Tensor) else output

    def _before_propagate(self, layer: MessagePassing, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        edge_index, *rest = inputs
        self._current[layer] = self._edges_of(layer, edge_index), plain(edge_index)
        return (plain(edge_index), *rest)

    def _before_edge_update(self, layer: MessagePassing, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        edge_index, *rest = inputs
        return (plain(edge_index), *rest)

    def _message(self, layer: MessagePassing, make: Make, /, **arguments: Any) -> Tensor:
        """Make a layer's messages as it makes them, perhaps piece by piece."""
        call, (_, (source, target)) = self._call(layer), self._current[layer]
        rows = self._by_edge(call, "message", arguments, source.numel())
        return self.at_messages(call, MessageArguments(arguments, rows, source, target), make)

    def _after_message(self, layer: MessagePassing, inputs: tuple[Any, ...], messages: Tensor) -> Tensor | None:
        if self._weight is None:
            return None
        edges, _ = self._current[layer]
        if messages.size(layer.node_dim) != edges.numel():
            raise ModelError(
                f"layer {self._names[layer]!r} ({type(layer).__name__}) makes {messages.size(layer.node_dim)} messages "
                f"of {edges.numel()} edges: a message per edge is needed to weigh it"
            )
        shape = [1] * messages.dim()
        shape[layer.node_dim] = -1
        return messages * self._weight.index_select(0, edges).to(messages.dtype).view(shape)

    def _edges_of(self, layer: MessagePassing, edge_index: Any) -> Tensor:
        """Tell which edges a propagation runs over; what the layer added by itself comes after the last edge."""
        if isinstance(edge_index, TracedEdges) and torch.equal(edge_index.edge[0], edge_index.edge[1]):
            edge = edge_index.edge[1]
            return torch.where(edge == ADDED, self._edges.size(1), edge)
        if type(edge_index) is Tensor and torch.equal(edge_index, plain(self._edges)):
            return self._edges.edge[0]
        raise ModelError(
            f"layer {self._names[layer]!r} ({type(layer).__name__}) passes messages over other edges than the "
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
