"""Planted graphs hold what they promise: truth for every query, and enough beside it to mislead."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from powerlink.errors import SettingsError
from powerlink.kg.planted import GOALS, RULES, Planted, PlantedSettings, plant, true_paths

SEEDS = range(3)


@pytest.fixture(scope="module", params=SEEDS)
def planted(request: pytest.FixtureRequest) -> Planted:
    return plant(request.param)


def test_the_seed_decides_everything() -> None:
    assert plant(5).graph.fingerprint == plant(5).graph.fingerprint
    assert plant(5).rules == plant(5).rules
    assert plant(5).graph.fingerprint != plant(6).graph.fingerprint


def test_every_goal_fact_follows_from_a_rule_and_every_step_is_a_training_fact(planted: Planted) -> None:
    graph = planted.graph
    train = set(map(tuple, graph.train.tolist()))
    size = graph.num_relations
    goal_facts = graph.all_facts[graph.all_facts[:, 1] < GOALS]
    for head, relation, tail in goal_facts.tolist():
        found = true_paths(planted, head, relation, tail)
        assert found
        for path in found:
            assert path[0][0] == head
            assert path[-1][2] == tail
            assert all(before[2] == after[0] for before, after in pairwise(path))
            assert all(((u, r, v) if r < size else (v, r - size, u)) in train for u, r, v in path)
            assert any(
                rule.relation == relation and rule.body == tuple(step[1] for step in path) for rule in planted.rules
            )


def test_true_paths_are_all_of_them(planted: Planted) -> None:
    """Against a search that knows nothing of rules: every loopless path of at most three steps, then filtered."""
    graph, size = planted.graph, planted.graph.num_relations
    leaving: dict[int, list[tuple[int, int, int]]] = {}
    for h, r, t in graph.train.tolist():
        leaving.setdefault(h, []).append((h, r, t))
        leaving.setdefault(t, []).append((t, r + size, h))
    bodies = {(rule.relation, rule.body) for rule in planted.rules}
    for head, relation, tail in graph.test[::4].tolist():
        paths = [(step,) for step in leaving[head]]
        expected = set()
        for _ in range(3):
            expected |= {
                path for path in paths if path[-1][2] == tail and (relation, tuple(step[1] for step in path)) in bodies
            }
            paths = [
                (*path, step)
                for path in paths
                if path[-1][2] != tail
                for step in leaving[path[-1][2]]
                if step[2] != head and step[2] not in {passed[2] for passed in path}
            ]
        assert true_paths(planted, head, relation, tail) == expected


def test_an_inverse_query_walks_the_same_facts_backwards(planted: Planted) -> None:
    head, relation, tail = planted.graph.test[0].tolist()
    size = planted.graph.num_relations
    there = true_paths(planted, head, relation, tail)
    back = true_paths(planted, tail, relation + size, head)
    assert back == {tuple((v, (r + size) % (2 * size), u) for u, r, v in reversed(path)) for path in there}


def test_rules_have_both_lengths_and_an_inverse_hop(planted: Planted) -> None:
    assert {len(rule.body) for rule in planted.rules} == {2, 3}
    assert len({rule.body for rule in planted.rules}) == len(planted.rules)
    assert all(count == RULES for count in Counter(r.relation for r in planted.rules).values())
    assert any(hop >= planted.graph.num_relations for rule in planted.rules for hop in rule.body)


def test_no_query_is_a_training_fact(planted: Planted) -> None:
    train = set(map(tuple, planted.graph.train.tolist()))
    assert not train & set(map(tuple, planted.graph.test.tolist()))


def test_hubs_are_hubs(planted: Planted) -> None:
    graph, settings = planted.graph, planted.settings
    degree = np.bincount(graph.train[:, [0, 2]].ravel(), minlength=graph.num_entities)
    assert degree[-settings.hubs :].min() >= settings.hub_facts
    assert degree[-settings.hubs :].min() > 2 * np.median(degree)


def test_true_steps_have_parallel_relations(planted: Planted) -> None:
    between = Counter(frozenset((h, t)) for h, _, t in set(map(tuple, planted.graph.train.tolist())))
    steps = [
        frozenset((step[0], step[2]))
        for query in planted.graph.test.tolist()
        for path in true_paths(planted, *query)
        for step in path
    ]
    assert np.mean([between[pair] >= 2 for pair in steps]) > 0.95
    assert np.mean([between[pair] for pair in steps]) > 2.5


def test_false_paths_outnumber_the_true_ones(planted: Planted) -> None:
    graph = planted.graph
    adjacency = np.zeros((graph.num_entities, graph.num_entities), dtype=np.int64)
    np.add.at(adjacency, (graph.train[:, 0], graph.train[:, 2]), 1)
    adjacency += adjacency.T
    walks = adjacency + adjacency @ adjacency + adjacency @ adjacency @ adjacency
    true = [len(true_paths(planted, *query)) for query in graph.test.tolist()]
    assert 1 <= np.mean(true) < 2
    assert np.mean(walks[graph.test[:, 0], graph.test[:, 2]]) > 40


def test_noise_can_be_turned_off() -> None:
    settings = PlantedSettings(decoys=0, parallels=0, scattered=0, hubs=0, hub_facts=0)
    quiet = plant(0, settings)
    used = {hop % quiet.graph.num_relations for rule in quiet.rules for hop in rule.body}
    relations = quiet.graph.train[:, 1]
    assert set(relations[relations >= GOALS].tolist()) == used


@pytest.mark.parametrize(
    "wrong",
    [
        {"entities": 10},
        {"instances": 0},
        {"decoys": -1},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        PlantedSettings(**wrong)  # type: ignore[arg-type]
