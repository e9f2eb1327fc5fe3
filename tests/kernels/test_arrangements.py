from __future__ import annotations

import gc
import weakref
from collections import Counter
from dataclasses import replace

import torch
from hypothesis import given

from builders import fact_lists, messages_of, random_rows
from powerlink.kernels import arrangements


@given(fact_lists(6, 3, 20))
def test_messages_are_made_once_per_relation_and_source_and_reach_the_right_targets(rows):
    edges = messages_of(rows, 6, 3).layer(0)
    arranged = arrangements.pairs_of(edges)
    relation_of_pair, source_of_pair = arranged.relations.index, arranged.sources.index
    pairs = list(zip(relation_of_pair.tolist(), source_of_pair.tolist(), strict=True))
    assert pairs == sorted(set(zip(edges.relation.tolist(), edges.source.tolist(), strict=True)))
    assert {relation: some.stop - some.start for relation, some in arranged.relations.groups} == Counter(
        relation for relation, _ in pairs
    )
    assert all({r for r, _ in pairs[some]} == {relation} for relation, some in arranged.relations.groups)
    incidences = {
        "nodes": (arrangements.nodes_to_targets(edges), edges.source, edges.target),
        "pairs": (arrangements.pairs_to_targets(edges), None, edges.target),
        "by direction": (
            arrangements.pairs_to_targets_by_direction(edges),
            None,
            2 * edges.target + (edges.relation >= 3),
        ),
    }
    for incidence, source, row in incidences.values():
        for part, ends in ((incidence, False), (incidence.transposed, True)):
            rows_of, columns = (part.column, part.row_of_entry) if ends else (part.row_of_entry, part.column)
            assert sorted(part.edge.tolist()) == list(range(edges.source.numel()))
            assert torch.equal(rows_of, row[part.edge])
            assert (part.row_of_entry.diff() >= 0).all()
            if source is not None:
                assert torch.equal(columns, source[part.edge])
            else:
                assert torch.equal(source_of_pair[columns], edges.source[part.edge])
                assert torch.equal(relation_of_pair[columns], edges.relation[part.edge])


ARRANGED = [
    arrangements.relations_of,
    arrangements.pairs_of,
    arrangements.nodes_to_targets,
    arrangements.pairs_to_targets,
    arrangements.pairs_to_targets_by_direction,
    arrangements.related_nodes_to_targets_by_direction,
    arrangements.crossings_of,
    arrangements.nodes_to_crossings,
    arrangements.crossings_to_targets,
    arrangements.crossings_to_targets_by_direction,
]


def test_a_slice_is_arranged_once_and_another_one_anew():
    edges = messages_of(random_rows(0, 6, 3, 20), 6, 3).layer(0)
    for arrange in ARRANGED:
        assert arrange(edges) is arrange(edges)
    fewer = replace(edges, source=edges.source[:4], target=edges.target[:4], relation=edges.relation[:4])
    for arrange in ARRANGED:
        assert arrange(fewer) is not arrange(edges)


def test_what_is_arranged_goes_when_its_slice_goes():
    edges = messages_of(random_rows(0, 6, 3, 20), 6, 3).layer(0)
    for arrange in ARRANGED:
        arrange(edges)
    gone = weakref.ref(edges)
    gc.disable()  # a cycle would keep a batch's memory until some later collection
    try:
        del edges
        assert gone() is None
    finally:
        gc.enable()
