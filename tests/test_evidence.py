"""Evidence of both kinds: pooled, chosen, judged and told; and proposers of sets, ours or a stranger's."""

from __future__ import annotations

import torch

from builders import evidence_of
from powerlink.evidence import EvidenceBatch, pool


def batch(*paths, length=3):
    """Paths given as (query, edges, cost)."""
    rows = [list(edges) + [-1] * (length - len(edges)) for _, edges, _ in paths]
    edges = torch.tensor(rows, dtype=torch.int64).reshape(-1, length)
    found = evidence_of(torch.tensor([q for q, _, _ in paths], dtype=torch.int64), edges)
    cost = torch.tensor([cost for _, _, cost in paths], dtype=torch.float64)
    return EvidenceBatch(found.query, found.edges, cost, found.is_path)


def listed(candidates):
    found = candidates.evidence
    rows = zip(
        found.query.tolist(), found.edges.tolist(), found.cost.tolist(), candidates.proposer.tolist(), strict=True
    )
    return [(q, tuple(e for e in edges if e >= 0), cost, who) for q, edges, cost, who in rows]


def test_a_pool_keeps_what_two_propose_once_under_the_first_and_is_sorted_by_query():
    first = batch((0, [1, 2], 1.0), (1, [7], 2.0), (1, [8, 9], 3.0))
    second = batch((0, [3], 0.5), (0, [1, 2], 9.0), (1, [8, 9], 9.0), (2, [7], 1.0))
    assert listed(pool([first, second])) == [
        (0, (1, 2), 1.0, 0),
        (0, (3,), 0.5, 1),
        (1, (7,), 2.0, 0),
        (1, (8, 9), 3.0, 0),
        (2, (7,), 1.0, 1),
    ]


def test_pools_of_nothing_are_empty():
    empty = batch()
    assert pool([empty]).evidence.count == 0
    assert pool([empty, empty]).evidence.edges.shape == (0, 3)
    assert listed(pool([empty, batch((0, [1], 1.0))])) == [(0, (1,), 1.0, 1)]


def test_the_same_facts_are_two_pieces_as_a_path_and_as_a_set_and_widths_are_joined():
    path = batch((0, [1, 2], 1.0))
    same = EvidenceBatch(path.query, path.edges[:, :2], path.cost, torch.zeros(1, dtype=torch.bool))
    assert listed(pool([path, same])) == [(0, (1, 2), 1.0, 0), (0, (1, 2), 1.0, 1)]
