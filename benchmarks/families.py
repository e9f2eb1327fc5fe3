"""Family trees: facts that follow from each other by rules of kinship everybody knows."""

from __future__ import annotations

from itertools import product

import numpy as np

from powerlink import KnowledgeGraph

COUPLES, GENERATIONS, MOST_CHILDREN, UNMARRIED = 25, 3, 3, 0.25
HELD_OUT = 0.1  # for validation, and as much for testing
PARENT, CHILD = ("hasParent", "-hasChild"), ("hasChild", "-hasParent")  # a dash walks a fact from tail to head
SPOUSE, SIBLING = ("hasSpouse", "-hasSpouse"), ("hasSibling", "-hasSibling")
Body = tuple[str, ...]


def _bodies(*steps: tuple[str, ...]) -> set[Body]:
    return set(product(*steps))


RULES: dict[str, set[Body]] = {
    "hasSpouse": {("-hasSpouse",)} | _bodies(CHILD, PARENT),
    "hasChild": {("-hasParent",)} | _bodies(SPOUSE, CHILD) | _bodies(CHILD, SIBLING),
    "hasParent": {("-hasChild",)} | _bodies(PARENT, SPOUSE) | _bodies(SIBLING, PARENT),
    "hasSibling": {("-hasSibling",)} | _bodies(PARENT, CHILD) | _bodies(SIBLING, SIBLING),
    "hasGrandparent": _bodies(PARENT, PARENT)
    | _bodies(SIBLING, ("hasGrandparent",))
    | _bodies(("hasGrandparent",), SPOUSE),
    "hasUncle": _bodies(PARENT, SIBLING)
    | _bodies(SIBLING, ("hasUncle",))
    | _bodies(("hasUncle",), SIBLING)
    | _bodies(("hasGrandparent",), CHILD),
}


def family(seed: int) -> KnowledgeGraph:
    """Grow families over some generations and hold a part of their facts out."""
    facts, rng = _facts(np.random.default_rng(seed)), np.random.default_rng(seed + 50)
    order, part = rng.permutation(len(facts)), int(HELD_OUT * len(facts))
    cuts = {"test": order[:part], "valid": order[part : 2 * part], "train": order[2 * part :]}
    return KnowledgeGraph.from_names(f"family-{seed}", {name: [facts[i] for i in cut] for name, cut in cuts.items()})


def follows_a_rule(graph: KnowledgeGraph, relation: int, steps: list[int]) -> bool:
    """Tell whether the relations of a path, inverses from R on and −1 behind the last, are a rule's body."""
    names, count = graph.relations.ids, graph.num_relations
    body = tuple(f"{'-' if step >= count else ''}{names[step % count]}" for step in steps if step >= 0)
    return body in RULES[names[relation]]


def _facts(rng: np.random.Generator) -> list[tuple[str, str, str]]:
    people = 0

    def born() -> str:
        nonlocal people
        people += 1
        return f"p{people}"

    parents: dict[str, tuple[str, str]] = {}
    children: dict[tuple[str, str], list[str]] = {}
    couples = [(born(), born()) for _ in range(COUPLES)]
    married = list(couples)
    for _ in range(GENERATIONS):
        young = []
        for couple in couples:
            children[couple] = [born() for _ in range(rng.integers(1, MOST_CHILDREN + 1))]
            parents |= dict.fromkeys(children[couple], couple)
            young += children[couple]
        rng.shuffle(young)
        couples = _matched(young, parents, rng)
        married += couples
    facts = {(a, "hasSpouse", b) for one, other in married for a, b in ((one, other), (other, one))}
    for child, couple in parents.items():
        facts |= {(child, "hasSibling", other) for other in children[couple] if other != child}
        for parent in couple:
            facts |= {(child, "hasParent", parent), (parent, "hasChild", child)}
            if parent in parents:
                above = parents[parent]
                facts |= {(child, "hasGrandparent", one) for one in above}
                facts |= {(child, "hasUncle", one) for one in children[above] if one != parent}
    return sorted(facts)


def _matched(young: list[str], parents: dict[str, tuple[str, str]], rng: np.random.Generator) -> list[tuple[str, str]]:
    """Marry people of different parents; some stay alone."""
    couples, free = [], list(young)
    while len(free) > 1:
        one = free.pop()
        others = [place for place, other in enumerate(free) if parents[other] != parents[one]]
        if others and rng.random() >= UNMARRIED:
            couples.append((one, free.pop(others[0])))
    return couples
