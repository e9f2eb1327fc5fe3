"""Planted knowledge graphs: facts that follow from known rules, hidden among facts that lead nowhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Literal

import numpy as np

from powerlink.errors import SettingsError
from powerlink.explanation import Evidence
from powerlink.kg.explained_links import GroundTruth
from powerlink.kg.knowledge_graph import KnowledgeGraph, Names, Triples

Step = tuple[int, int, int]  # source, relation, target; a relation ≥ R walks a fact from its tail to its head
Neighbours = Mapping[tuple[int, int], list[int]]  # (source, relation) → targets


@dataclass(frozen=True)
class Rule:
    """Whoever is reached along `body` is related by `relation`: head –body₁→ · –body₂→ … tail."""

    relation: int
    body: tuple[int, ...]  # an id ≥ R walks the inverse
    confidence: float


@dataclass(frozen=True, kw_only=True)
class PlantedSettings:
    """How large a planted graph is, and how much in it misleads."""

    entities: int = 120
    goals: int = 2  # relations that follow from rules
    rules: int = 2  # per goal; their lengths take turns
    lengths: tuple[int, ...] = (2, 3)
    steps: int = 6  # relations that rules are made of
    noises: int = 4  # relations that mean nothing
    instances: int = 8  # of each rule, planted on purpose: the queries; more arise by chance
    decoys: int = 4  # false paths from head to tail beside each planted instance
    decoy_lengths: tuple[int, ...] = (2, 3)
    parallels: int = 2  # facts of other relations beside each hop of a planted instance
    scattered: int = 60  # facts between random entities, of noise and step relations
    hubs: int = 2
    hub_facts: int = 40  # of each hub
    inverse_share: float = 0.3  # of a body's hops
    train_share: float = 0.2  # of the goal facts that arise by chance; the others are for validation

    def __post_init__(self) -> None:
        if min(self.entities, self.goals, self.rules, self.steps, self.noises, self.instances) < 1:
            raise SettingsError("a planted graph needs entities, goals, rules, steps, noises and instances")
        if not self.lengths or min(self.lengths) < 2 or max(self.lengths) > self.steps:
            raise SettingsError(f"rule lengths must lie between 2 and the {self.steps} steps, not {self.lengths}")
        if not self.decoy_lengths or min(self.decoy_lengths) < 1:
            raise SettingsError(f"decoy lengths must be at least 1, not {self.decoy_lengths}")
        if min(self.decoys, self.parallels, self.scattered, self.hubs, self.hub_facts) < 0:
            raise SettingsError("decoys, parallels, scattered, hubs and hub_facts must not be negative")
        longest = max(self.lengths + self.decoy_lengths)
        if self.entities - self.hubs <= max(longest, self.hub_facts):
            raise SettingsError(f"{self.entities} entities are too few for these hubs and rules")
        if not (0 <= self.inverse_share <= 1 and 0 <= self.train_share <= 1):
            raise SettingsError("inverse_share and train_share must lie between 0 and 1")

    @property
    def relations(self) -> int:
        return self.goals + self.noises + self.steps


Noise = Literal["quiet", "plain", "loud"]
NOISE: dict[Noise, PlantedSettings] = {  # how much misleads
    "quiet": PlantedSettings(decoys=1, parallels=1, scattered=30, hub_facts=20),
    "plain": PlantedSettings(),
    "loud": PlantedSettings(decoys=8, parallels=3, scattered=150),
}


@dataclass(frozen=True, eq=False)
class Planted:
    """A graph and the rules its goal facts follow from; its test facts are the queries."""

    graph: KnowledgeGraph
    rules: tuple[Rule, ...]
    settings: PlantedSettings

    @cached_property
    def neighbours(self) -> Neighbours:
        """Where each (entity, relation) leads in the training graph, inverses included."""
        return _neighbours(map(tuple, self.graph.train.tolist()), self.graph.num_relations)

    def steps_of(self, path: Evidence) -> tuple[Step, ...]:
        """Return a told path as steps, to be held against the true ones."""
        graph = self.graph
        return tuple(
            (
                graph.entities.index(fact.source),
                graph.relations.index(fact.relation) + graph.num_relations * fact.inverse,
                graph.entities.index(fact.target),
            )
            for fact in path.facts
        )


def plant(seed: int, settings: PlantedSettings | None = None) -> Planted:
    """Grow a graph in which every goal fact follows from a rule, and everything that follows is a fact.

    Goal facts planted on purpose, with decoys and parallels beside them, are for testing; those that arise by chance
    are for training and validation.
    """
    settings = settings or PlantedSettings()
    rng = np.random.default_rng(seed)
    rules = _draw_rules(settings, rng)
    facts: dict[Step, None] = {}  # a set that keeps its order, so that the seed decides everything
    planted: dict[Step, None] = {}
    for rule in rules:
        for _ in range(settings.instances):
            nodes = _distinct(settings, rng, len(rule.body) + 1)
            facts |= _facts_along(nodes, rule.body, settings.relations)
            facts |= _parallels(nodes, settings, rng)
            planted[nodes[0], rule.relation, nodes[-1]] = None
    for head, _, tail in planted:
        facts |= _decoys(head, tail, settings, rng)
    facts |= _scattered(settings, rng)
    facts |= _hubs(settings, rng)

    by_chance = _array([fact for fact in _consequences(rules, facts, settings) if fact not in planted])
    by_chance = by_chance[rng.permutation(len(by_chance))]
    to_train = int(settings.train_share * len(by_chance))
    graph = KnowledgeGraph(
        f"planted-{seed}",
        Names("entity", tuple(f"e{i:05d}" for i in range(settings.entities))),
        Names("relation", _relation_names(settings)),
        np.concatenate([_array(facts), by_chance[:to_train]]),
        by_chance[to_train:].copy(),
        _array(planted),
    )
    return Planted(graph, rules, settings)


def true_paths(planted: Planted, head: int, relation: int, tail: int) -> set[tuple[Step, ...]]:
    """Return every loopless instance of a rule's body from head to tail in the training graph.

    An inverse query (relation ≥ R) gets the same instances walked backwards.
    """
    size = planted.graph.num_relations
    if relation >= size:
        found = true_paths(planted, tail, relation - size, head)
        return {tuple((v, _inverse(r, size), u) for u, r, v in reversed(path)) for path in found}
    return {
        path
        for rule in planted.rules
        if rule.relation == relation
        for path in _walk(planted.neighbours, head, rule.body)
        if path[-1][2] == tail
    }


def true_reasons(planted: Planted) -> dict[Step, GroundTruth]:
    """Return what explains each query of a planted graph: all its true paths, and their steps."""
    found = {}
    for head, relation, tail in planted.graph.test.tolist():
        paths = tuple(sorted(true_paths(planted, head, relation, tail)))
        found[head, relation, tail] = GroundTruth(tuple(dict.fromkeys(chain(*paths))), paths)
    return found


def _draw_rules(settings: PlantedSettings, rng: np.random.Generator) -> tuple[Rule, ...]:
    """Draw bodies of distinct step relations, no two alike; the first rule of each goal has an inverse hop."""
    first_step, size = settings.goals + settings.noises, settings.relations
    rules: list[Rule] = []
    bodies: set[tuple[int, ...]] = set()
    for goal in range(settings.goals):
        for number in range(settings.rules):
            length = settings.lengths[number % len(settings.lengths)]
            while True:
                hops = first_step + rng.permutation(settings.steps)[:length]
                flipped = rng.random(length) < settings.inverse_share
                if number == 0 and settings.inverse_share and not flipped.any():
                    continue
                body = tuple((hops + size * flipped).tolist())
                if body not in bodies:
                    break
            bodies.add(body)
            rules.append(Rule(goal, body, round(float(rng.uniform(0.7, 1.0)), 2)))
    return tuple(rules)


def _facts_along(nodes: list[int], relations: Iterable[int], size: int) -> dict[Step, None]:
    """Return the facts that a walk over these nodes needs, as they are stored."""
    return {
        ((u, relation, v) if relation < size else (v, relation - size, u)): None
        for (u, v), relation in zip(pairwise(nodes), relations, strict=True)
    }


def _parallels(nodes: list[int], settings: PlantedSettings, rng: np.random.Generator) -> dict[Step, None]:
    """Put facts of other relations beside every hop: finding the nodes is not yet finding the reason."""
    facts: dict[Step, None] = {}
    for pair in pairwise(nodes):
        for relation in _meaningless(settings, rng, settings.parallels):
            facts |= _facts_along(list(pair), [relation], settings.relations)
    return facts


def _decoys(head: int, tail: int, settings: PlantedSettings, rng: np.random.Generator) -> dict[Step, None]:
    """Lay false paths of random relations from head to tail."""
    facts: dict[Step, None] = {}
    for length in rng.choice(settings.decoy_lengths, settings.decoys).tolist():
        between = [e for e in _distinct(settings, rng, length + 1) if e not in (head, tail)][: length - 1]
        facts |= _facts_along([head, *between, tail], _meaningless(settings, rng, length), settings.relations)
    return facts


def _scattered(settings: PlantedSettings, rng: np.random.Generator) -> dict[Step, None]:
    facts: dict[Step, None] = {}
    for relation in _meaningless(settings, rng, settings.scattered):
        facts |= _facts_along(_distinct(settings, rng, 2), [relation], settings.relations)
    return facts


def _hubs(settings: PlantedSettings, rng: np.random.Generator) -> dict[Step, None]:
    """Tie the last few entities to very many others."""
    facts: dict[Step, None] = {}
    for hub in range(settings.entities - settings.hubs, settings.entities):
        others = _distinct(settings, rng, settings.hub_facts)
        for other, relation in zip(others, _meaningless(settings, rng, settings.hub_facts), strict=True):
            facts |= _facts_along([hub, other], [relation], settings.relations)
    return facts


def _meaningless(settings: PlantedSettings, rng: np.random.Generator, count: int) -> list[int]:
    """Draw relations other than goals, in either direction: noise, and steps that may or may not complete a rule."""
    stored = rng.integers(settings.goals, settings.relations, count)
    walked: list[int] = (stored + settings.relations * rng.integers(0, 2, count)).tolist()
    return walked


def _distinct(settings: PlantedSettings, rng: np.random.Generator, count: int) -> list[int]:
    """Draw distinct entities that are no hubs."""
    drawn: list[int] = rng.choice(settings.entities - settings.hubs, count, replace=False).tolist()
    return drawn


def _consequences(rules: Iterable[Rule], facts: Iterable[Step], settings: PlantedSettings) -> dict[Step, None]:
    """Find every fact that follows from the rules, planted or by chance, once each."""
    neighbours = _neighbours(facts, settings.relations)
    return {
        (head, rule.relation, path[-1][2]): None
        for rule in rules
        for head in range(settings.entities)
        for path in _walk(neighbours, head, rule.body)
    }


def _neighbours(facts: Iterable[tuple[int, ...]], size: int) -> Neighbours:
    found: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for head, relation, tail in facts:
        found[head, relation].append(tail)
        found[tail, relation + size].append(head)
    return dict(found)


def _walk(neighbours: Neighbours, source: int, body: tuple[int, ...]) -> Iterator[tuple[Step, ...]]:
    """Yield every loopless walk from an entity along a body."""
    walks: list[tuple[Step, ...]] = [()]
    for relation in body:
        walks = [
            (*walk, (end, relation, target))
            for walk in walks
            for end in [walk[-1][2] if walk else source]
            for target in neighbours.get((end, relation), ())
            if target != source and all(target != step[2] for step in walk)
        ]
    yield from walks


def _array(facts: Iterable[Step]) -> Triples:
    return np.array(list(facts), dtype=np.int64).reshape(-1, 3)


def _inverse(relation: int, size: int) -> int:
    return relation + size if relation < size else relation - size


def _relation_names(settings: PlantedSettings) -> tuple[str, ...]:
    """Name relations so that their ids are in sorted order too."""
    kinds = (("goal", settings.goals), ("noise", settings.noises), ("step", settings.steps))
    return tuple(f"{kind}_{i:02d}" for kind, count in kinds for i in range(count))
