"""LayerRunner: runs somebody's message-passing layers over any part of a graph, each message weighed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from powerlink.adapters.normaliser import Given, Normaliser, edges_given
from powerlink.adapters.traced_edges import TracedEdges
from powerlink.adapters.weighted_layers import AtInput, LayerCall, weighted
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
        self._module = module
        self._carries = carries.to(whole.device)  # (edges of the whole graph,) bool: a message runs along this edge
        self._levels = 1
        self._given: WeakKeyDictionary[Edges, Given] = WeakKeyDictionary()

    def reach(self, levels: int) -> None:
        """Settle that normalisers matter at nodes at a level below `levels`."""
        self._levels = levels
        self._given.clear()

    def run(self, graph: Edges, edge_weight: Tensor | None, once: Once) -> Any:
        """Make one pass over a graph, each message multiplied by its edge's weight (num_edges,)."""
        given = self._edges_given(graph, edge_weight)
        weight = None
        if edge_weight is not None or given.absent:
            ones = torch.ones(given.own.numel(), device=graph.device)
            own = ones if edge_weight is None else gather(edge_weight, given.own)
            weight = torch.cat([own, own.new_zeros(given.edge.numel() - own.numel())])
        with weighted(self._module, given.edge_index, weight, self._with_absent(given, graph.num_nodes)) as edge_index:
            return once(given, edge_index)

    def observe(self, once: Once) -> Any:
        """Make a pass over the whole graph and keep what every layer is given: absent edges are read from there."""
        self.inputs = {}

        def at_input(call: LayerCall, rows: Tensor) -> Tensor:
            _check_rows(call, rows, self.whole.num_nodes)
            self.inputs.setdefault(call, []).append(rows.detach())
            return rows

        given = self._edges_given(self.whole, None)
        ones = torch.ones(given.edge.numel(), device=self.whole.device)
        with torch.no_grad(), weighted(self._module, given.edge_index, ones, at_input) as edge_index:
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

    def _with_absent(self, given: Given, num_nodes: int) -> AtInput:
        """Give nodes that only normalise the rows they have, at each layer's input, in the whole graph."""
        parts: dict[LayerCall, int] = {}

        def at_input(call: LayerCall, rows: Tensor) -> Tensor:
            _check_rows(call, rows, given.entity.numel())
            if not given.absent:
                return rows
            part = parts.get(call, 0)  # a layer may be given several tensors of rows, one after the other
            parts[call] = part + 1
            if part >= len(self.inputs.get(call, [])):
                raise ModelError(
                    f"layer {call[0]!r} is called otherwise than on the whole graph: it cannot be followed"
                )
            behind = self.inputs[call][part][given.entity[num_nodes:]]
            return torch.cat([rows[:num_nodes], behind.to(rows.dtype)])

        return at_input


def _check_rows(call: LayerCall, rows: Tensor, expected: int) -> None:
    if rows.size(0) != expected:
        raise ModelError(
            f"layer {call[0]!r} is given {rows.size(0)} rows for a graph of {expected} nodes: the encoder looks its "
            "nodes up by itself; name that table with nodes='…', or let the encoder take x"
        )
