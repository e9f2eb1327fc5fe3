"""Which messages a pass needs: nobody's that nothing wanted reads, and none into a node that is as in the whole graph.

A graph that is asked about is nearly the whole graph: copies of a few nodes that lost a fact, and around them originals
that lost nothing. A node whose incoming edges are all there, and those of their sources, and so on as far as a layer
sees, leaves that layer with the row it has in the whole graph. That row is known; no message to the node is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from powerlink.adapters.normaliser import Given


@dataclass(frozen=True, eq=False)
class LayerNeeds:
    """What one call of a layer must compute, by nodes of the pass."""

    read: Tensor  # (nodes,) bool: messages to these nodes are needed
    known: Tensor  # (nodes,) bool: these leave the layer as in the whole graph
    known_before: Tensor  # (nodes,) bool: these enter it so


def needs_of(given: Given, intact: Tensor, wanted: Tensor, calls: int, hops: int) -> list[LayerNeeds]:
    """Tell what each call of a layer needs, the first one first.

    `intact` (nodes,) bool: all incoming edges of the whole graph are there and weigh one; `wanted` (nodes,) bool: whose
    vectors are asked for. A layer that looks further than its messages come from (it divides by the degree of their
    sources, or propagates several times) makes `hops` more than the calls: each call then counts as that much wider.
    """
    source, target = given.edge_index
    wider = max(hops - calls, 0)
    found = [torch.ones_like(wanted)]
    for _ in range(calls + wider):
        changed = torch.zeros_like(wanted).index_fill_(0, target[~found[-1][source]], True)
        found.append(found[-1] & intact & ~changed)
    needs = []
    for before, known in reversed(list(pairwise(found[wider:]))):
        read = wanted & ~known
        for _ in range(wider):
            read = _with_sources(read, source, target)
        wanted = wanted | _with_sources(read, source, target)
        needs.append(LayerNeeds(read, known, before))
    return needs[::-1]


def _with_sources(nodes: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Add whom the nodes (nodes,) read from."""
    return nodes.index_fill(0, source[nodes[target]], True)
