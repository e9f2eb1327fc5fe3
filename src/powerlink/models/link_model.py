"""An encoder and a decoder make a link model."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn

from powerlink.graphs.edges import Edges, EdgeSlice
from powerlink.graphs.focus import focus
from powerlink.models.catalog import find_decoder, find_encoder
from powerlink.models.encoders.layered import LayeredEncoder, Prepared
from powerlink.models.free_vectors import FreeVectors
from powerlink.models.model_settings import ModelSettings as ModelSettings  # noqa: PLC0414 - where it is looked for
from powerlink.models.protocol import Abilities, Embeddings

# edges × width of a whole graph that a CPU, a GPU passes at a time: 1 and 8 GiB a tensor
NUMBERS_AT_ONCE = 2**28, 2**31


class EncoderDecoder(nn.Module):
    """A trainable LinkModel: an encoder's vectors, read by a decoder."""

    def __init__(self, settings: ModelSettings, num_entities: int, num_relations: int) -> None:
        super().__init__()
        self.settings = settings
        self.num_relations = num_relations
        encoder, decoder = find_encoder(settings.encoder.name), find_decoder(settings.decoder.name)
        self.encoder = encoder(settings.encoder, num_entities, num_relations, settings.widths)
        self.decoder = decoder(settings.decoder, settings.widths[-1])
        # An untrained model holds each of N tails for right once in N times. From zero it would first have to learn
        # that nearly everything is wrong, and bend its vectors for it.
        bias = torch.full((num_entities,), -math.log(num_entities))
        self.bias = None if self.decoder.measures_distance else nn.Parameter(bias)
        self.encoder.scale_output(self.decoder.first_scale(settings.widths[-1], num_entities))
        if self.decoder.measures_distance:
            self.encoder.size_inputs()  # products learn as well from less
        self.output_dropout = nn.Dropout(settings.output_dropout)

    @property
    def num_layers(self) -> int:
        return len(self.settings.widths) - 1

    @property
    def abilities(self) -> Abilities:
        own = None
        if not self.num_layers:
            own = FreeVectors(self.encoder.entity, self.bias, self.encoder.relation, self.decoder)
        return Abilities(
            EncoderDecoder,
            adds_messages=True,  # every LayeredEncoder ends its messages in one weighted sum per node
            layers=self if self.num_layers else None,
            retrainable=own,
            score_tails=self.score_tails,
            score_tails_of=self.score_tails_of,
            prepare_logits=self.prepare_logits,
            in_double=self.in_double,
        )

    def encode(self, graph: Edges, edge_weight: Tensor | None = None) -> Embeddings:
        """Pass messages over the graph, each multiplied by its edge's weight (num_edges,)."""
        if edge_weight is None and self._too_large(graph):
            most = NUMBERS_AT_ONCE[graph.device.type == "cuda"] // max(self.settings.widths)
            return self._embeddings(
                graph, self.encoder.in_pieces(graph, max(most, 1)), self.encoder.relations_by_layer()[-1]
            )
        return self._encode(graph, edge_weight, self.encoder.prepare(graph))

    def _too_large(self, graph: Edges) -> bool:
        """Say whether to pass a whole graph in pieces: asked without slopes, it need not be held at once."""
        plain = type(self.encoder).forward is LayeredEncoder.forward
        free = plain and not (self.training or torch.is_grad_enabled()) and graph.level is None and graph.heirs is None
        return free and graph.num_edges * max(self.settings.widths) > NUMBERS_AT_ONCE[graph.device.type == "cuda"]

    def _encode(self, graph: Edges, edge_weight: Tensor | None, prepared: Prepared) -> Embeddings:
        return self._embeddings(graph, self.encoder(graph, edge_weight, prepared), prepared.relations[-1])

    def _embeddings(self, graph: Edges, nodes: Tensor, relations: Tensor) -> Embeddings:
        nodes = self.output_dropout(nodes)
        bias = None if self.bias is None else graph.rows_of(self.bias)[: nodes.size(0)].to(nodes.dtype)
        return Embeddings(nodes, relations, bias)

    def inputs(self, entity: Tensor) -> Tensor:
        """Return what the first layer reads of entities (n,): (n, d)."""
        return self.encoder.inputs(entity)

    def sums(self, depth: int, nodes: Tensor, edges: EdgeSlice, weight: Tensor) -> Tensor:
        """Return the sums of a layer's messages, times the edges' weights (E,), of nodes (n, d): (targets, k, d)."""
        return self.encoder.sums(depth, nodes, edges, weight)

    def after(self, depth: int, nodes: Tensor, sums: Tensor) -> Tensor:
        """Return what a layer makes of nodes (n, d) and of their messages' sums (n, k, d): (n, out)."""
        return self.encoder.after(depth, nodes, sums)

    def embeddings(self, nodes: Tensor, entity: Tensor) -> Embeddings:
        """Return what scores are read from, of nodes (n, d) behind the last layer that stand for entities (n,)."""
        bias = None if self.bias is None else self.bias.index_select(0, entity).to(nodes.dtype)
        return Embeddings(self.output_dropout(nodes), self.encoder.relations_by_layer()[-1], bias)

    def prepare_logits(self, graph: Edges, triples: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the logits (n,) of triples (n, 3) as a function of the edges' weights (num_edges,).

        What the triples' nodes do not depend on is left out, and what no weight changes is done here, once.
        """
        head, relation, tail = triples.unbind(1)
        seen, ends = focus(graph, torch.cat([head, tail]), self.num_layers)
        head, tail = ends.split(head.numel()) if head.numel() else (head, tail)
        with torch.no_grad():
            prepared = self.encoder.prepare(seen)
        score = self._scorer(torch.stack([head, relation, tail], dim=1))
        return lambda edge_weight: score(self._encode(seen, edge_weight.index_select(0, seen.edge), prepared))

    def score(self, embeddings: Embeddings, triples: Tensor) -> Tensor:
        """Return the logits (n,) of triples (n, 3) of node, relation, node."""
        return self._scorer(triples)(embeddings)

    def in_double(self) -> EncoderDecoder:
        """Return a copy of the model that computes in float64, ready to be asked.

        It shares the tables of entities, the bulk of a model's numbers: rows are widened as a graph reads them.
        """
        tables = [table for table in (self.encoder.entity, self.bias) if isinstance(table, nn.Parameter)]
        twin = deepcopy(self, {id(table): table for table in tables}).eval()
        shared = set(map(id, tables))
        for numbers in (*twin.parameters(), *twin.buffers()):
            if id(numbers) not in shared and numbers.is_floating_point():
                numbers.data = numbers.data.double()
                numbers.requires_grad_(False)
        return twin

    def _scorer(self, triples: Tensor) -> Callable[[Embeddings], Tensor]:
        """Return the logits (n,) of triples (n, 3) as a function of an encoding."""
        # Many triples share head and relation (candidates of one query): ConvE must not convolve for each of them.
        head, relation, tail = triples.unbind(1)
        count = 2 * self.num_relations
        pairs, of_triple = (head * count + relation).unique(return_inverse=True)
        heads, relations = pairs // count, pairs % count

        def logits(embeddings: Embeddings) -> Tensor:
            nodes, kinds = embeddings.entity, embeddings.relation
            query = self.decoder.query(nodes.index_select(0, heads), kinds.index_select(0, relations))
            found = self.decoder.match(query.index_select(0, of_triple), nodes.index_select(0, tail))
            return found if embeddings.bias is None else found + embeddings.bias.index_select(0, tail)

        return logits

    def score_tails(self, embeddings: Embeddings, head: Tensor, relation: Tensor) -> Tensor:
        """Score every node as the tail of (head, relation, ?), both (n,): logits (n, num_nodes)."""
        return self.score_tails_of(embeddings, embeddings, head, relation)

    def score_tails_of(self, heads: Embeddings, tails: Embeddings, head: Tensor, relation: Tensor) -> Tensor:
        """Score every node of one encoding as the tail for heads (n,) of another: logits (n, num_nodes of tails)."""
        query = self.decoder.query(heads.entity.index_select(0, head), tails.relation.index_select(0, relation))
        with torch.autocast(query.device.type, enabled=False):  # a query may come in bf16, logits must not
            logits = self.decoder.match_all(query.to(tails.entity.dtype), tails.entity)
        return logits if tails.bias is None else logits + tails.bias

    def score_some(
        self, embeddings: Embeddings, head: Tensor, relation: Tensor, tails: Tensor, right: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Score some nodes as tails of all queries (n,), and single ones of single queries: logits (n, K) and (m,).

        tails (K,); `right` are m queries and their tails. A query is made once.
        """
        owner, tail = right
        query = self.decoder.query(
            embeddings.entity.index_select(0, head), embeddings.relation.index_select(0, relation)
        )
        with torch.autocast(query.device.type, enabled=False):
            query = query.to(embeddings.entity.dtype)
            of_all = self.decoder.match_all(query, embeddings.entity.index_select(0, tails))
            of_one = self.decoder.match(query.index_select(0, owner), embeddings.entity.index_select(0, tail))
        if embeddings.bias is None:
            return of_all, of_one
        return of_all + embeddings.bias.index_select(0, tails), of_one + embeddings.bias.index_select(0, tail)


def build_model(settings: ModelSettings, num_entities: int, num_relations: int, seed: int = 0) -> EncoderDecoder:
    """Make a freshly initialised model; the same seed gives the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return EncoderDecoder(settings, num_entities, num_relations)
