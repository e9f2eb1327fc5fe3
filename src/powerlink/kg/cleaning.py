"""From columns of names to clean rows of indices, with a note on all that was merged or dropped; then to splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from powerlink.errors import SettingsError
from powerlink.kg.knowledge_graph import SPLITS, Split, Triples

Ids = tuple[str, ...]
Columns = Sequence[pa.DictionaryArray]  # head, relation, tail
_SHARE = 0.1  # of the facts for validation, and as many for testing


def indexed(splits: Mapping[Split, Columns]) -> tuple[Ids, Ids, dict[Split, Triples]]:
    """Return the names of entities and of relations in the order of code points, and each split's facts, (n, 3)."""
    entities = _sorted_names(columns[place] for columns in splits.values() for place in (0, 2))
    relations = _sorted_names(columns[1] for columns in splits.values())
    facts = {}
    for split, columns in splits.items():
        facts[split] = np.empty((len(columns[0]), 3), dtype=np.int64)
        for place, (column, names) in enumerate(zip(columns, (entities, relations, entities), strict=True)):
            index = pc.index_in(column.dictionary, value_set=names).to_numpy(zero_copy_only=False)
            facts[split][:, place] = index.astype(np.int64)[column.indices.to_numpy(zero_copy_only=False)]
    return tuple(entities.to_pylist()), tuple(relations.to_pylist()), facts


def _sorted_names(columns: Iterable[pa.DictionaryArray]) -> pa.Array:
    names = pa.concat_arrays([pa.array([], pa.string()), *(column.dictionary for column in columns)]).unique()
    return names.take(pc.array_sort_indices(names))  # UTF-8 bytes sort like code points


def fact_keys(facts: Triples) -> NDArray[np.int64]:
    """Return one number per fact, (n,), that orders facts by head, relation, tail; equal facts share it."""
    if not len(facts):
        return np.empty(0, dtype=np.int64)
    head, relation, tail = facts.T
    num_heads, num_relations, num_tails = (int(column.max()) + 1 for column in facts.T)
    if num_heads * num_relations * num_tails < 2**63:
        return np.asarray((head * num_relations + relation) * num_tails + tail)
    # Too many possible facts for 64 bits: number the pairs that occur, in their order, and there is room.
    _, pair = np.unique(head * num_relations + relation, return_inverse=True)
    return np.asarray(pair * num_tails + tail)


def clean(splits: Mapping[Split, Triples], files: Mapping[Split, str]) -> tuple[dict[Split, Triples], list[str]]:
    """Merge duplicates within a split and drop valid and test facts that stand in train; say so in notes."""
    present = [split for split in SPLITS if split in splits]
    all_keys = fact_keys(np.concatenate([splits[split] for split in present]))
    ends = np.cumsum([len(splits[split]) for split in present])
    notes: list[str] = []
    cleaned: dict[Split, Triples] = {}
    distinct: dict[Split, NDArray[np.int64]] = {}  # the keys of each cleaned split, sorted
    for split, keys in zip(present, np.split(all_keys, ends[:-1]), strict=True):
        unique, first = np.unique(keys, return_index=True)
        _note(notes, files[split], len(keys) - len(first), "duplicate fact{s} {was} merged")
        if split != "train":
            known = contained(unique, distinct["train"])
            _note(notes, files[split], int(known.sum()), "fact{s} that also {stand} in train {was} dropped")
            unique, first = unique[~known], first[~known]
        cleaned[split], distinct[split] = splits[split][np.sort(first)], unique
    for split, facts in cleaned.items():
        loops = int((facts[:, 0] == facts[:, 2]).sum())
        _note(notes, files[split], loops, "fact{s} with the same head and tail {was} kept")
        if split != "train":
            _note_unseen(notes, files[split], facts, cleaned["train"])
        if split == "test" and "valid" in cleaned:
            twice = int(contained(distinct["test"], distinct["valid"]).sum())
            _note(notes, files[split], twice, "fact{s} that also {stand} in valid {was} kept")
    return cleaned, notes


def contained(keys: NDArray[np.int64], ordered: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the keys, (n,), that stand in a sorted array."""
    if not len(ordered):
        return np.zeros(len(keys), dtype=bool)
    places = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return np.asarray(ordered[places] == keys)


def _note_unseen(notes: list[str], file: str, facts: Triples, train: Triples) -> None:
    """Say which entities and relations of valid or test facts train does not know."""
    for what, columns in (("entit{y}", [0, 2]), ("relation{s}", [1])):
        names = facts[:, columns]
        seen = np.zeros(max(names.max(initial=-1), train[:, columns].max(initial=-1)) + 1, dtype=bool)
        seen[train[:, columns]] = True
        unseen = ~seen[names]
        facts_kept = int(unseen.any(axis=1).sum())
        kept = "1 fact with it was" if facts_kept == 1 else f"{facts_kept:,} facts with them were"
        count = len(np.unique(names[unseen]))
        _note(notes, file, count, f"{what} {{stand}} in no train fact; {kept} kept")


def _note(notes: list[str], file: str, count: int, sentence: str) -> None:
    """Add `file: count sentence` unless there is nothing to say, in the singular or the plural."""
    if count:
        one = {"s": "", "y": "y", "was": "was", "stand": "stands"}
        many = {"s": "s", "y": "ies", "was": "were", "stand": "stand"}
        notes.append(f"{file}: {count:,} {sentence.format(**(one if count == 1 else many))}")


def split_facts(facts: Triples, *, seed: int = 0) -> dict[Split, Triples]:
    """Return the three splits of distinct facts, (n, 3) each, sorted; train knows every entity and every relation.

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
