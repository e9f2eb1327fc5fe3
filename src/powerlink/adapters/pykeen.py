"""from_pykeen: a trained R-GCN or CompGCN of PyKEEN becomes a Session that can be explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from powerlink.adapters.pykeen_model import CompGCNEncoder, PyKEENModel, RGCNEncoder
from powerlink.errors import MismatchError, ModelError, SettingsError
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kg.pykeen_data import graph_of_factories, pykeen_module
from powerlink.models.session import Session, weights_hash

FILES = ("trained_model.pkl", "training_triples")


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
    encoder = _encoder(model, pykeen)
    facts = training.mapped_triples
    _check_triples(model, training, _own_triples(encoder))
    graph = graph_of_factories(
        training, getattr(data, "validation", None), getattr(data, "testing", None), name=_name_of(data)
    )
    device = next(model.parameters()).device
    adapted = PyKEENModel(encoder, model.interaction, MessageGraph.of(graph, device), facts)
    label = name or f"{type(model).__name__}-{type(model.interaction).__name__.removesuffix('Interaction')}"
    return Session.of(graph, adapted, device, name=label, hash=weights_hash(model))


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


def _encoder(model: Any, pykeen: Any) -> CompGCNEncoder | RGCNEncoder:
    """Find the message-passing layers, or say what can be done about a model that has none."""
    nn = pykeen_module("pykeen.nn")
    entity, relation = (list(getattr(model, f"{part}_representations", [])) for part in ("entity", "relation"))
    first = entity[0] if entity else None
    if isinstance(first, nn.representation.SingleCompGCNRepresentation):
        encoder: CompGCNEncoder | RGCNEncoder = CompGCNEncoder(first.combined)
        weightings = [layer.edge_weighting for layer in first.combined.layers]
    elif isinstance(first, nn.message_passing.RGCNRepresentation):
        encoder, weightings = RGCNEncoder(first, relation[0] if relation else None), [first.edge_weighting]
    else:
        raise ModelError(
            f"{type(model).__name__} passes no messages that can be followed, so no path carries its score: explain a "
            "PyKEEN R-GCN or CompGCN, or train one of powerlink's own models on the same triples (`powerlink train`)"
        )
    if len(entity) != 1 or len(relation) != 1:
        raise ModelError(
            f"{type(model.interaction).__name__} reads {len(entity)} vectors of an entity and {len(relation)} of a "
            "relation: only interactions that read one of each can be explained"
        )
    if any(getattr(weighting, "needs_message", False) for weighting in weightings):
        raise ModelError("edges weighted by PyKEEN's attention cannot be explained: use a weighting by degree")
    return encoder


def _own_triples(encoder: CompGCNEncoder | RGCNEncoder) -> Tensor:
    """Return the facts the model passes messages over, as it keeps them: (n, 3)."""
    if isinstance(encoder, CompGCNEncoder):
        (head, tail), kind = encoder.combined.edge_index, encoder.combined.edge_type
    else:
        kept = encoder.representation
        head, tail, kind = kept.sources, kept.targets, kept.edge_types
    return torch.stack([head, kind, tail], dim=1)


def _check_triples(model: Any, factory: Any, own: Tensor) -> None:
    sizes = (model.num_entities, model.num_real_relations), (factory.num_entities, factory.real_num_relations)
    if sizes[0] != sizes[1]:
        raise MismatchError(
            f"the triples factory is of another data set: it has {sizes[1][0]} entities and {sizes[1][1]} relations, "
            f"the model {sizes[0][0]} and {sizes[0][1]}"
        )
    if not torch.equal(own.cpu().unique(dim=0), factory.mapped_triples.cpu().unique(dim=0)):
        raise MismatchError("the triples factory holds other triples than the model passes messages over")


def _name_of(data: Any) -> str:
    return f"pykeen:{type(data).__name__.lower()}" if hasattr(data, "training") else "pykeen"
