"""Edge scores held against known explanations by ROC-AUC.

Which edges of a query's computation graph take part in the ROC-AUC, and what they are, is read in three ways:

| reading | items | right |
|---|---|---|
| `directed` | every message edge | an edge of the ground truth, in its direction |
| `page-link` | message edges the model reads, of relations that explain the query (PaGE-Link's evaluation) | the same |
| `facts` | facts, with the higher score of their two directions | a fact of the ground truth, in either direction |

Pruned edges take part with score 0. Ties count half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kernels.grouped_auc import grouped_auc
from powerlink.kg.explained_links import GroundTruth

Reading = Literal["directed", "page-link", "facts"]
READINGS: tuple[Reading, ...] = ("directed", "page-link", "facts")


def explaining_edges(graph: ComputationGraph, truth: Sequence[GroundTruth]) -> Tensor:
    """Mark the edges, (num_edges,) bool, that explain their query; `truth` has one entry per query."""
    rows = [(query, *edge) for query, known in enumerate(truth) for edge in known.edges]
    wanted = torch.tensor(rows, dtype=torch.long, device=graph.device).reshape(-1, 4)
    source, target = graph.entity[graph.source], graph.entity[graph.target]
    edges = torch.stack([graph.query_of_edge, source, graph.relation, target], dim=1)
    distinct, number = torch.cat([wanted, edges]).unique(dim=0, return_inverse=True)
    explains = torch.zeros(len(distinct), dtype=torch.bool, device=graph.device)
    explains[number[: len(wanted)]] = True
    return explains[number[len(wanted) :]]


def edge_auc(graph: ComputationGraph, scores: Tensor, explaining: Tensor, reading: Reading) -> NDArray[np.float64]:
    """Return each query's ROC-AUC, (Q,), of edge scores (num_edges,); NaN where no item is right, or every one."""
    query = graph.query_of_edge
    if reading == "facts":
        scores, explaining = torch.maximum(scores, scores[graph.reverse]), explaining | explaining[graph.reverse]
        chosen = torch.arange(graph.num_edges, device=graph.device) <= graph.reverse  # one of the two stands for both
    elif reading == "page-link":
        assert graph.level is not None
        explains = torch.zeros(graph.num_queries, 2 * graph.num_relations, dtype=torch.bool, device=graph.device)
        explains[query[explaining], graph.relation[explaining]] = True
        chosen = explains[query, graph.relation] & (graph.level[graph.target] < graph.hops)
    else:
        chosen = torch.ones_like(explaining)
    items = [part[chosen].cpu().numpy() for part in (scores, explaining, query)]
    return grouped_auc(items[0], items[1], items[2], graph.num_queries)
