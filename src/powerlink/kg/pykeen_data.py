"""PyKEEN's triples as knowledge graphs; PyKEEN is imported when it is needed, and need not be installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from powerlink.errors import DataError, MismatchError, SettingsError, UnknownNameError
from powerlink.kg.knowledge_graph import KnowledgeGraph, Names, Triples

PREFIX = "pykeen:"


def pykeen_module(name: str) -> Any:
    """Import a module of PyKEEN, or say how to install it."""
    try:
        return import_module(name)
    except ImportError:
        raise SettingsError("PyKEEN is not installed: python -m pip install 'powerlink[pykeen]'") from None


def load_pykeen_dataset(name: str) -> KnowledgeGraph:
    """Return one of PyKEEN's data sets by its name there, e.g. nations; it downloads what it does not bundle."""
    known = pykeen_module("pykeen.datasets").dataset_resolver.lookup_dict
    key = name.casefold().replace("-", "").replace("_", "")
    if key not in known:
        raise UnknownNameError("PyKEEN data set", name, known)
    try:
        dataset = known[key]()
        return graph_of_factories(dataset.training, dataset.validation, dataset.testing, name=f"{PREFIX}{key}")
    except (OSError, ImportError) as error:
        raise DataError(f"PyKEEN cannot load {name}: {error}") from error


def graph_of_factories(training: Any, validation: Any = None, testing: Any = None, *, name: str) -> KnowledgeGraph:
    """Build a graph of PyKEEN's triples factories, keeping its ids; factories without labels get e0 … and r0 …"""
    entities, relations = _labels(training, "entity"), _labels(training, "relation")
    for other in (validation, testing):
        if other is not None and (_labels(other, "entity"), _labels(other, "relation")) != (entities, relations):
            raise MismatchError("the triples factories have different entities or relations: they are not one data set")
    train, valid, test = (_triples(factory) for factory in (training, validation, testing))
    return KnowledgeGraph(name, Names("entity", entities), Names("relation", relations), train, valid, test)


def _labels(factory: Any, kind: str) -> tuple[str, ...]:
    count = int(factory.num_entities if kind == "entity" else factory.real_num_relations)
    labels = getattr(factory, f"{kind}_id_to_label", None)
    if labels is None:
        return tuple(f"{kind[0]}{i}" for i in range(count))
    return tuple(str(labels[i]) for i in range(count))


def _triples(factory: Any) -> Triples:
    if factory is None:
        return np.empty((0, 3), dtype=np.int64)
    triples: Triples = factory.mapped_triples.cpu().numpy().astype(np.int64)
    return triples
