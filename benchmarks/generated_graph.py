"""Knowledge graphs of any size whose neighbourhoods do not grow with them: communities, and few facts between them."""

from __future__ import annotations

import torch
from torch import Tensor

from powerlink.kg.knowledge_graph import KnowledgeGraph, Names

COMMUNITY = 1_500  # entities
FACTS_PER_ENTITY = 20  # so that a community has about as many edges as a neighbourhood of the paper's
BETWEEN = 0.001  # share of the facts that lead into another community
GROUPS, GROUP, SHIFTS = 128, 8, 4  # of a planted community: groups, entities of each, and ways from group to group
ASTRAY = 0.05  # share of the planted facts that lead anywhere in their community
HELD_OUT = 5_000  # facts for validation, and as many for testing


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


def planted_graph(count: int, num_relations: int, seed: int = 0) -> KnowledgeGraph:
    """Draw a graph of about `count` training facts that can be learned: a relation leads from a group to a group.

    In every community relation r joins group g with group g XOR s(r), any member with any. Who knows groups and
    relations is left with the few members that are not known: filtered, no model can expect a test MRR much above 0.4.
    """
    size, generator = GROUPS * GROUP, torch.Generator().manual_seed(seed)
    num_entities = max(count // FACTS_PER_ENTITY, size) // size * size
    shift = torch.arange(num_relations) % SHIFTS

    def drawn(below: int) -> Tensor:
        return torch.randint(0, below, (count + 2 * HELD_OUT,), generator=generator)

    def astray(share: float) -> Tensor:
        return torch.rand(count + 2 * HELD_OUT, generator=generator) < share

    head, relation = drawn(num_entities), drawn(num_relations)
    group = (head % size // GROUP) ^ shift[relation]
    inside = head // size * size + torch.where(astray(ASTRAY), drawn(size), group * GROUP + drawn(GROUP))
    tail = torch.where(astray(BETWEEN), drawn(num_entities), inside)
    key = ((head * num_relations + relation) * num_entities + tail).unique()
    key = key[torch.randperm(key.numel(), generator=generator)]
    facts = torch.stack(
        [key // num_entities // num_relations, key // num_entities % num_relations, key % num_entities], 1
    )
    valid, test, train = facts.split([HELD_OUT, HELD_OUT, len(facts) - 2 * HELD_OUT])
    entities, relations = (tuple(map(str, range(n))) for n in (num_entities, num_relations))
    splits = (part.clone().numpy() for part in (train, valid, test))
    return KnowledgeGraph("planted", Names("entity", entities), Names("relation", relations), *splits)
