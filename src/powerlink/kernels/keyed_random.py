"""Random numbers that depend on (seed, key, position) and on nothing else.

A query's numbers are then the same in any batch, in any order and on any device. The generator is SplitMix64 (Steele,
Lea and Flood, 2014) used as a hash, in int64 arithmetic that wraps alike on CPU and GPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MIX_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX_2 = -7723592293110705685  # 0x94D049BB133111EB


def mix(values: Tensor) -> Tensor:
    """Scramble int64 values: nearby inputs give unrelated outputs."""
    values = values + _GOLDEN
    values = (values ^ _shift(values, 30)) * _MIX_1
    values = (values ^ _shift(values, 27)) * _MIX_2
    return values ^ _shift(values, 31)


def keys_of(seed: int, *columns: Tensor) -> Tensor:
    """Combine a seed and integer columns (n,) into one key per row: (n,)."""
    key = mix(torch.full_like(columns[0], seed))
    for column in columns:
        key = mix(key ^ mix(column))
    return key


def keyed_uniform(keys: Tensor, count: int) -> Tensor:
    """Draw `count` numbers in [0, 1) for each key: (n, count) float32."""
    return keyed_uniform_at(keys.unsqueeze(1), torch.arange(count, device=keys.device).unsqueeze(0))


def keyed_uniform_at(keys: Tensor, position: Tensor) -> Tensor:
    """Draw the numbers at some positions of some keys' sequences, both (…): (…) float32."""
    bits = mix(keys ^ mix(position))
    return _shift(bits, 40).to(torch.float32) * 2.0**-24  # the top 24 bits fill a float32 exactly


def _shift(values: Tensor, bits: int) -> Tensor:
    """Shift right without dragging the sign bit along."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)
