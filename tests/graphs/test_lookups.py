"""Looking keys up and finding distinct ones: by search and by table, alike."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from powerlink.graphs.edges import distinct, expand_ranges, find_among

VALUES = st.lists(st.integers(0, 19), max_size=40)


@given(st.sets(st.integers(0, 19)), VALUES)
def test_values_are_found_where_they_are_among_the_keys(keys, wanted):
    ordered = sorted(keys)
    position, there = find_among(torch.tensor(ordered, dtype=torch.int64), torch.tensor(wanted, dtype=torch.int64), 20)
    assert there.tolist() == [value in keys for value in wanted]
    found = [ordered[p] for p, known in zip(position.tolist(), there.tolist(), strict=True) if known]
    assert found == [value for value in wanted if value in keys]


@given(VALUES)
def test_distinct_values_are_ascending(values):
    assert distinct(torch.tensor(values, dtype=torch.int64), 20).tolist() == sorted(set(values))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=8))
def test_ranges_are_walked_one_after_the_other(ranges):
    start = torch.tensor([first for first, _ in ranges], dtype=torch.int64)
    stop = start + torch.tensor([size for _, size in ranges], dtype=torch.int64)
    owner, element = expand_ranges(start, stop)
    expected = [(i, first + step) for i, (first, size) in enumerate(ranges) for step in range(size)]
    assert list(zip(owner.tolist(), element.tolist(), strict=True)) == expected
