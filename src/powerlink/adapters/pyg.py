"""from_pyg: a trained PyG encoder and a decoder become a Session that can be explained."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation

from powerlink.adapters import decoders
from powerlink.adapters.layer_runner import Normaliser
from powerlink.adapters.pyg_model import Call, Decoder, PyGModel
from powerlink.adapters.weighted_layers import check_flow, layers_of
from powerlink.adapters.wiring import Inverse, wire
from powerlink.errors import MismatchError, ModelError, SettingsError, UnknownNameError
from powerlink.graphs.computation_graph import ComputationGraph, edge_bounds, extract
from powerlink.graphs.message_graph import MessageGraph
from powerlink.graphs.what_if import Removals, changed_nodes, what_if
from powerlink.models.session import Session, undisturbed, weights_hash

TRIED_ENTITIES, TRIED_EDGES = 16, 100_000  # that a model is tried on, at most
AskHeads = Literal["auto", "inverse", "swap"]
READY: dict[str, type[nn.Module]] = {
    "transe": decoders.TransE,
    "distmult": decoders.DistMult,
    "complex": decoders.ComplEx,
    "rotate": decoders.RotatE,
}


def from_pyg(
    encoder: nn.Module,
    decoder: Decoder | str,
    graph: Any,
    *,
    nodes: Tensor | nn.Embedding | str | None = None,
    relations: Tensor | nn.Embedding | None = None,
    inverse: Inverse | Sequence[int] = "added",
    normaliser: Normaliser = "recomputed",
    edge_attr: Tensor | None = None,
    call: Call | None = None,
    num_layers: int | None = None,
    ask_heads: AskHeads = "auto",
    names: Any = None,
    relation_names: Sequence[str] | None = None,
    name: str = "",
) -> Session:
    """Make a model of PyG layers explainable; see docs/how-to/explain-a-pyg-model.md.

    * `graph`: a KnowledgeGraph, or Data (edge_index, edge_type) or HeteroData with `names` and `relation_names`.
    * `nodes`: what the encoder starts from: rows (N, d) or ids (N,) given to it as `x`, or the name of its own table.
    * `relations`: the decoder's vectors, a row per relation or per edge type; none if the encoder returns them.
    * `inverse`: which edge type a fact's inverse has; see `wire`.
    * `edge_attr`: a row per edge type, for encoders that take features instead of types.
    * `call(encoder, x, edge_index, edge_type)`: how to call an encoder with other arguments.
    * `ask_heads`: whether (?, r, t) is asked through the inverse's own vector or as (h, r, t) over all h.
    """
    if normaliser not in ("fixed", "recomputed"):
        raise SettingsError(f"normaliser must be fixed or recomputed, not {normaliser!r}")
    wiring = wire(graph, inverse, names, relation_names)
    device = next((tensor.device for tensor in encoder.state_dict().values()), torch.device("cpu"))
    whole = MessageGraph.of(wiring.graph, device)
    _check_layers(encoder, wiring.edge_types, inverse, normaliser)
    rows = _input_rows(encoder, nodes, whole.num_nodes)
    model = PyGModel(
        encoder,
        _ready(decoder),
        whole,
        edge_types=wiring.edge_types,
        nodes=rows,
        relations=None if relations is None else _rows(relations),
        call=call or _call_by_names(encoder, rows, edge_attr),
        normaliser=normaliser,
    )
    with undisturbed(model):
        vectors, kinds = model.runner.observe(model.run_once)
        model.num_layers = num_layers or len(model.runner.inputs)
        model.runner.reach(model.num_layers)
        _settle_relations(model, kinds.size(0), wiring.edge_types, ask_heads)
        _check_messages(model)
        _settle_reach(model, vectors)
        _settle_savings(model)
        made_of = f"{type(encoder).__name__}-{decoder if isinstance(decoder, str) else type(decoder).__name__}"
        # two readings of the same weights say other things of a removal: they are two models
        hash = weights_hash(model, made_of, normaliser)
        return Session.of(wiring.graph, model, device, name=f"{name or made_of}, {normaliser}", hash=hash)


def _ready(decoder: Decoder | str) -> Decoder:
    if not isinstance(decoder, str):
        return decoder
    if decoder == "conve":
        raise SettingsError(
            "ConvE has weights of its own: give the trained module, e.g. powerlink.adapters.ConvE(width)"
        )
    if decoder not in READY:
        raise UnknownNameError("decoder", decoder, [*READY, "conve"])
    return READY[decoder]()


def _rows(table: Tensor | nn.Embedding) -> Tensor:
    return (table.weight if isinstance(table, nn.Embedding) else table).detach()


def _input_rows(encoder: nn.Module, nodes: Tensor | nn.Embedding | str | None, size: int) -> Tensor | str:
    """Settle what nodes start from; without a word, the encoder's one table with a row per entity."""
    tables = {name: tensor for name, tensor in encoder.state_dict(keep_vars=True).items() if tensor.dim()}
    if nodes is None:
        fitting = [name for name, tensor in tables.items() if tensor.size(0) == size]
        if len(fitting) != 1:
            found = f"there are {', '.join(fitting)}" if fitting else "there is none"
            raise ModelError(
                f"which vectors do the {size} entities start from? say nodes=… (rows for x, or the name of a table of "
                f"the encoder); of its tables with {size} rows {found}"
            )
        return fitting[0]
    if isinstance(nodes, str) and nodes not in tables:
        raise UnknownNameError("parameter or buffer of the encoder", nodes, tables)
    rows = tables[nodes] if isinstance(nodes, str) else _rows(nodes)
    if rows.size(0) != size:
        raise MismatchError(f"nodes has {rows.size(0)} rows, but the graph has {size} entities")
    return nodes if isinstance(nodes, str) else rows


def _call_by_names(encoder: nn.Module, nodes: Tensor | str, edge_attr: Tensor | None) -> Call:
    """Give the encoder what its forward asks for by PyG's usual names."""
    parameters = inspect.signature(encoder.forward).parameters
    known = {"x", "edge_index", "edge_type", "edge_attr"}
    asked = [name for name, p in parameters.items() if name in known or p.default is p.empty]
    wrong = [name for name in asked if name not in known]
    if wrong or "edge_index" not in asked:
        raise ModelError(
            f"{type(encoder).__name__}.forward({', '.join(parameters)}) cannot be called with x, edge_index, edge_type "
            "and edge_attr alone: say how with call=lambda encoder, x, edge_index, edge_type: …"
        )
    if "x" in asked and isinstance(nodes, str):
        raise ModelError(
            f"{type(encoder).__name__} takes x: give its rows or ids with nodes=…, not the name of a table"
        )
    if "x" not in asked and not isinstance(nodes, str):
        raise ModelError(f"{type(encoder).__name__} takes no x: name the table its nodes start from, nodes='…'")
    if "edge_attr" in asked and edge_attr is None and parameters["edge_attr"].default is inspect.Parameter.empty:
        raise ModelError(f"{type(encoder).__name__} takes edge_attr: give a row per edge type, edge_attr=…")

    def call(encoder: nn.Module, x: Tensor | None, edge_index: Tensor, edge_type: Tensor) -> Any:
        features = None if edge_attr is None else edge_attr.detach().index_select(0, edge_type)
        offered = {"x": x, "edge_index": edge_index, "edge_type": edge_type, "edge_attr": features}
        return encoder(**{name: offered[name] for name in asked})

    return call


def _check_layers(encoder: nn.Module, edge_types: Tensor, inverse: Any, normaliser: Normaliser) -> None:
    """Refuse what cannot be weighed, or knows another number of relations."""
    layers = layers_of(encoder)
    if not layers:
        raise ModelError(
            f"{type(encoder).__name__} has no MessagePassing layer, so there are no messages to weigh: write encode "
            "and score yourself (docs/how-to/explain-your-own-model.md)"
        )
    check_flow(encoder)
    types = int(edge_types.max()) + 1 if edge_types.numel() else 0
    for name, layer in layers.items():
        known = getattr(layer, "num_relations", None)
        if isinstance(known, int) and (known < types or (known != types and isinstance(inverse, str))):
            raise MismatchError(
                f"layer {name!r} ({type(layer).__name__}) knows {known} relations, but with inverse={inverse!r} the "
                f"graph has {types} edge types (of {edge_types.numel() // 2} relations): was it trained with others?"
            )
        sums = layer.aggr is None or isinstance(layer.aggr_module, SumAggregation | MeanAggregation)
        if normaliser == "fixed" and not sums:
            raise ModelError(
                f"layer {name!r} ({type(layer).__name__}) aggregates by {layer.aggr}, where a message of zero still "
                "counts: say normaliser='recomputed', which takes edges of weight zero out"
            )


def _settle_relations(model: PyGModel, rows: int, edge_types: Tensor, ask_heads: AskHeads) -> None:
    """Settle which vector each relation has, and whether inverses have one of their own."""
    count = edge_types.numel() // 2
    types = int(edge_types.max()) + 1
    if rows != count and rows < types:
        raise MismatchError(
            f"there are {rows} relation vectors, but the graph has {count} relations and {types} edge types: give a "
            "row for each of either"
        )
    facts, back = (torch.arange(count), edge_types[count:]) if rows == count else edge_types.split(count)
    own = rows >= types and bool((back >= 0).all()) and not bool((back == facts).any())
    if ask_heads == "inverse" and not own:
        raise SettingsError(
            "inverses have no vectors of their own here, so heads are asked by swapping: ask_heads='swap'"
        )
    model.swap_inverses = ask_heads == "swap" or not own
    model.relation_rows = torch.cat([facts, facts if model.swap_inverses else back]).to(model.relation_rows.device)


def _check_messages(model: PyGModel) -> None:
    """Refuse a model whose vectors do not come from the messages, or whose scores not from the vectors."""
    part = _part(model)
    with torch.enable_grad():
        weight = torch.ones(part.num_edges, device=part.device, requires_grad=True)
        embeddings = model.encode(part, weight)
        total = embeddings.entity.square().sum()
        gradient = torch.autograd.grad(total, weight, retain_graph=True)[0] if total.requires_grad else None
        score = model.score(embeddings, part.triples)
    if part.num_edges and (gradient is None or not bool((gradient != 0).any())):
        raise ModelError("the vectors do not depend on the messages: the encoder ignores them, or runs under no_grad")
    if part.num_edges and not score.requires_grad:
        raise ModelError("the score has no gradient by the vectors: the decoder detaches them, or runs under no_grad")


def _settle_reach(model: PyGModel, rows: Tensor) -> None:
    """Find how far around an entity one must look to get the vector it has in the whole graph.

    A layer that divides by the degree of a message's source, too, looks at edges one hop further than it passes
    messages: with a fixed normaliser those are put back as absent ones, else they count as one more hop.
    """
    depth = model.num_layers
    if _is_local(model, rows):
        return
    if model.runner.normaliser == "fixed":
        model.runner.reach(depth + 1)
    else:
        model.num_layers = depth + 1
    if not _is_local(model, rows):
        raise ModelError(
            f"within num_layers = {depth} hops of an entity its vector is another than on the whole graph: messages "
            "travel further (say num_layers=…), dropout is left on, or something is normalised over all nodes"
        )


def _settle_savings(model: PyGModel) -> None:
    """Let layers compute only what is needed, if some removals then leave the same vectors behind."""
    part = _part(model)
    some = (part.edge_row.diff() > 0).nonzero().squeeze(1)
    removals = Removals.of(part, part.num_queries, some, (part.edge_row[some] + part.edge_row[some + 1]) // 2)
    wanted = torch.stack([part.head, part.tail], dim=1)
    changes = changed_nodes(part, removals, model.num_layers, wanted=wanted)
    world, vectors = what_if(part, removals, changes, model.num_layers, focused=True), list[Tensor]()
    for hops in (None, model.num_layers):
        model.runner.save(hops)
        with torch.no_grad():
            vectors.append(model.encode(world).entity[world.level == 0])
    every, needed = vectors
    if not torch.allclose(every, needed, rtol=0, atol=1e-5 * max(float(every.abs().max()), 1e-6)):
        model.runner.save(None)


def _is_local(model: PyGModel, rows: Tensor) -> bool:
    """Tell whether some entities get the vectors they have in the whole graph, rows (N, d)."""
    part = _part(model)
    with torch.no_grad():
        here = model.encode(part).entity[part.head]
    there = rows[part.queries[:, 0]]
    scale = max(float(there.abs().max()), 1e-6) if there.numel() else 1.0
    return torch.allclose(here[:, : there.size(1)], there, rtol=0, atol=1e-4 * scale)


def _part(model: PyGModel) -> ComputationGraph:
    """Cut out the surroundings of some entities, from those with few facts to those with many."""
    whole = model.runner.whole
    degree = whole.row.diff()
    loops = whole.source[whole.source == whole.target]  # asking about a fact leaves it out: another graph is encoded
    entities = degree.argsort(stable=True)
    entities = entities[(degree[entities] > 0) & ~torch.isin(entities, loops)]
    places = torch.linspace(0, max(entities.numel() - 1, 0), min(TRIED_ENTITIES, entities.numel())).long()
    some = entities[places.to(entities.device)]
    queries = torch.stack([some, torch.zeros_like(some), some], dim=1)
    affordable = edge_bounds(whole, queries, model.num_layers).cumsum(0) <= TRIED_EDGES
    affordable[:1] = True
    return extract(whole, queries[affordable], model.num_layers)
