"""Splitting one set of facts: nothing is lost, train knows everything, the order of rows does not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powerlink.errors import SettingsError
from powerlink.kg.cleaning import split_facts
from powerlink.kg.knowledge_graph import Triples

triples = st.sets(st.tuples(st.integers(0, 12), st.integers(0, 4), st.integers(0, 12)), min_size=1, max_size=120)


def array(rows: object) -> Triples:
    return np.array(list(rows), dtype=np.int64).reshape(-1, 3)  # type: ignore[call-overload]


@settings(deadline=None)
@given(rows=triples, seed=st.integers(0, 2**32))
def test_splits_are_a_partition_and_train_knows_every_entity_and_relation(
    rows: set[tuple[int, int, int]], seed: int
) -> None:
    splits = split_facts(array(rows), seed=seed)
    together = [tuple(row) for facts in splits.values() for row in facts.tolist()]
    assert sorted(together) == sorted(rows)
    train = splits["train"]
    assert set(train[:, [0, 2]].ravel().tolist()) == {entity for h, _, t in rows for entity in (h, t)}
    assert set(train[:, 1].tolist()) == {r for _, r, _ in rows}
    assert len(splits["valid"]) <= round(len(rows) * 0.1)
    assert len(splits["test"]) <= round(len(rows) * 0.1)


@settings(deadline=None)
@given(rows=triples, seed=st.integers(0, 1000), data=st.data())
def test_the_order_of_rows_does_not_matter(rows: set[tuple[int, int, int]], seed: int, data: st.DataObject) -> None:
    listed = sorted(rows)
    shuffled = data.draw(st.permutations(listed))
    one, two = split_facts(array(listed), seed=seed), split_facts(array(shuffled), seed=seed)
    for split, facts in one.items():
        np.testing.assert_array_equal(facts, two[split])


def test_a_dense_graph_gets_exactly_the_shares_asked_for() -> None:
    facts = array((h, r, t) for h in range(20) for r in range(3) for t in range(20))
    assert [len(part) for part in split_facts(facts, seed=0).values()] == [960, 120, 120]


def test_another_seed_gives_another_split_of_the_same_size() -> None:
    facts = array((h, 0, t) for h in range(30) for t in range(30))
    one, two = split_facts(facts, seed=0)["test"], split_facts(facts, seed=1)["test"]
    assert one.shape == two.shape
    assert not np.array_equal(one, two)


def test_a_sparse_graph_shares_what_train_can_spare() -> None:
    star = array((0, 0, t) for t in range(1, 50))
    splits = split_facts(star, seed=0)
    assert [len(part) for part in splits.values()] == [49, 0, 0]
    nearly = array([*((0, 0, t) for t in range(1, 50)), (1, 0, 2), (2, 0, 3), (3, 0, 4)])
    sizes = [len(part) for part in split_facts(nearly, seed=0).values()]
    assert sum(sizes) == 52
    assert sizes[0] >= 49 - 6


def test_a_seed_below_0_is_refused() -> None:
    with pytest.raises(SettingsError, match="must be 0 or more"):
        split_facts(array([(0, 0, 1)]), seed=-1)
