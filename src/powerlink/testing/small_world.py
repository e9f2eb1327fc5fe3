"""A small graph with everything that goes wrong in large ones, and models over it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kg.knowledge_graph import KnowledgeGraph, Names
from powerlink.models.decoders import ConvE
from powerlink.models.encoders import RGCN
from powerlink.models.link_model import ModelSettings, build_model
from powerlink.models.session import Session
from powerlink.pipeline import ExplainSettings, computation_graph

ENTITIES, RELATIONS, WIDTH = 14, 3, 8
MODELS = (("rgcn", "transe"), ("wgcn", "conve"), ("compgcn", "distmult"))
# Entities 12 and 13 hang together and on nothing else; the first query comes twice; the second asks an inverse.
WORLD_QUERIES = torch.tensor([(0, 0, 1), (2, 4, 3), (5, 1, 6), (0, 0, 1), (7, 2, 8), (0, 1, 12)])  # (Q, 3)
PRUNING = ExplainSettings(hub_limit=9, core=2)


def small_session(encoder: str = "compgcn", decoder: str = "distmult") -> Session:
    """Return an untrained model of two layers over 14 entities: a new one in every call, and always the same.

    There are parallel facts, a self-loop, a hub, and two entities that nothing connects to the others.
    """
    rng = np.random.default_rng(0)
    drawn = {(int(h), int(r), int(t)) for h, r, t in rng.integers((0, 0, 0), (12, RELATIONS, 12), (30, 3))}
    facts = sorted(drawn | {(4, 0, 4), (0, 1, 5), (0, 2, 5), *((9, 0, other) for other in range(9)), (12, 0, 13)})
    none = np.empty((0, 3), dtype=np.int64)
    graph = KnowledgeGraph(
        "small world",
        Names("entity", tuple(f"e{i}" for i in range(ENTITIES))),
        Names("relation", tuple(f"r{i}" for i in range(RELATIONS))),
        np.array(facts, dtype=np.int64),
        none,
        none,
    )
    shape = ModelSettings(
        encoder=RGCN.Settings(blocks=2) if encoder == "rgcn" else encoder,
        decoder=ConvE.Settings(filters=3, kernel=3) if decoder == "conve" else decoder,
        widths=(WIDTH,) * 3,
    )
    model = build_model(shape, ENTITIES, RELATIONS, seed=1).eval()
    return Session.of(graph, model, name=shape.name)


def graph_of(session: Session, queries: Tensor) -> ComputationGraph:
    """Return what an explainer is handed: extracted, pruned, with the whole graph's encoding attached."""
    return computation_graph(session, queries, PRUNING)
