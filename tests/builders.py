"""Small graphs and models that tests share, and the slow, obvious ways to compute what the package computes fast."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from powerlink.evidence import EvidenceBatch
from powerlink.graphs.computation_graph import ComputationGraph, extract
from powerlink.graphs.edges import Edges
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kg.knowledge_graph import KnowledgeGraph, Names
from powerlink.memory import Room
from powerlink.models.catalog import ENCODERS
from powerlink.models.link_model import EncoderDecoder, ModelSettings, build_model
from powerlink.models.protocol import Embeddings, LinkModel
from powerlink.paths.search import PathBatch
from powerlink.verify.oracle import Removal

Rows = Sequence[tuple[int, int, int]]
LAYERED = [name for name, encoder in ENCODERS.items() if encoder.default_layers]  # those that pass messages


def random_rows(seed: int, entities: int, relations: int, count: int) -> list[tuple[int, int, int]]:
    """Draw distinct facts; self-loops and parallel relations happen, and so do entities without a fact."""
    rng = np.random.default_rng(seed)
    drawn = zip(
        rng.integers(0, entities, count),
        rng.integers(0, relations, count),
        rng.integers(0, entities, count),
        strict=True,
    )
    return list(dict.fromkeys((int(h), int(r), int(t)) for h, r, t in drawn))


def fact_lists(entities: int, relations: int, max_size: int, min_size: int = 0) -> st.SearchStrategy[Rows]:
    """Lists of distinct facts over so many entities and relations."""
    fact = st.tuples(st.integers(0, entities - 1), st.integers(0, relations - 1), st.integers(0, entities - 1))
    return st.lists(fact, unique=True, min_size=min_size, max_size=max_size)


def triple_tensor(rows: Rows) -> Tensor:
    return torch.tensor(list(rows), dtype=torch.int64).reshape(-1, 3)


def messages_of(rows: Rows, entities: int, relations: int) -> MessageGraph:
    return MessageGraph.from_facts(triple_tensor(rows), entities, relations)


def computation_graph(rows: Rows, entities: int, relations: int, queries: Rows, hops: int) -> ComputationGraph:
    return extract(messages_of(rows, entities, relations), triple_tensor(queries), hops)


def knowledge_graph(rows: Rows, entities: int, relations: int, valid: Rows = (), test: Rows = ()) -> KnowledgeGraph:
    """Facts whose entities are called e0, e1, … and whose relations r0, r1, …"""
    splits = [np.array(list(part), dtype=np.int64).reshape(-1, 3) for part in (rows, valid, test)]
    return KnowledgeGraph(
        "test",
        Names("entity", tuple(f"e{i}" for i in range(entities))),
        Names("relation", tuple(f"r{i}" for i in range(relations))),
        *splits,
    )


def removal(model: LinkModel, graph: ComputationGraph, room: Room | None = None) -> Removal:
    """Facts removed, and a model asked for scores."""
    return Removal(model, graph, room or Room())


def evidence_of(query: Tensor, edges: Tensor) -> EvidenceBatch:
    """Paths without a cost."""
    return EvidenceBatch.of_paths(PathBatch(query, edges, (edges >= 0).sum(1), torch.zeros_like(query).double()))


def settings_of(encoder: str, decoder: str, layers: int, **others: object) -> ModelSettings:
    small = {"rgcn": {"blocks": 2}, "conve": {"filters": 3, "kernel": 3}}
    own = {"widths": (8,) * (layers + 1), **small.get(encoder, {}), **small.get(decoder, {}), **others}
    return ModelSettings(encoder=encoder, decoder=decoder, **own)  # type: ignore[arg-type]


def model_of(
    encoder: str, decoder: str, layers: int, entities: int, relations: int, *, seed: int = 0, **others: object
) -> EncoderDecoder:
    """An untrained float64 model in eval mode whose every parameter and statistic is drawn, so none is trivial."""
    model = build_model(settings_of(encoder, decoder, layers, **others), entities, relations, seed).double().eval()
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
            else:
                parameter.mul_(2)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                shape = module.running_mean.shape
                module.running_mean += 0.1 * torch.randn(shape, generator=generator, dtype=torch.float64)
                module.running_var += torch.rand(shape, generator=generator, dtype=torch.float64)
    return model


def edges_without(graph: Edges, removed: Sequence[int]) -> Edges:
    """The same graph with edges really deleted, every node wanted, norms as they were."""
    keep = torch.ones(graph.num_edges, dtype=torch.bool)
    keep[list(removed)] = False
    return Edges(
        num_relations=graph.num_relations,
        entity=graph.entity,
        source=graph.source[keep],
        target=graph.target[keep],
        relation=graph.relation[keep],
        norm=graph.norm[keep],
    )


def edges_of_fact(graph: MessageGraph, query: tuple[int, int, int]) -> list[int]:
    """Both edges of a fact asked for in either direction, if it is in the graph."""
    head, relation, tail = query
    twin = (relation + graph.num_relations) % (2 * graph.num_relations)
    wanted = {(head, relation, tail), (tail, twin, head)}
    return [e for e, edge in enumerate(edge_rows(graph)) if edge in wanted]


def edge_rows(graph: Edges) -> list[tuple[int, int, int]]:
    """Every edge as (source entity, relation, target entity)."""
    columns = graph.entity[graph.source], graph.relation, graph.entity[graph.target]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def naive_rank(scores: Sequence[float], tail: int, known: set[int]) -> float:
    """Filtered, ties at their mean."""
    others = [s for entity, s in enumerate(scores) if entity != tail and entity not in known]
    above = sum(s > scores[tail] for s in others)
    level = sum(s == scores[tail] for s in others)
    return 1 + above + level / 2


def known_tails(rows: Rows, relations: int) -> dict[tuple[int, int], set[int]]:
    known: dict[tuple[int, int], set[int]] = {}
    for head, relation, tail in rows:
        known.setdefault((head, relation), set()).add(tail)
        known.setdefault((tail, relation + relations), set()).add(head)
    return known


def undirected(rows: Rows, entities: int) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(entities))
    graph.add_edges_from((head, tail) for head, _, tail in rows)
    return graph


class MessageSum(nn.Module):
    """A white-box model: a node is its own value plus the weighted values of those that send to it, per layer.

    A triple's score is the tail's number plus `head_share` times the head's.
    """

    def __init__(self, values: Sequence[float], num_layers: int = 1, head_share: float = 0.0) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values, dtype=torch.float64))
        self.num_layers = num_layers
        self.head_share = head_share

    def encode(self, graph: Edges, edge_weight: Tensor | None = None) -> Embeddings:
        weight = torch.ones(graph.num_edges) if edge_weight is None else edge_weight
        start = self.values[graph.entity]
        now = start
        for _ in range(self.num_layers):
            now = start + torch.zeros_like(now).index_add(0, graph.target, now[graph.source] * weight.to(now.dtype))
        return Embeddings(now.unsqueeze(1), now.new_zeros(2 * graph.num_relations, 1))

    def score(self, embeddings: Embeddings, triples: Tensor) -> Tensor:
        number = embeddings.entity.squeeze(1)
        return number[triples[:, 2]] + self.head_share * number[triples[:, 0]]
