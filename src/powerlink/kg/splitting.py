"""Cut one set of facts into train, valid and test so that train knows every entity and every relation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from powerlink.errors import SettingsError
from powerlink.kg.cleaning import fact_keys
from powerlink.kg.knowledge_graph import Split, Triples

_SHARE = 0.1  # of the facts for validation, and as many for testing


def split_facts(facts: Triples, *, seed: int = 0) -> dict[Split, Triples]:
    """Return the three splits of distinct facts, (n, 3) each, sorted by head, relation and tail.

    The same facts and the same seed give the same splits, whatever the order of the rows. Train keeps what it
    needs to know every entity and relation, so a sparse graph may get fewer valid and test facts than asked.
    """
    if seed < 0:
        raise SettingsError(f"the seed of a split must be 0 or more, not {seed}")
    ordered = facts[np.argsort(fact_keys(facts))]
    order = np.random.default_rng(seed).permutation(len(ordered))
    spare = order[~_needed(ordered[order])]
    most = round(len(facts) * _SHARE)
    num_valid = min(most, len(spare) // 2)
    valid, test = np.sort(spare[:num_valid]), np.sort(spare[num_valid:][:most])
    return {
        "train": np.delete(ordered, np.concatenate([valid, test]), axis=0),
        "valid": ordered[valid],
        "test": ordered[test],
    }


def _needed(facts: Triples) -> NDArray[np.bool_]:
    """Mark, (n,), every row in which an entity or a relation is met for the first time."""
    needed = np.zeros(len(facts), dtype=bool)
    for columns in ([0, 2], [1]):
        names = facts[:, columns].ravel()
        first = np.zeros(names.max(initial=-1) + 1, dtype=np.int64)
        rows = np.arange(len(names)) // len(columns)
        first[names[::-1]] = rows[::-1]  # of several writes to one place the last stays: the earliest row
        needed[first[names]] = True
    return needed
