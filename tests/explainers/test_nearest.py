"""The part of a large computation graph that proposers see: nearest nodes first, chance between equals."""

from __future__ import annotations

import pytest
import torch

from builders import messages_of, random_rows, triple_tensor
from powerlink.explainers.nearest import nearest_part
from powerlink.graphs.computation_graph import extract
from powerlink.questions import Questions

N, R = 120, 3
HUB = [(i, i % R, 0) for i in range(1, 100)]
ROWS = list(dict.fromkeys([*HUB, (110, 0, 0), (110, 1, 5), (5, 2, 111), *random_rows(3, N, R, 150)]))
MESSAGES = messages_of(ROWS, N, R)


def part_of(query, most, seed=0, foils=None, hops=2):
    return nearest_part(MESSAGES, Questions(triple_tensor([query]), foils), hops, most, seed)


@pytest.mark.parametrize("query", [(110, 0, 0), (110, 2, 0), (0, 1, 7), (3, 1, 9)])
@pytest.mark.parametrize("foils", [None, torch.tensor([17]), torch.tensor([-1])])
def test_what_fits_is_left_alone_and_what_does_not_is_counted_and_cut(query, foils):
    whole = extract(MESSAGES, triple_tensor([query]), 2, foils)
    assert part_of(query, whole.num_edges, foils=foils) is None
    for most in (whole.num_edges - 1, 150, 40):
        sample = part_of(query, most, foils=foils)
        assert (sample.nodes, sample.edges) == (whole.num_nodes, whole.num_edges)
        graph = sample.graph
        assert 0 < graph.num_edges <= most
        assert graph.entity[graph.head] == query[0]
        assert graph.entity[graph.tail] == query[2]
        assert f"{graph.num_edges:,} of its {whole.num_edges:,} edges" in sample.remark
        # a part of the graph in which every node knows its distance in the whole
        place = torch.searchsorted(whole.entity, graph.entity)
        assert torch.equal(graph.level, whole.level[place])
        inside = torch.isin(whole.entity[whole.source], graph.entity)
        inside &= torch.isin(whole.entity[whole.target], graph.entity)
        assert torch.equal(graph.edge, whole.edge[inside])


def test_head_and_tail_and_the_way_of_a_rare_end_are_kept():
    sample = part_of((111, 0, 0), 60)  # 111 – 5 – 0, among a hundred other neighbours of the hub
    assert {111, 5, 0} <= set(sample.graph.entity.tolist())
    assert part_of((110, 2, 0), 1).graph.num_edges == 2  # head and tail stay, and the fact between them


def test_chance_follows_from_seed_and_query_alone():
    query = (3, 1, 0)
    first, again, other = (part_of(query, 60, seed).graph.entity.tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert part_of((3, 2, 0), 60).graph.entity.tolist() != first
