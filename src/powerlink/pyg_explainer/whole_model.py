"""WholeModel: a model that takes a graph and the edges to score, in one call, as a LinkModel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from powerlink.adapters.layer_runner import Given, LayerRunner, Normaliser
from powerlink.adapters.traced_edges import TracedEdges
from powerlink.adapters.weighted_layers import run_detached
from powerlink.errors import ModelError
from powerlink.graphs.edges import Edges
from powerlink.models.protocol import Embeddings
from powerlink.pyg_explainer.pairing import PairedEdges

LABELS = "edge_label_index"


@dataclass(frozen=True, eq=False)
class Unread(Embeddings):
    """A graph that has not been encoded yet: the model does it together with scoring."""

    graph: Edges | None = None
    edge_weight: Tensor | None = None


class WholeModel:
    """Scores a triple by calling `model(x, edge_index, edge_label_index=…, …)` over the graph it is asked about.

    `inputs` are the call's other arguments: those named after labels belong to the columns of `edge_label_index`,
    tensors with a row per edge to the edges. `sign`: −1 asks for what keeps a score low.
    """

    def __init__(
        self,
        model: nn.Module,
        x: Tensor,
        edges: PairedEdges,
        inputs: dict[str, Any],
        *,
        label: int,
        sign: float,
        probabilities: bool,
        normaliser: Normaliser,
    ) -> None:
        self._model, self._x, self._edges, self._inputs = model, x, edges, inputs
        self._label, self._sign, self._probabilities = label, sign, probabilities
        self._runner = LayerRunner(model, edges.messages, edges.column >= 0, normaliser)
        own = inputs[LABELS][:, label : label + 1]
        self._runner.observe(lambda given, edge_index: self._call(given, edge_index, own))
        depth = len(self._runner.inputs)
        # a layer may divide by the degree of a message's source, which is decided one hop further away
        self.num_layers = depth + (normaliser == "recomputed")
        self._runner.reach(depth + 1)

    @property
    def hidden(self) -> Tensor:
        """What the last layer is given on the whole graph, (N, d): vectors to tell nodes apart by."""
        rows = list(self._runner.inputs.values())[-1][0]
        return rows.reshape(rows.size(0), -1).to(torch.get_default_dtype())

    def encode(self, graph: Edges, edge_weight: Tensor | None = None) -> Unread:
        """Keep the graph until triples are asked about."""
        nothing = self._x.new_zeros(graph.num_nodes, 1, dtype=torch.get_default_dtype())
        return Unread(nothing, nothing.new_zeros(2 * graph.num_relations, 1), None, graph, edge_weight)

    def score(self, embeddings: Embeddings, triples: Tensor) -> Tensor:
        """Return the logits (n,) of triples (n, 3) of node, relation, node; each is asked as the explained label is."""
        assert isinstance(embeddings, Unread)
        assert embeddings.graph is not None
        ends = triples[:, [0, 2]].t()
        out: Tensor = self._runner.run(
            embeddings.graph, embeddings.edge_weight, lambda given, edge_index: self._call(given, edge_index, ends)
        )
        if self._probabilities:
            out = torch.logit(out, eps=1e-6)
        return self._sign * out

    def _call(self, given: Given, edge_index: TracedEdges, ends: Tensor) -> Tensor:
        column = self._edges.column[given.edge]
        arguments = {name: self._local(name, value, column, ends) for name, value in self._inputs.items()}
        out = run_detached(self._model, {}, self._x[given.entity], edge_index, **arguments)
        if not isinstance(out, Tensor) or out.numel() != ends.size(1):
            shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ModelError(f"the model must return a number per column of {LABELS}, {ends.size(1)} here, not {shape}")
        return out.reshape(-1)

    def _local(self, name: str, value: Any, column: Tensor, ends: Tensor) -> Any:
        if name == LABELS:
            return ends
        if isinstance(value, Tensor) and "label" in name and value.dim():
            return value[self._label].expand(ends.size(1), *value.shape[1:])
        if isinstance(value, Tensor) and value.dim() and value.size(0) == self._edges.num_columns:
            return value[column]
        return value
