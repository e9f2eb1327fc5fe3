"""PaGE-Link's split rule: sizes, disjointness, and line for line the published split."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from powerlink.errors import SettingsError
from powerlink.kg.explained_links import ExplainedLinks
from powerlink.kg.typed_folder import read_links
from typed_example import SHARED, needs_user_item_attr, write_example


@pytest.fixture
def split_links(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ExplainedLinks]:
    """The rule as the benchmarks find it."""
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    return import_module("link_splits").split_links


def rows(data: ExplainedLinks, kind: str) -> list[tuple[int, ...]]:
    parts = [data.links_of(s) if kind == "links" else data.negatives[s] for s in ("train", "valid", "test")]  # type: ignore[arg-type]
    return [tuple(row) for part in parts for row in part.tolist()]


@pytest.mark.parametrize("seed", range(5))
def test_every_link_is_in_one_split_and_negatives_are_unrelated_pairs(tmp_path: Path, split_links, seed: int) -> None:
    data = split_links(read_links(write_example(tmp_path)), seed=seed)
    assert sorted(rows(data, "links")) == sorted(map(tuple, data.links.tolist()))
    assert [len(data.splits[s]) for s in ("train", "valid", "test")] == [2, 0, 1]  # ⌊0.7·3⌋, ⌊1/3⌋ and the rest
    entity = data.entities.index
    free = {("a", "4"), ("b", "4"), *(("c", item) for item in "1234")}
    possible = {(entity(f"user:{u}"), data.relation, entity(f"item:{i}")) for u, i in free}
    negatives = rows(data, "negatives")
    assert len(set(negatives)) == 3
    assert set(negatives) <= possible


def test_shares_and_seeds_are_checked(tmp_path: Path, split_links) -> None:
    data = read_links(write_example(tmp_path))
    with pytest.raises(SettingsError, match="seed of a split must be 0 or more"):
        split_links(data, seed=-1)
    for shares in ({"valid": 0.5, "test": 0.5}, {"valid": -0.1, "test": 0.5}, {"valid": 0.0, "test": 0.0}):
        with pytest.raises(SettingsError, match="shares that sum to less than 1"):
            split_links(data, **shares)


@needs_user_item_attr
def test_seed_0_gives_the_published_split_and_others_give_others(split_links) -> None:
    data = read_links(SHARED)
    again = split_links(data, seed=0)
    for split in ("train", "valid", "test"):
        np.testing.assert_array_equal(again.links_of(split), data.links_of(split))
        np.testing.assert_array_equal(again.negatives[split], data.negatives[split])
    tests = []
    for seed in range(5):
        other = split_links(data, seed=seed)
        assert {s: len(r) for s, r in other.splits.items()} == {"train": 499, "valid": 71, "test": 144}
        assert len(set(rows(other, "links"))) == len(set(rows(other, "negatives"))) == 714
        assert not set(rows(other, "links")) & set(rows(other, "negatives"))
        tests.append(frozenset(map(tuple, other.links_of("test").tolist())))
    assert len(set(tests)) == 5
