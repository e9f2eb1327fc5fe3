"""A knowledge graph: facts with names, in three splits. Immutable."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from powerlink.errors import SettingsError, UnknownNameError
from powerlink.explain_settings import Split as Split  # noqa: PLC0414 - where it is looked for

Triples = NDArray[np.int64]  # (n, 3): head, relation, tail
SPLITS: tuple[Split, ...] = ("train", "valid", "test")


@dataclass(frozen=True)
class Names:
    """What the entities (or the relations) are called: an id each, and perhaps a label people read."""

    kind: str  # "entity" or "relation", for messages
    ids: Sequence[str]
    labels: Mapping[str, str] = field(default_factory=dict)  # id → label; ids without one show themselves

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> str:
        """Return the name to show; no two indices share one."""
        return self.shown[index]

    @cached_property
    def shown(self) -> Sequence[str]:
        """The label where it is unambiguous, else `label (id)`, else the id."""
        if not self.labels:
            return self.ids
        labels = [self.labels.get(name) or name for name in self.ids]
        uses = Counter(labels)
        ids = set(self.ids)
        clear = [
            label if label == name or (uses[label] == 1 and label not in ids) else f"{label} ({name})"
            for name, label in zip(self.ids, labels, strict=True)
        ]
        uses = Counter(clear)
        return tuple(
            show if uses[show] == 1 and (show == name or show not in ids) else name
            for name, show in zip(self.ids, clear, strict=True)
        )

    @cached_property
    def _index(self) -> dict[str, int]:
        """Every accepted spelling: the shown name, the id (which wins), and an unambiguous label."""
        return {name: i for i, name in enumerate(self.shown)} | {name: i for i, name in enumerate(self.ids)}

    def index(self, name: str) -> int:
        """Return the index of a name, or say which names come close."""
        try:
            return self._index[name]
        except KeyError:
            raise UnknownNameError(self.kind, name, self._index) from None

    def find(self, name: str) -> int | None:
        """Return the index of a name, or None."""
        return self._index.get(name)


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Facts as rows of indices into named entities and relations.

    A relation index + `num_relations` means the inverse of that relation; stored facts never use it.
    """

    name: str
    entities: Names
    relations: Names
    train: Triples
    valid: Triples
    test: Triples
    notes: tuple[str, ...] = ()  # what a reader merged, kept or noticed, one sentence each

    def __post_init__(self) -> None:
        for split in SPLITS:
            facts = self.facts(split)
            if facts.ndim != 2 or facts.shape[1] != 3:
                raise SettingsError(f"{split} facts must have shape (n, 3), not {facts.shape}")
            if len(facts) and (
                facts.min() < 0
                or facts[:, [0, 2]].max() >= len(self.entities)
                or facts[:, 1].max() >= len(self.relations)
            ):
                raise SettingsError(f"{split} facts point outside the graph's entities or relations")
            facts.setflags(write=False)

    @classmethod
    def checked(cls, fingerprint: str, **parts: Any) -> KnowledgeGraph:
        """Return a graph of parts that were checked when its fingerprint was taken; nothing of them is read."""
        graph = object.__new__(cls)
        vars(graph).update(parts, fingerprint=fingerprint)
        return graph

    @property
    def num_entities(self) -> int:
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        return len(self.relations)

    def facts(self, split: Split) -> Triples:
        """Return one split's facts, (n, 3)."""
        return {"train": self.train, "valid": self.valid, "test": self.test}[split]

    @cached_property
    def all_facts(self) -> Triples:
        """Every fact of every split: what a filtered rank must not count against a prediction."""
        return np.concatenate([self.train, self.valid, self.test])

    @cached_property
    def fingerprint(self) -> str:
        """A hash of names and facts: two graphs share it exactly when models and reports may be exchanged."""
        digest = hashlib.sha256()
        for names in (self.entities, self.relations):
            digest.update("\0".join(names.ids).encode())
            digest.update(b"\1")
        for split in SPLITS:
            digest.update(np.ascontiguousarray(self.facts(split)).tobytes())
            digest.update(b"\2")
        return digest.hexdigest()[:16]

    def triple(self, head: str, relation: str, tail: str) -> tuple[int, int, int]:
        """Return the indices of a named triple."""
        return self.entities.index(head), self.relations.index(relation), self.entities.index(tail)

    @classmethod
    def from_names(
        cls,
        name: str,
        splits: Mapping[Split, Sequence[tuple[str, str, str]]],
        entity_labels: Mapping[str, str] | None = None,
        relation_labels: Mapping[str, str] | None = None,
    ) -> KnowledgeGraph:
        """Build a graph from named triples in memory; names get indices in sorted order."""
        rows = [row for split in SPLITS for row in splits.get(split, ())]
        entities = Names("entity", tuple(sorted({e for h, _, t in rows for e in (h, t)})), entity_labels or {})
        relations = Names("relation", tuple(sorted({r for _, r, _ in rows})), relation_labels or {})
        entity = {e: i for i, e in enumerate(entities.ids)}
        relation = {r: i for i, r in enumerate(relations.ids)}
        arrays = {
            split: np.array(
                [(entity[h], relation[r], entity[t]) for h, r, t in dict.fromkeys(splits.get(split, ()))],
                dtype=np.int64,
            ).reshape(-1, 3)
            for split in SPLITS
        }
        return cls(name, entities, relations, arrays["train"], arrays["valid"], arrays["test"])
