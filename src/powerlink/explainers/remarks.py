"""What a reader must know of a learned mask before believing it: that it says nothing, if it does."""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor

from powerlink.explainers.protocol import EdgeScores
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kernels.segments import segment_sum
from powerlink.paths.search import PathBatch

FULL, EMPTY = 0.95, 0.05  # a mask above or below everywhere tells no edge from another
SATURATED = "the mask is close to 1 on every edge of the paths it proposes: their order is by length"
SATURATED_EVERYWHERE = "the mask is close to 1 nearly everywhere: it singles out nothing"
HOLLOW = "the mask is close to 0 everywhere: it keeps nothing"
NO_WALK = "no walk was short enough for the path term: the mask was learned without it"


def remarks_where(condition: Tensor, remark: str) -> list[tuple[str, ...]]:
    """Return a remark for each query (Q,) of which a condition holds."""
    return [(remark,) if holds else () for holds in condition.tolist()]


def remarks_on_mask(graph: ComputationGraph, scores: EdgeScores, proposed: PathBatch) -> list[tuple[str, ...]]:
    """Return, for each query, sentences about a mask that is full or empty; `proposed` are its own paths."""
    mask, kept, query = scores.values, graph.kept, graph.query_of_edge
    count = segment_sum(torch.ones_like(mask) * kept, query, graph.num_queries)
    share_full = segment_sum(((mask > FULL) & kept).to(mask.dtype), query, graph.num_queries) / count.clamp(min=1)
    largest = mask.new_zeros(graph.num_queries).scatter_reduce(0, query, mask, "amax")
    there = proposed.edges >= 0
    along = mask[proposed.edges.clamp(min=0)] if graph.num_edges else torch.ones_like(there, dtype=mask.dtype)
    weakest = torch.where(there, along, 1.0).amin(1) if proposed.edges.size(1) else mask.new_ones(proposed.count)
    least = mask.new_ones(graph.num_queries).scatter_reduce(0, proposed.query, weakest, "amin")
    has_paths = torch.bincount(proposed.query, minlength=graph.num_queries) > 0
    by_length = has_paths & (least > FULL) if scores.by_route is None else torch.zeros_like(has_paths)
    told = [
        remarks_where((count > 0) & (share_full > FULL), SATURATED_EVERYWHERE),
        remarks_where(by_length, SATURATED),
        remarks_where((count > 0) & (largest < EMPTY), HOLLOW),
    ]
    return [tuple(chain(*of_query)) for of_query in zip(*told, strict=True)]
