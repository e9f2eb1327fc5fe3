"""Edge scores against known explanations, by hand and by counting pairs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from builders import edge_rows
from powerlink.graphs.computation_graph import ComputationGraph, extract
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kg.explained_links import ExplainedLinks, GroundTruth
from powerlink.kg.typed_folder import read_links
from powerlink.verify.ground_truth import READINGS, Reading, edge_auc, explaining_edges
from typed_example import write_example


@pytest.fixture
def shop(tmp_path: Path) -> ExplainedLinks:
    return read_links(write_example(tmp_path))


def seen(data: ExplainedLinks, hops: int = 2) -> tuple[ComputationGraph, list[GroundTruth]]:
    """All three links of the example as one batch."""
    graph = extract(MessageGraph.of(data.background), torch.from_numpy(data.links.copy()), hops)
    return graph, [data.truth[tuple(link)] for link in data.links.tolist()]


def items(
    graph: ComputationGraph, truth: list[GroundTruth], scores: Tensor, reading: Reading, query: int
) -> list[tuple[float, bool]]:
    """The slow way to what one query's ROC-AUC is about: (score, right) of each item."""
    assert graph.level is not None
    relations = {relation for _, relation, _ in truth[query].edges}
    found: dict[object, tuple[float, bool]] = {}
    for place, (source, relation, target) in enumerate(edge_rows(graph)):
        if graph.query_of_edge[place] != query:
            continue
        right = (source, relation, target) in truth[query].edges
        if reading == "facts":
            count = graph.num_relations
            forward = relation < count
            key = (source, relation, target) if forward else (target, relation - count, source)
            score, before = found.get(key, (0.0, False))
            found[key] = max(score, scores[place].item()), before or right
        elif reading == "directed" or (relation in relations and graph.level[graph.target[place]] < graph.hops):
            found[place] = scores[place].item(), right
    return list(found.values())


def counted(found: list[tuple[float, bool]]) -> float:
    right, wrong = ([score for score, is_right in found if is_right is wanted] for wanted in (True, False))
    if not right or not wrong:
        return math.nan
    return float(np.mean([(a > b) + (a == b) / 2 for a in right for b in wrong]))


def test_exactly_the_steps_of_the_ground_truth_explain(shop: ExplainedLinks) -> None:
    graph, truth = seen(shop)
    explaining = explaining_edges(graph, truth)
    for place, edge in enumerate(edge_rows(graph)):
        assert explaining[place] == (edge in truth[int(graph.query_of_edge[place])].edges)
    assert explaining.sum() == 9  # three links, a path of three steps each


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_edge_auc_is_the_share_of_pairs_in_the_right_order(
    shop: ExplainedLinks, reading: Reading, hops: int, seed: int
) -> None:
    graph, truth = seen(shop, hops)
    scores = torch.randint(0, 4, (graph.num_edges,), generator=torch.Generator().manual_seed(seed)) / 4
    found = edge_auc(graph, scores, explaining_edges(graph, truth), reading)
    expected = [counted(items(graph, truth, scores, reading, query)) for query in range(3)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_way_back_is_wrong_when_directed_and_right_as_a_fact(shop: ExplainedLinks) -> None:
    graph, truth = seen(shop)
    explaining = explaining_edges(graph, truth)
    forward, backward = explaining.float(), explaining[graph.reverse].float()
    for reading in READINGS:
        assert edge_auc(graph, forward, explaining, reading).tolist() == [1.0, 1.0, 1.0]
    assert edge_auc(graph, backward, explaining, "facts").tolist() == [1.0, 1.0, 1.0]
    assert (edge_auc(graph, backward, explaining, "directed") < 0.5).all()
