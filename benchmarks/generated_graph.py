"""A knowledge graph of any size whose neighbourhoods do not grow with it: communities, and few facts between them."""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.kg.knowledge_graph import KnowledgeGraph, Names

COMMUNITY = 1_500  # entities
FACTS_PER_ENTITY = 20  # so that a community has about as many edges as a neighbourhood of the paper's
BETWEEN = 0.001  # share of the facts that lead into another community


def generated_facts(
    count: int, num_relations: int, seed: int = 0, facts_per_entity: int = FACTS_PER_ENTITY
) -> tuple[Tensor, int]:
    """Draw facts (about `count`, 3), without repeats, and the number of entities."""
    generator = torch.Generator().manual_seed(seed)
    num_entities = max(count // facts_per_entity, COMMUNITY) // COMMUNITY * COMMUNITY
    head = torch.randint(0, num_entities, (count,), generator=generator)
    inside = head // COMMUNITY * COMMUNITY + torch.randint(0, COMMUNITY, (count,), generator=generator)
    anywhere = torch.randint(0, num_entities, (count,), generator=generator)
    tail = torch.where(torch.rand(count, generator=generator) < BETWEEN, anywhere, inside)
    relation = torch.randint(0, num_relations, (count,), generator=generator)
    key = ((head * num_relations + relation) * num_entities + tail).unique()
    return torch.stack(
        [key // num_entities // num_relations, key // num_entities % num_relations, key % num_entities], 1
    ), num_entities


def generated_graph(count: int, num_relations: int, seed: int = 0) -> KnowledgeGraph:
    """Draw a graph of about `count` training facts."""
    facts, num_entities = generated_facts(count, num_relations, seed)
    train = facts.numpy()
    return KnowledgeGraph(
        "generated",
        Names("entity", tuple(map(str, range(num_entities)))),
        Names("relation", tuple(map(str, range(num_relations)))),
        train,
        train[:0],
        train[:0],
    )
