"""from_pykeen: a trained model of PyKEEN becomes a Session that can be explained.

Models without message passing are in pykeen_vectors.py; here are R-GCN and CompGCN.

PyKEEN keeps the graph in buffers and computes its normalisers from them, so its own forward cannot be asked about
another graph. Its layers can: they are called here with the edges of the graph in question and the normalisers of the
whole graph. Nothing of the model is written to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from powerlink.adapters.pykeen_vectors import PyKEENVectors, check_vectors
from powerlink.adapters.wiring import find_edges
from powerlink.errors import MismatchError, ModelError, SettingsError
from powerlink.graphs.edges import Edges
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.segments import gather, segment_sum
from powerlink.kg.pykeen_data import graph_of_factories, pykeen_module
from powerlink.models.protocol import Abilities, Embeddings, LinkModel
from powerlink.models.session import Session, weights_hash

FILES = ("trained_model.pkl", "training_triples")
ROW_BUDGET = 20_000_000  # numbers of the vectors that are scored at a time


def from_pykeen(result_or_model: Any, triples_factory: Any = None, *, name: str = "") -> Session:
    """Make a PyKEEN model explainable; see docs/how-to/explain-a-pykeen-model.md.

    `triples_factory`: the training triples, or the whole data set, so that ranks leave out all that is known; a
    pipeline result brings its own training triples.
    """
    pykeen = pykeen_module("pykeen.models")
    model = getattr(result_or_model, "model", result_or_model)
    if not isinstance(model, pykeen.Model):
        raise ModelError(f"a PyKEEN model or pipeline result is needed, not {type(result_or_model).__name__}")
    data = triples_factory
    if data is None and model is not result_or_model:
        data = result_or_model.training
    if data is None:
        raise SettingsError("the model's training triples are needed too: from_pykeen(model, triples_factory)")
    training = getattr(data, "training", data)
    encoder = _encoder(model)
    _check_triples(model, training, None if encoder is None else encoder.facts())
    name_of_data = f"pykeen:{type(data).__name__.lower()}" if hasattr(data, "training") else "pykeen"
    others = getattr(data, "validation", None), getattr(data, "testing", None)
    graph = graph_of_factories(training, *others, name=name_of_data)
    device = next(model.parameters()).device
    adapted: nn.Module = (
        PyKEENVectors(model, graph.num_relations).to(device)
        if encoder is None
        else PyKEENModel(encoder, model.interaction, MessageGraph.of(graph, device), training.mapped_triples)
    )
    label = name or f"{type(model).__name__}-{type(model.interaction).__name__.removesuffix('Interaction')}"
    return Session.of(graph, cast(LinkModel, adapted), device, name=label, hash=weights_hash(model))


def load_pykeen(folder: str | Path, device: torch.device | str = "cpu") -> Session:
    """Read a folder that PyKEEN's `result.save_to_directory` wrote; its model is a pickle: open only what you trust."""
    factories = pykeen_module("pykeen.triples")
    folder = Path(folder)
    for part in FILES:
        if not (folder / part).exists():
            raise ModelError(f"{folder} holds no {part}: it is not what PyKEEN's result.save_to_directory writes")
    try:
        model = torch.load(folder / FILES[0], map_location=device, weights_only=False)
        training = factories.TriplesFactory.from_path_binary(folder / FILES[1])
    except Exception as error:  # a pickle can fail in any way
        raise ModelError(f"{folder} cannot be read as a PyKEEN result ({type(error).__name__}: {error})") from error
    return from_pykeen(model, training)


def _encoder(model: Any) -> CompGCNEncoder | RGCNEncoder | None:
    """Find the message-passing layers; None of a model that has vectors alone."""
    kinds = pykeen_module("pykeen.nn")
    entity, relation = (list(getattr(model, f"{part}_representations", [])) for part in ("entity", "relation"))
    first = entity[0] if entity else None
    if isinstance(first, kinds.representation.SingleCompGCNRepresentation):
        encoder: CompGCNEncoder | RGCNEncoder = CompGCNEncoder(first.combined)
        weightings = [layer.edge_weighting for layer in first.combined.layers]
    elif isinstance(first, kinds.message_passing.RGCNRepresentation):
        encoder, weightings = RGCNEncoder(first, relation[0] if relation else None), [first.edge_weighting]
    else:
        check_vectors(model)
        return None
    if len(entity) != 1 or len(relation) != 1:
        raise ModelError(
            f"{type(model.interaction).__name__} reads {len(entity)} vectors of an entity and {len(relation)} of a "
            "relation: only interactions that read one of each can be explained"
        )
    if any(getattr(weighting, "needs_message", False) for weighting in weightings):
        raise ModelError("edges weighted by PyKEEN's attention cannot be explained: use a weighting by degree")
    return encoder


def _check_triples(model: Any, factory: Any, own: Tensor | None) -> None:
    sizes = (model.num_entities, model.num_real_relations), (factory.num_entities, factory.real_num_relations)
    if sizes[0] != sizes[1]:
        raise MismatchError(
            f"the triples factory is of another data set: it has {sizes[1][0]} entities and {sizes[1][1]} relations, "
            f"the model {sizes[0][0]} and {sizes[0][1]}"
        )
    if own is not None and not torch.equal(own.cpu().unique(dim=0), factory.mapped_triples.cpu().unique(dim=0)):
        raise MismatchError("the triples factory holds other triples than the model passes messages over")


class CompGCNEncoder(nn.Module):
    """pykeen.nn.representation.CombinedCompGCNRepresentations, layer by layer."""

    def __init__(self, combined: Any) -> None:
        super().__init__()
        self.combined = combined
        self.num_layers = len(combined.layers)

    def facts(self) -> Tensor:
        """Return the facts the model passes messages over, as it keeps them: (n, 3)."""
        (head, tail), kind = self.combined.edge_index, self.combined.edge_type
        return torch.stack([head, kind, tail], dim=1)

    def start(self) -> tuple[Tensor, Tensor]:
        """Return the input rows of all entities (N, d) and of all relations (2R, d), relation r at 2r and 2r + 1."""
        return self.combined.entity_representations(), self.combined.relation_representations()

    def norms(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Return what a fact's message is multiplied by in each direction; all layers weigh edges alike."""
        head, _, tail = facts.unbind(1)
        weighting = self.combined.layers[0].edge_weighting
        return weighting(source=head, target=tail), weighting(source=tail, target=head)

    def layer(self, depth: int, x: Tensor, relations: Tensor, graph: Edges, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Pass messages once: facts by one matrix, inverses by another, a node to itself by a third."""
        layer = self.combined.layers[depth]
        inverse = graph.relation >= graph.num_relations
        received = torch.zeros(x.size(0), layer.w_fwd.size(1), dtype=x.dtype, device=x.device)
        for matrix, side in ((layer.w_fwd, ~inverse), (layer.w_bwd, inverse)):
            edge = side.nonzero().squeeze(1)
            rows = 2 * (graph.relation[edge] % graph.num_relations) + (matrix is layer.w_bwd)
            messages = layer.composition(gather(x, graph.source[edge]), gather(relations, rows)) @ matrix
            received = received + segment_sum(messages * weight[edge].unsqueeze(1), graph.target[edge], x.size(0))
        out = (layer.composition(x, layer.self_loop) @ layer.w_loop + received) / 3
        if layer.bias:
            out = layer.bias(out)
        return layer.activation(layer.bn(out)), layer.w_rel(relations)


class RGCNEncoder(nn.Module):
    """pykeen.nn.message_passing.RGCNRepresentation, layer by layer."""

    def __init__(self, representation: Any, relations: Any) -> None:
        super().__init__()
        self.representation, self.relations = representation, relations
        self.num_layers = len(representation.layers)

    def facts(self) -> Tensor:
        """Return the facts the model passes messages over, as it keeps them: (n, 3)."""
        kept = self.representation
        return torch.stack([kept.sources, kept.edge_types, kept.targets], dim=1)

    def start(self) -> tuple[Tensor, Tensor]:
        """Return the input rows of all entities (N, d) and of all relations (R, d)."""
        return self.representation.entity_embeddings(indices=None), self.relations(indices=None)

    def norms(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Return what a fact's message is multiplied by, the same in both directions; degrees are by relation."""
        norm = torch.ones(facts.size(0), device=facts.device)
        if self.representation.edge_weighting is not None:
            for relation in facts[:, 1].unique():
                same = facts[:, 1] == relation
                norm[same] = self.representation.edge_weighting(facts[same, 0], facts[same, 2])
        return norm, norm

    def layer(self, depth: int, x: Tensor, relations: Tensor, graph: Edges, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Pass messages once. In PyKEEN's R-GCN the `source` of an edge is who receives: a fact's head by `fwd`."""
        layer = self.representation.layers[depth]
        inverse = graph.relation >= graph.num_relations
        out = layer.self_loop(x)
        for decomposition, side in ((layer.bwd, ~inverse), (layer.fwd, inverse)):
            edge = side.nonzero().squeeze(1)
            out = decomposition(
                x=x,
                source=graph.target[edge],
                target=graph.source[edge],
                edge_type=graph.relation[edge] % graph.num_relations,
                edge_weights=weight[edge].to(x.dtype),
                accumulator=out,
            )
        return out if layer.activation is None else layer.activation(out), relations


class PyKEENModel(nn.Module):
    """A LinkModel around an encoder of PyKEEN's and its interaction function."""

    def __init__(
        self, encoder: CompGCNEncoder | RGCNEncoder, interaction: Any, whole: MessageGraph, facts: Tensor
    ) -> None:
        super().__init__()
        self.encoder, self.interaction = encoder, interaction
        with torch.no_grad():
            to_tail, to_head = encoder.norms(facts.to(whole.device))
        inverse = whole.relation >= whole.num_relations
        self._norm = torch.where(inverse, to_head[whole.fact], to_tail[whole.fact])  # (edges of the whole graph,)
        self._whole = whole
        self.swap_inverses = isinstance(encoder, RGCNEncoder)  # it has no vectors for inverses: asks (h, r, t) instead
        relation = torch.arange(whole.num_relations, device=whole.device)
        rows = [relation, relation] if self.swap_inverses else [2 * relation, 2 * relation + 1]
        self._rows = torch.cat(rows)

    @property
    def num_layers(self) -> int:
        return self.encoder.num_layers

    @property
    def abilities(self) -> Abilities:
        return Abilities(PyKEENModel, score_tails=self.score_tails)

    def encode(self, graph: Edges, edge_weight: Tensor | None = None) -> Embeddings:
        """Pass messages over the graph, each multiplied by its edge's weight (num_edges,) and whole-graph norm."""
        table, relations = self.encoder.start()
        weight = self._norm[find_edges(self._whole, graph)].to(table.dtype)
        if edge_weight is not None:
            weight = weight * edge_weight
        x = gather(table, graph.entity)
        for depth in range(self.num_layers):
            x, relations = self.encoder.layer(depth, x, relations, graph, weight)
        return Embeddings(x, gather(relations, self._rows))

    def score(self, embeddings: Embeddings, triples: Tensor) -> Tensor:
        """Return the interaction's scores (n,) of triples (n, 3) of node, relation, node."""
        head, relation, tail = triples.unbind(1)
        if self.swap_inverses:
            inverse = relation >= self._whole.num_relations
            head, tail = torch.where(inverse, tail, head), torch.where(inverse, head, tail)
        nodes = embeddings.entity
        scores: Tensor = self.interaction(
            h=gather(nodes, head), r=gather(embeddings.relation, relation), t=gather(nodes, tail)
        )
        return scores.view(-1)

    def score_tails(self, embeddings: Embeddings, head: Tensor, relation: Tensor) -> Tensor:
        """Score every node as the tail of (head, relation, ?), both (n,): logits (n, num_nodes)."""
        nodes, parts = embeddings.entity, []
        at_once = max(1, ROW_BUDGET // max(nodes.numel(), 1))
        for some, kind in zip(head.split(at_once), relation.split(at_once), strict=True):
            given, asked = nodes[some].unsqueeze(1), embeddings.relation[kind].unsqueeze(1)  # (b, 1, d)
            forward: Tensor = self.interaction(h=given, r=asked, t=nodes.unsqueeze(0))
            if self.swap_inverses:
                backward = self.interaction(h=nodes.unsqueeze(0), r=asked, t=given)
                inverse = (kind >= self._whole.num_relations).unsqueeze(1)
                forward = torch.where(inverse, backward, forward)
            parts.append(forward)
        return torch.cat(parts)
