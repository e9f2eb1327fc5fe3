from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from powerlink.kernels.keyed_random import keyed_uniform, keys_of, mix

ROWS = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 50)), min_size=1, max_size=10)


def splitmix64(value: int) -> int:
    """The generator as published, in Python's whole numbers."""
    whole = (1 << 64) - 1
    value = (value + 0x9E3779B97F4A7C15) & whole
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & whole
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & whole
    return value ^ (value >> 31)


def keys(rows, seed=0):
    first, second = torch.tensor(rows).unbind(1)
    return keys_of(seed, first, second)


@given(st.integers(-(2**63), 2**63 - 1))
def test_mixing_is_splitmix64(value):
    expected = splitmix64(value % 2**64)
    assert mix(torch.tensor([value])).item() % 2**64 == expected


@given(ROWS, st.integers(0, 2**31))
def test_numbers_lie_between_zero_and_one_and_one_is_never_reached(rows, seed):
    draws = keyed_uniform(keys(rows, seed), 7)
    assert draws.dtype == torch.float32
    assert ((draws >= 0) & (draws < 1)).all()


@given(ROWS)
def test_a_keys_numbers_depend_neither_on_its_batch_nor_on_its_order(rows):
    together = keyed_uniform(keys(rows), 5)
    backwards = keyed_uniform(keys(rows[::-1]), 5)
    assert torch.equal(together, backwards.flip(0))
    for i, row in enumerate(rows):
        assert torch.equal(together[i : i + 1], keyed_uniform(keys([row]), 5))


def test_fewer_numbers_are_the_beginning_of_more():
    key = keys([(3, 4)])
    assert torch.equal(keyed_uniform(key, 10)[:, :4], keyed_uniform(key, 4))


def test_another_seed_and_swapped_columns_give_other_numbers():
    rows = [(i, 50 - i) for i in range(20)]
    draws = keyed_uniform(keys(rows, seed=1), 4)
    assert (draws != keyed_uniform(keys(rows, seed=2), 4)).float().mean() > 0.99
    swapped = keyed_uniform(keys([(b, a) for a, b in rows if a != b], seed=1), 4)
    own = keyed_uniform(keys([(a, b) for a, b in rows if a != b], seed=1), 4)
    assert (own != swapped).float().mean() > 0.99


def test_numbers_are_spread_evenly_and_neighbours_are_unrelated():
    draws = keyed_uniform(keys([(i, 0) for i in range(200)]), 200).double()
    counts = torch.histc(draws.flatten(), bins=20, min=0, max=1)
    assert (counts / draws.numel() * 20 - 1).abs().max() < 0.1
    centred = draws - draws.mean()
    assert abs((centred[:, 1:] * centred[:, :-1]).mean() / centred.var()) < 0.03
    assert abs((centred[1:] * centred[:-1]).mean() / centred.var()) < 0.03
