"""What a model is known by: its hash says whether it is the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from builders import knowledge_graph, model_of
from powerlink.kg.planted import Rule
from powerlink.models.rule_model import RuleModel
from powerlink.models.subject import Subject, hash_of, weights_hash

GRAPH = knowledge_graph([(0, 0, 1), (1, 1, 2), (2, 0, 3)], 4, 2)


@dataclass
class Loose:
    """A model's attributes: numbers, settings, a function, and what follows from them."""

    table: Tensor
    width: int = 3
    call: object = print

    @cached_property
    def total(self) -> float:
        return float(self.table.sum())


def test_no_model_is_without_a_hash():
    network = model_of("rgcn", "distmult", 2, 4, 2)
    other = model_of("rgcn", "distmult", 2, 4, 2)
    subject = Subject.of(GRAPH, network)
    assert len(subject.hash) == 16
    assert Subject.of(GRAPH, network, hash="mine").hash == "mine"
    with torch.no_grad():
        next(other.parameters()).add_(1)
    assert Subject.of(GRAPH, other).hash != subject.hash
    assert weights_hash(network, "read so") != weights_hash(network, "read otherwise") != weights_hash(network)


def test_a_model_that_is_no_torch_module_has_the_hash_of_what_it_holds():
    rules = RuleModel((Rule(0, (1, 0), 1.0),), 4, 2)
    subject = Subject.of(GRAPH, rules)
    assert subject.hash == hash_of(replace(rules))  # also after it has been asked, and remembers
    assert subject.hash != hash_of(replace(rules, scale=2.0))
    loose = Loose(torch.ones(3))
    before = hash_of(loose)
    assert loose.total == 3
    assert hash_of(loose) == before == hash_of(Loose(torch.ones(3)))
    assert len({before, hash_of(Loose(torch.zeros(3))), hash_of(Loose(torch.ones(3), 4))}) == 3
