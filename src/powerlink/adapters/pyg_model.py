"""PyGModel: a user's encoder of message-passing layers and a decoder, as a LinkModel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from powerlink.adapters.layer_runner import Given, LayerRunner, Normaliser
from powerlink.adapters.traced_edges import TracedEdges
from powerlink.adapters.weighted_layers import run_detached
from powerlink.errors import ModelError
from powerlink.graphs.edges import Edges
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.segments import gather
from powerlink.models.protocol import Abilities, Embeddings

Call = Callable[[nn.Module, Tensor | None, Tensor, Tensor], Any]  # encoder, x, edge_index, edge_type → its output
Decoder = Callable[[Tensor, Tensor, Tensor], Tensor]  # vectors of head, relation, tail (n, d) → logits (n,)
ROW_BUDGET = 20_000_000  # numbers of the vectors that are scored at a time


class PyGModel(nn.Module):
    """A LinkModel around an encoder and a decoder that stay the user's."""

    runner: LayerRunner
    nodes: Tensor  # (N, …) what the encoder is given as x
    relations: Tensor | None  # (types, d)

    def __init__(
        self,
        encoder: nn.Module,
        decoder: Decoder,
        whole: MessageGraph,
        *,
        edge_types: Tensor,
        nodes: Tensor | str,
        relations: Tensor | None,
        call: Call,
        normaliser: Normaliser,
    ) -> None:
        super().__init__()
        self.caller = _Caller(encoder, call)
        self.decoder = decoder
        self.num_layers = 1  # known once the encoder has been seen at work
        self.relation_rows = edge_types.to(whole.device)  # (2R,) whose vector a relation has
        self.swap_inverses = False  # (t, r⁻¹, h) is asked as (h, r, t)
        self._widths = (0, 0)  # of nodes and relations, before the narrower are filled up
        self._edge_types = edge_types.to(whole.device)
        self.runner = LayerRunner(self.caller, whole, (self._edge_types >= 0)[whole.relation], normaliser)
        self._table = nodes if isinstance(nodes, str) else None
        self.register_buffer("nodes", None if isinstance(nodes, str) else nodes)
        self.register_buffer("relations", relations)

    @property
    def abilities(self) -> Abilities:
        return Abilities(PyGModel, score_tails=self.score_tails)

    def encode(self, graph: Edges, edge_weight: Tensor | None = None) -> Embeddings:
        """Run the encoder over the graph, each message multiplied by its edge's weight (num_edges,)."""
        rows, relations = self.runner.run(graph, edge_weight, self.run_once)
        rows = rows[: graph.num_nodes]
        self._widths = rows.size(1), relations.size(1)
        width = max(self._widths)
        return Embeddings(_widen(rows, width), _widen(gather(relations.detach(), self.relation_rows), width))

    def run_once(self, given: Given, edge_index: TracedEdges) -> tuple[Tensor, Tensor]:
        """Call the encoder and return node rows (nodes, d) and relation rows (types, d), its own or those given."""
        replaced, x = {}, None
        if self._table is not None:
            table = self.caller.encoder.state_dict()[self._table]
            replaced = {f"encoder.{self._table}": gather(table, given.entity)}
        else:
            x = gather(self.nodes, given.entity)
        edge_type = self._edge_types[self.runner.whole.relation[given.edge]]
        out = run_detached(self.caller, replaced, x, edge_index, edge_type)
        rows, relations = out if isinstance(out, tuple) and len(out) == 2 else (out, None)
        if not isinstance(rows, Tensor) or rows.dim() != 2:
            shape = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
            raise ModelError(
                f"the encoder must return vectors (nodes, d), or those and relations (types, d), not {shape}"
            )
        if rows.size(0) != given.entity.numel():
            raise ModelError(
                f"the encoder returned {rows.size(0)} rows for a graph of {given.entity.numel()} nodes: it looks its "
                "nodes up by itself; name that table with nodes='…', or let the encoder take x"
            )
        relations = self.relations if relations is None else relations
        if relations is None:
            raise ModelError("the encoder returns no relation vectors, so they must be given: relations=…")
        return rows, relations

    def score(self, embeddings: Embeddings, triples: Tensor) -> Tensor:
        """Return the logits (n,) of triples (n, 3) of node, relation, node."""
        head, relation, tail = triples.unbind(1)
        if self.swap_inverses:
            inverse = relation >= self.runner.whole.num_relations
            head, tail = torch.where(inverse, tail, head), torch.where(inverse, head, tail)
        nodes, relations = embeddings.entity[:, : self._widths[0]], embeddings.relation[:, : self._widths[1]]
        logits = self.decoder(gather(nodes, head), gather(relations, relation), gather(nodes, tail))
        if logits.shape != head.shape and logits.numel() != head.numel():
            raise ModelError(
                f"the decoder must return one logit per triple, {tuple(head.shape)}, not {tuple(logits.shape)}"
            )
        return logits.view(-1)

    def score_tails(self, embeddings: Embeddings, head: Tensor, relation: Tensor) -> Tensor:
        """Score every node as the tail of (head, relation, ?), both (n,): logits (n, num_nodes)."""
        nodes = embeddings.entity[:, : self._widths[0]]
        swapped = self.swap_inverses & bool((relation >= self.runner.whole.num_relations).any())
        if hasattr(self.decoder, "match_all") and not swapped:
            relations = embeddings.relation[:, : self._widths[1]]
            query = self.decoder.query(gather(nodes, head), gather(relations, relation))  # type: ignore[attr-defined]
            logits: Tensor = self.decoder.match_all(query, nodes)
            return logits
        size, at_once = nodes.size(0), max(1, ROW_BUDGET // max(nodes.numel(), 1))
        everyone = torch.arange(size, device=head.device)
        parts = []
        for given, asked in zip(head.split(at_once), relation.split(at_once), strict=True):
            columns = given.repeat_interleave(size), asked.repeat_interleave(size), everyone.repeat(given.numel())
            parts.append(self.score(embeddings, torch.stack(columns, dim=1)).view(-1, size))
        return torch.cat(parts)


class _Caller(nn.Module):
    """The encoder and how it is called, as one module, so that its tensors can be replaced for a call."""

    def __init__(self, encoder: nn.Module, call: Call) -> None:
        super().__init__()
        self.encoder = encoder
        self._call = call

    def forward(self, x: Tensor | None, edge_index: Tensor, edge_type: Tensor) -> Any:
        """Call the encoder as its user does."""
        return self._call(self.encoder, x, edge_index, edge_type)


def _widen(rows: Tensor, width: int) -> Tensor:
    """Fill rows up with zeros: what reads nodes beside relations wants them equally wide."""
    return rows if rows.size(1) == width else torch.nn.functional.pad(rows, (0, width - rows.size(1)))
