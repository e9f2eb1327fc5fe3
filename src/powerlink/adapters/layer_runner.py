"""LayerRunner: runs somebody's message-passing layers over any part of a graph, each message weighed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from powerlink.adapters.messages import KnownMessages, Make, MessageArguments, make_in_pieces
from powerlink.adapters.needs import LayerNeeds, needs_of
from powerlink.adapters.normaliser import Given, Normaliser, edges_given
from powerlink.adapters.traced_edges import TracedEdges
from powerlink.adapters.weighted_layers import ByEdge, LayerCall, Onlooker, some, weighted
from powerlink.errors import ModelError
from powerlink.graphs.edges import Edges
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.segments import gather

Once = Callable[[Given, TracedEdges], Any]  # one pass of the module over the given edges


class LayerRunner:
    """A module, the whole graph it knows, and how its normalisers are read."""

    def __init__(self, module: nn.Module, whole: MessageGraph, carries: Tensor, normaliser: Normaliser) -> None:
        self.whole, self.normaliser = whole, normaliser
        self.inputs: dict[LayerCall, list[Tensor]] = {}  # the node rows (N, …) each layer is given on the whole graph
        self.outputs: dict[LayerCall, Tensor] = {}  # and those it returns
        self.messages: dict[LayerCall, KnownMessages | None] = {}  # and what it sends, where it propagates once
        self.by_edge = ByEdge()
        self._module = module
        self._carries = carries.to(whole.device)  # (edges of the whole graph,) bool: a message runs along this edge
        self._degree = torch.bincount(whole.target[self._carries], minlength=whole.num_nodes)  # (N,)
        self._levels = 1
        self._hops: int | None = None
        self._given: WeakKeyDictionary[Edges, Given] = WeakKeyDictionary()

    def reach(self, levels: int) -> None:
        """Settle that normalisers matter at nodes at a level below `levels`."""
        self._levels = levels
        self._given.clear()

    def save(self, hops: int | None) -> None:
        """Make no message from now on that is not needed, if layers see `hops` far; None: make them all."""
        self._hops = hops if self.inputs and self.outputs.keys() == self.inputs.keys() else None

    @property
    def saves(self) -> bool:
        return self._hops is not None

    def run(self, graph: Edges, edge_weight: Tensor | None, once: Once) -> Any:
        """Make one pass over a graph, each message multiplied by its edge's weight (num_edges,)."""
        given, needs = self._edges_given(graph, edge_weight), {}
        if self._hops is not None:
            needs = self._needs(given, graph, edge_weight, self._hops)
            read = torch.stack([each.read for each in needs.values()]).any(0)
            given = given.only(some(read[given.edge_index[1]]))
        weight = None
        if edge_weight is not None or given.absent:
            ones = torch.ones(graph.num_edges, device=graph.device)
            own = gather(ones if edge_weight is None else edge_weight, given.own)
            weight = torch.cat([own, own.new_zeros(given.edge.numel() - own.numel())])
        onlooker = _Saving(self, given, graph.num_nodes, needs) if needs else _Plain(self, given, graph.num_nodes)
        with weighted(self._module, given.edge_index, weight, onlooker) as edge_index:
            return once(given, edge_index)

    def observe(self, once: Once) -> Any:
        """Make a pass over the whole graph and keep what every layer is given, and what it returns."""
        self.inputs, self.outputs, self.messages = {}, {}, {}
        given = self._edges_given(self.whole, None)
        ones = torch.ones(given.edge.numel(), device=self.whole.device)
        with torch.no_grad(), weighted(self._module, given.edge_index, ones, _Observing(self)) as edge_index:
            return once(given, edge_index)

    def _edges_given(self, graph: Edges, edge_weight: Tensor | None) -> Given:
        """Arrange the edges of a pass; once per graph, unless some weigh zero."""
        zero = edge_weight is not None and bool((edge_weight == 0).any())
        if not zero and graph in self._given:
            return self._given[graph]
        present = edge_weight if zero else None
        given = edges_given(self.whole, graph, present, self._carries, self._levels, self.normaliser)
        if not zero:
            self._given[graph] = given
        return given

    def _needs(self, given: Given, graph: Edges, edge_weight: Tensor | None, hops: int) -> dict[LayerCall, LayerNeeds]:
        """Tell what each layer must compute in a pass; an edge of another weight than one is not the whole graph's."""
        own = given.edge_index[1, : given.own.numel()]
        if edge_weight is not None:
            alike = (edge_weight[given.own] == 1) & (not edge_weight.requires_grad)
            own = own[alike]
        nodes = given.entity.numel()
        intact = torch.bincount(own, minlength=nodes) == self._degree[given.entity]
        wanted = torch.zeros(nodes, dtype=torch.bool, device=graph.device)
        wanted[: graph.num_nodes] = True if graph.level is None else graph.level == 0
        calls = list(self.inputs)
        return dict(zip(calls, needs_of(given, intact, wanted, len(calls), hops), strict=True))


class _Observing(Onlooker):
    """Keeps what layers are given and return on the whole graph."""

    def __init__(self, runner: LayerRunner) -> None:
        self._runner, self.by_edge = runner, runner.by_edge

    def at_input(self, call: LayerCall, rows: Tensor) -> Tensor:
        _check_rows(call, rows, self._runner.whole.num_nodes)
        self._runner.inputs.setdefault(call, []).append(rows.detach())
        return rows

    def at_messages(self, call: LayerCall, given: MessageArguments, make: Make) -> Tensor:
        messages, first = make(**given.arguments), call not in self._runner.messages
        size = self._runner.whole.num_nodes
        self._runner.messages[call] = KnownMessages.of(given, messages, size) if first else None
        return messages

    def at_output(self, call: LayerCall, rows: Tensor) -> Tensor:
        if rows.size(0) == self._runner.whole.num_nodes:
            self._runner.outputs[call] = rows.detach()
        return rows


class _Plain(Onlooker):
    """Gives nodes that only normalise the rows they have, at each layer's input, in the whole graph."""

    def __init__(self, runner: LayerRunner, given: Given, num_nodes: int) -> None:
        self._runner, self._given, self._num_nodes = runner, given, num_nodes
        self.by_edge = runner.by_edge
        self._parts: dict[LayerCall, int] = {}

    def at_input(self, call: LayerCall, rows: Tensor) -> Tensor:
        _check_rows(call, rows, self._given.entity.numel())
        if not self._given.absent:
            return rows
        part = self._parts.get(call, 0)  # a layer may be given several tensors of rows, one after the other
        self._parts[call] = part + 1
        if part >= len(self._runner.inputs.get(call, [])):
            raise ModelError(f"layer {call[0]!r} is called otherwise than on the whole graph: it cannot be followed")
        behind = self._runner.inputs[call][part][self._given.entity[self._num_nodes :]]
        return torch.cat([rows[: self._num_nodes], behind.to(rows.dtype)])


class _Saving(_Plain):
    """Has layers compute what is needed, and puts in what is known."""

    saves = True

    def __init__(self, runner: LayerRunner, given: Given, num_nodes: int, needs: dict[LayerCall, LayerNeeds]) -> None:
        super().__init__(runner, given, num_nodes)
        self._needs = needs

    def needed(self, call: LayerCall) -> Tensor | None:
        return self._needs[call].read if call in self._needs else None

    def at_messages(self, call: LayerCall, given: MessageArguments, make: Make) -> Tensor:
        if call not in self._needs:
            return make(**given.arguments)
        known, entity = self._needs[call].known_before, self._given.entity
        return make_in_pieces(make, given, self._runner.messages.get(call), entity, known)

    def at_output(self, call: LayerCall, rows: Tensor) -> Tensor:
        if call not in self._needs:
            return rows
        known = self._needs[call].known.nonzero().squeeze(1)
        return rows.index_copy(0, known, self._runner.outputs[call][self._given.entity[known]].to(rows.dtype))


def _check_rows(call: LayerCall, rows: Tensor, expected: int) -> None:
    if rows.size(0) != expected:
        raise ModelError(
            f"layer {call[0]!r} is given {rows.size(0)} rows for a graph of {expected} nodes: the encoder looks its "
            "nodes up by itself; name that table with nodes='…', or let the encoder take x"
        )
