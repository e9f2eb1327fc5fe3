"""An encoder and a decoder make a link model."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from powerlink.errors import SettingsError
from powerlink.graphs.edges import Edges
from powerlink.graphs.focus import focus
from powerlink.models.decoders import ConvE, DistMult, TransE
from powerlink.models.encoders import RGCN, WGCN, CompGCN
from powerlink.models.encoders.compgcn import Composition
from powerlink.models.encoders.layered import Prepared
from powerlink.models.protocol import Embeddings
from powerlink.settings import check_settings, setting

EncoderName = Literal["rgcn", "wgcn", "compgcn"]
DecoderName = Literal["transe", "distmult", "conve"]
ENCODERS: tuple[EncoderName, ...] = ("rgcn", "wgcn", "compgcn")
DECODERS: tuple[DecoderName, ...] = ("transe", "distmult", "conve")
# RGCN and WGCN as in the paper, where CompGCN has one layer or two; with two it sees the middle of a path.
DEFAULT_LAYERS: dict[EncoderName, int] = {"rgcn": 1, "wgcn": 2, "compgcn": 2}


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """All that decides a model's shape; saved beside its weights."""

    encoder: EncoderName = "compgcn"
    decoder: DecoderName = "distmult"
    widths: tuple[int, ...] = (100, 100, 100)  # input, then each layer's output
    output_dropout: float = setting(0.2, "dropout on what the encoder returns", least=0, most=1)
    layer_dropout: float = setting(0.1, "dropout in every layer", least=0, most=1)
    blocks: int = setting(5, "RGCN: blocks of each relation's matrix; widths must divide by it", least=1)
    self_loop: bool = setting(False, "WGCN: a node hears itself")
    degree_norm: bool = setting(False, "WGCN: messages times 1/√(deg(source)·deg(target)), as in the other two")
    first_relation_weight: float = setting(1.0, "WGCN: what every relation's weight begins at")
    composition: Composition = setting("mult", "CompGCN: how a neighbour and a relation make a message")
    layer_bias: bool = setting(False, "CompGCN: a bias in every layer")
    margin: float = setting(9.0, "TransE: the score of a triple without distance")
    filters: int = setting(200, "ConvE: how many filters", least=1)
    kernel: int = setting(7, "ConvE: their height and width", least=1)
    image: tuple[int, int] | None = setting(None, "ConvE: rows × columns of one vector; None: the squarest")
    interleave: bool = setting(True, "ConvE: head's and relation's numbers in turn, not one image above the other")
    input_dropout: float = setting(0.2, "ConvE: dropout on the image", least=0, most=1)
    feature_dropout: float = setting(0.2, "ConvE: dropout on the filters' maps", least=0, most=1)
    hidden_dropout: float = setting(0.3, "ConvE: dropout on the projection", least=0, most=1)

    @property
    def name(self) -> str:
        return f"{self.encoder}-{self.decoder}"

    def __post_init__(self) -> None:
        check_settings(self)
        if self.encoder not in ENCODERS:
            raise SettingsError(f"there is no encoder {self.encoder!r}; there are {', '.join(ENCODERS)}")
        if self.decoder not in DECODERS:
            raise SettingsError(f"there is no decoder {self.decoder!r}; there are {', '.join(DECODERS)}")
        if len(self.widths) < 2 or min(self.widths) < 1:
            raise SettingsError(f"a model needs at least one layer and positive widths, not {self.widths}")
        if self.encoder == "rgcn" and any(width % self.blocks for width in self.widths):
            raise SettingsError(f"RGCN's widths {self.widths} must divide by its number of blocks, {self.blocks}")


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Triples as the different pairs of head and relation they ask about."""

    head: Tensor  # (p,)
    relation: Tensor  # (p,)
    of_triple: Tensor  # (n,)
    tail: Tensor  # (n,)


class EncoderDecoder(nn.Module):
    """A trainable LinkModel: an encoder's vectors, read by a decoder."""

    adds_messages: ClassVar[bool] = True  # every encoder here ends its messages in one weighted sum per node

    def __init__(self, settings: ModelSettings, num_entities: int, num_relations: int) -> None:
        super().__init__()
        self.settings = settings
        self.num_entities = num_entities
        self.num_relations = num_relations
        self.encoder = _build_encoder(settings, num_entities, num_relations)
        self.decoder = _build_decoder(settings)
        # An untrained model holds each of N tails for right once in N times. From zero it would first have to learn
        # that nearly everything is wrong, and bend its vectors for it.
        bias = torch.full((num_entities,), -math.log(num_entities))
        self.bias = nn.Parameter(bias) if self.decoder.uses_bias else None
        self.encoder.scale_output(self.decoder.first_scale(settings.widths[-1], num_entities))
        if isinstance(self.decoder, TransE) and isinstance(self.encoder, CompGCN):
            self.encoder.size_inputs()  # distances want the size asked for; products learn as well from less
        self.output_dropout = nn.Dropout(settings.output_dropout)

    @property
    def num_layers(self) -> int:
        return len(self.settings.widths) - 1

    def encode(self, graph: Edges, edge_weight: Tensor | None = None) -> Embeddings:
        """Pass messages over the graph, each multiplied by its edge's weight (num_edges,)."""
        return self._encode(graph, edge_weight, self.encoder.prepare(graph))

    def _encode(self, graph: Edges, edge_weight: Tensor | None, prepared: Prepared) -> Embeddings:
        nodes = self.output_dropout(self.encoder(graph, edge_weight, prepared))
        bias = None if self.bias is None else graph.rows_of(self.bias)[: nodes.size(0)].to(nodes.dtype)
        return Embeddings(nodes, prepared.relations[-1], bias)

    def prepare_logits(self, graph: Edges, triples: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the logits (n,) of triples (n, 3) as a function of the edges' weights (num_edges,).

        What the triples' nodes do not depend on is left out, and what no weight changes is done here, once.
        """
        head, relation, tail = triples.unbind(1)
        seen, ends = focus(graph, torch.cat([head, tail]), self.num_layers)
        head, tail = ends.split(head.numel()) if head.numel() else (head, tail)
        with torch.no_grad():
            prepared = self.encoder.prepare(seen)
        pairs = self._pairs(torch.stack([head, relation, tail], dim=1))

        def logits(edge_weight: Tensor) -> Tensor:
            return self._score(self._encode(seen, edge_weight.index_select(0, seen.edge), prepared), pairs)

        return logits

    def score(self, embeddings: Embeddings, triples: Tensor) -> Tensor:
        """Return the logits (n,) of triples (n, 3) of node, relation, node."""
        return self._score(embeddings, self._pairs(triples))

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

    def _pairs(self, triples: Tensor) -> _Pairs:
        # Many triples share head and relation (candidates of one query): ConvE must not convolve for each of them.
        head, relation, tail = triples.unbind(1)
        count = 2 * self.num_relations
        pairs, place = (head * count + relation).unique(return_inverse=True)
        return _Pairs(pairs // count, pairs % count, place, tail)

    def _score(self, embeddings: Embeddings, pairs: _Pairs) -> Tensor:
        query = self.decoder.query(
            embeddings.entity.index_select(0, pairs.head), embeddings.relation.index_select(0, pairs.relation)
        )
        tails = embeddings.entity.index_select(0, pairs.tail)
        logits = self.decoder.match(query.index_select(0, pairs.of_triple), tails)
        if embeddings.bias is not None:
            logits = logits + embeddings.bias.index_select(0, pairs.tail)
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


def build_model(settings: ModelSettings, num_entities: int, num_relations: int, seed: int = 0) -> EncoderDecoder:
    """Make a freshly initialised model; the same seed gives the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return EncoderDecoder(settings, num_entities, num_relations)


def _build_encoder(settings: ModelSettings, num_entities: int, num_relations: int) -> RGCN | WGCN | CompGCN:
    widths, dropout = settings.widths, settings.layer_dropout
    if settings.encoder == "rgcn":
        return RGCN(num_entities, num_relations, widths, blocks=settings.blocks, dropout=dropout)
    if settings.encoder == "wgcn":
        return WGCN(
            num_entities,
            num_relations,
            widths,
            self_loop=settings.self_loop,
            degree_norm=settings.degree_norm,
            first_relation_weight=settings.first_relation_weight,
            dropout=dropout,
        )
    return CompGCN(
        num_entities,
        num_relations,
        widths,
        composition=settings.composition,
        dropout=dropout,
        bias=settings.layer_bias,
    )


def _build_decoder(settings: ModelSettings) -> TransE | DistMult | ConvE:
    if settings.decoder == "transe":
        return TransE(settings.margin)
    if settings.decoder == "distmult":
        return DistMult()
    return ConvE(
        settings.widths[-1],
        filters=settings.filters,
        kernel=settings.kernel,
        image=settings.image,
        interleave=settings.interleave,
        input_dropout=settings.input_dropout,
        feature_dropout=settings.feature_dropout,
        hidden_dropout=settings.hidden_dropout,
    )
