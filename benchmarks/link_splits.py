"""Split links into train, valid and test, with pairs that are no links beside them, as PaGE-Link does.

Zhang et al., *PaGE-Link: Path-based graph neural network explanation for heterogeneous link prediction*, WWW 2023. The
generators are part of the rule: with seed 0 it gives, line for line, the splits its authors trained on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from powerlink.errors import SettingsError
from powerlink.kg.explained_links import ExplainedLinks
from powerlink.kg.knowledge_graph import Split, Triples


def split_links(data: ExplainedLinks, *, seed: int = 0, valid: float = 0.1, test: float = 0.2) -> ExplainedLinks:
    """Split all links anew by a seed, and draw as many negatives."""
    if seed < 0:
        raise SettingsError(f"the seed of a split must be 0 or more, not {seed}")
    if valid < 0 or test < 0 or not 0 < valid + test < 1:
        raise SettingsError(f"valid and test must be shares that sum to less than 1, not {valid} and {test}")
    free = _unrelated_pairs(data)
    if len(free) < len(data.links):
        raise SettingsError(f"{data.name} has {len(free)} pairs that are no links; {len(data.links)} are needed")
    drawn = free[np.random.RandomState(seed).choice(len(free), len(data.links), replace=False)]
    splits = _cut(len(data.links), seed, valid, test)
    return replace(data, splits=splits, negatives={split: drawn[rows] for split, rows in splits.items()})


def _cut(count: int, seed: int, valid: float, test: float) -> Mapping[Split, NDArray[np.int64]]:
    """Shuffle once and cut off train, shuffle the rest by the same seed and cut off valid."""
    train_share = 1 - valid - test
    train, rest = _shuffled_cut(np.arange(count), train_share, seed)
    held_valid, held_test = _shuffled_cut(rest, valid / (1 - train_share), seed)
    return {"train": train, "valid": held_valid, "test": held_test}


def _shuffled_cut(rows: NDArray[np.int64], share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed)).numpy()
    first = int(len(rows) * share)
    return rows[order[:first]], rows[order[first:]]


def _unrelated_pairs(data: ExplainedLinks) -> Triples:
    """List the pairs of the linked types that neither a fact nor a link joins, by source, then target: (n, 3)."""
    types = np.array(data.node_types)
    sources = np.flatnonzero(np.isin(types, np.unique(types[data.links[:, 0]])))
    targets = np.flatnonzero(np.isin(types, np.unique(types[data.links[:, 2]])))
    size = len(data.entities)
    pairs = (sources[:, None] * size + targets).ravel()
    joined = np.concatenate([data.facts, data.links])
    taken = np.concatenate([joined[:, 0] * size + joined[:, 2], joined[:, 2] * size + joined[:, 0]])
    free = pairs[~np.isin(pairs, taken) & (pairs // size != pairs % size)]
    return np.stack([free // size, np.full_like(free, data.relation), free % size], axis=1)
