"""Planted knowledge graphs: facts that follow from known rules, hidden among facts that lead nowhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise, product

import numpy as np

from powerlink.errors import SettingsError
from powerlink.explain_settings import Noise as Noise  # noqa: PLC0414 - where it is looked for
from powerlink.explanation import Evidence
from powerlink.kg.explained_links import GroundTruth, Triple
from powerlink.kg.knowledge_graph import KnowledgeGraph, Names, Triples

GOALS = 2  # relations that follow from rules
RULES = 2  # per goal; their lengths take turns
LENGTHS = (2, 3)  # of rules, and of decoys
_NOISES = 4  # relations that mean nothing
_STEPS = 6  # relations that rules are made of
_RELATIONS = GOALS + _NOISES + _STEPS
_INVERSE_SHARE = 0.3  # of a body's hops
_TRAIN_SHARE = 0.2  # of the goal facts that arise by chance; the others are for validation

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
    instances: int = 8  # of each rule, planted on purpose: the queries; more arise by chance
    decoys: int = 4  # false paths from head to tail beside each planted instance
    parallels: int = 2  # facts of other relations beside each hop of a planted instance
    scattered: int = 60  # facts between random entities, of noise and step relations
    hubs: int = 2
    hub_facts: int = 40  # of each hub

    def __post_init__(self) -> None:
        if min(self.entities, self.instances) < 1:
            raise SettingsError("a planted graph needs entities and instances")
        if min(self.decoys, self.parallels, self.scattered, self.hubs, self.hub_facts) < 0:
            raise SettingsError("decoys, parallels, scattered, hubs and hub_facts must not be negative")
        if self.entities - self.hubs <= max(*LENGTHS, self.hub_facts):
            raise SettingsError(f"{self.entities} entities are too few for these hubs and rules")


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
        return _neighbours(map(tuple, self.graph.train.tolist()))

    def steps_of(self, path: Evidence) -> tuple[Triple, ...]:
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
    rules = _draw_rules(rng)
    growth = _Growth(settings, rng)
    planted = dict.fromkeys(growth.instance(rule) for rule in rules for _ in range(settings.instances))
    for head, _, tail in planted:
        growth.decoys(head, tail)
    growth.scattered()
    growth.hubs()

    neighbours = _neighbours(growth.facts)
    follows = dict.fromkeys(
        (head, rule.relation, path[-1][2])
        for rule in rules
        for head in range(settings.entities)
        for path in _walks(neighbours, head, rule.body)
    )
    by_chance = _array(fact for fact in follows if fact not in planted)
    by_chance = by_chance[rng.permutation(len(by_chance))]
    to_train = int(_TRAIN_SHARE * len(by_chance))
    kinds = (("goal", GOALS), ("noise", _NOISES), ("step", _STEPS))  # sorted, as ids are
    graph = KnowledgeGraph(
        f"planted-{seed}",
        Names("entity", tuple(f"e{i:05d}" for i in range(settings.entities))),
        Names("relation", tuple(f"{kind}_{i:02d}" for kind, count in kinds for i in range(count))),
        np.concatenate([_array(growth.facts), by_chance[:to_train]]),
        by_chance[to_train:].copy(),
        _array(planted),
    )
    return Planted(graph, rules, settings)


def true_paths(planted: Planted, head: int, relation: int, tail: int) -> set[tuple[Triple, ...]]:
    """Return every loopless instance of a rule's body from head to tail in the training graph.

    An inverse query (relation ≥ R) gets the same instances walked backwards.
    """
    size = planted.graph.num_relations
    if relation >= size:
        found = true_paths(planted, tail, relation - size, head)
        return {tuple((v, (r + size) % (2 * size), u) for u, r, v in reversed(path)) for path in found}
    return {
        path
        for rule in planted.rules
        if rule.relation == relation
        for path in _walks(planted.neighbours, head, rule.body)
        if path[-1][2] == tail
    }


def true_reasons(planted: Planted) -> dict[Triple, GroundTruth]:
    """Return what explains each query of a planted graph: all its true paths, and their steps."""
    found = {}
    for head, relation, tail in planted.graph.test.tolist():
        paths = tuple(sorted(true_paths(planted, head, relation, tail)))
        found[head, relation, tail] = GroundTruth(tuple(dict.fromkeys(chain(*paths))), paths)
    return found


def _draw_rules(rng: np.random.Generator) -> tuple[Rule, ...]:
    """Draw bodies of distinct step relations, no two alike; the first rule of each goal has an inverse hop."""
    rules: dict[tuple[int, ...], Rule] = {}  # by body
    for goal, number in product(range(GOALS), range(RULES)):
        length = LENGTHS[number % len(LENGTHS)]
        while True:
            hops = GOALS + _NOISES + rng.permutation(_STEPS)[:length]
            flipped = rng.random(length) < _INVERSE_SHARE
            body = tuple((hops + _RELATIONS * flipped).tolist())
            if body not in rules and (number or flipped.any()):
                break
        rules[body] = Rule(goal, body, round(float(rng.uniform(0.7, 1.0)), 2))
    return tuple(rules.values())


class _Growth:
    """The facts of a graph as they are laid, each with what the generator says next."""

    def __init__(self, settings: PlantedSettings, rng: np.random.Generator) -> None:
        self._settings, self._rng = settings, rng
        self.facts: dict[Triple, None] = {}  # a set that keeps its order, so that the seed decides everything

    def instance(self, rule: Rule) -> Triple:
        """Lay a walk along a rule's body, and facts of other relations beside every hop; return what follows.

        For the parallels, finding the nodes is not yet finding the reason.
        """
        nodes = self._entities(len(rule.body) + 1)
        self._lay(nodes, rule.body)
        for pair in pairwise(nodes):
            for relation in self._meaningless(self._settings.parallels):
                self._lay(pair, [relation])
        return nodes[0], rule.relation, nodes[-1]

    def decoys(self, head: int, tail: int) -> None:
        """Lay false paths of random relations from head to tail."""
        for length in self._rng.choice(LENGTHS, self._settings.decoys).tolist():
            between = [e for e in self._entities(length + 1) if e not in (head, tail)][: length - 1]
            self._lay([head, *between, tail], self._meaningless(length))

    def scattered(self) -> None:
        for relation in self._meaningless(self._settings.scattered):
            self._lay(self._entities(2), [relation])

    def hubs(self) -> None:
        """Tie the last few entities to very many others."""
        count = self._settings.hub_facts
        for hub in range(self._settings.entities - self._settings.hubs, self._settings.entities):
            for other, relation in zip(self._entities(count), self._meaningless(count), strict=True):
                self._lay([hub, other], [relation])

    def _lay(self, nodes: Sequence[int], relations: Iterable[int]) -> None:
        """Add the facts that a walk over these nodes needs, as they are stored."""
        for (u, v), relation in zip(pairwise(nodes), relations, strict=True):
            self.facts[(u, relation, v) if relation < _RELATIONS else (v, relation - _RELATIONS, u)] = None

    def _meaningless(self, count: int) -> list[int]:
        """Draw relations other than goals, in either direction: noise, and steps that may complete a rule."""
        stored = self._rng.integers(GOALS, _RELATIONS, count)
        walked: list[int] = (stored + _RELATIONS * self._rng.integers(0, 2, count)).tolist()
        return walked

    def _entities(self, count: int) -> list[int]:
        """Draw distinct entities that are no hubs."""
        plain = self._settings.entities - self._settings.hubs
        drawn: list[int] = self._rng.choice(plain, count, replace=False).tolist()
        return drawn


def _neighbours(facts: Iterable[tuple[int, ...]]) -> Neighbours:
    found: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for head, relation, tail in facts:
        found[head, relation].append(tail)
        found[tail, relation + _RELATIONS].append(head)
    return dict(found)


def _walks(neighbours: Neighbours, source: int, body: tuple[int, ...]) -> list[tuple[Triple, ...]]:
    """Return every loopless walk from an entity along a body."""
    walks: list[tuple[Triple, ...]] = [()]
    for relation in body:
        walks = [
            (*walk, (end, relation, target))
            for walk in walks
            for end in [walk[-1][2] if walk else source]
            for target in neighbours.get((end, relation), ())
            if target != source and all(target != step[2] for step in walk)
        ]
    return walks


def _array(facts: Iterable[Triple]) -> Triples:
    return np.array(list(facts), dtype=np.int64).reshape(-1, 3)
