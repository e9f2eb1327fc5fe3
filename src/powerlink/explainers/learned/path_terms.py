"""The path term: strong edges must line up into head-to-tail walks (Eqs. 5–9 of the paper).

A power of a row vector with the sparse mask matrix, instead of a shortest-path search in every step. Computed in log
space: masks reach 1e-10, and a product of three of them underflows float32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kernels.segments import gather, segment_logsumexp


@dataclass(frozen=True, eq=False)
class _Hop:
    """The edges a walk can take at one hop, and the nodes they lead to, numbered from zero."""

    edge: Tensor  # (e,) position among the edges on walks
    source: Tensor  # (e,) position among the nodes of the hop before
    target: Tensor  # (e,) position among this hop's nodes
    num_nodes: int
    at_tail: Tensor  # (q,) positions of tails among this hop's nodes
    query: Tensor  # (q,) the queries those tails belong to


class PowerPath:
    """−log P_on, the mean over lengths of the mean edge probability on head-to-tail walks.

    P_l = (Σ over walks of length l of the product of masks / number of walks)^(1/l), averaged over the lengths
    shortest … longest that have a walk. Parallel edges are walks of their own, at every hop. Only edges on some such
    walk are ever touched. `active` (Q,) says which queries have a walk at all; for the others the term is zero.
    """

    def __init__(self, graph: ComputationGraph, longest: int, shortest: int = 2) -> None:
        self._num_queries = graph.num_queries
        self._shortest = shortest
        self._edges, self._hops = _hops_on_walks(graph, longest)
        ones = torch.zeros_like(self._edges, dtype=torch.float64)  # as logarithms
        self._log_counts = self._powers(ones)  # (Q, lengths) log number of walks
        self._has_walk = self._log_counts.isfinite()
        self.active = self._has_walk.any(1)
        self._any_active = bool(self.active.any())  # asked here, once: in a step a GPU would have to be waited for

    def __call__(self, logits: Tensor) -> Tensor:
        return torch.where(self.active, -self._log_probability(logits), logits.new_zeros(()))

    def _log_probability(self, logits: Tensor) -> Tensor:
        if not self._any_active:
            return logits.new_zeros(self._num_queries) + 0 * logits.sum()
        log_mask = torch.nn.functional.logsigmoid(gather(logits, self._edges))
        powers = self._powers(log_mask)  # (Q, lengths)
        lengths = torch.arange(powers.size(1), device=powers.device) + self._shortest
        # A length without a walk is −inf in both; keep its NaN out of value and gradient alike.
        masked = powers.masked_fill(~self._has_walk, 0.0) - self._log_counts.masked_fill(~self._has_walk, 0.0)
        mean_edge = (masked / lengths).masked_fill(~self._has_walk, -torch.inf)  # log P_l
        safe = mean_edge.masked_fill(~self.active.unsqueeze(1), 0.0)
        return torch.logsumexp(safe, dim=1) - self._has_walk.sum(1).clamp(min=1).to(safe.dtype).log()

    def _powers(self, log_mask: Tensor) -> Tensor:
        """Return log Σ over walks of each length: (Q, lengths); of a mask of ones, the log number of walks."""
        powers = []
        reached: Tensor | None = None  # log weight of all walks from the head to each node of the last hop
        for length, hop in enumerate(self._hops, start=1):
            step = gather(log_mask, hop.edge)
            if reached is not None:
                step = step + gather(reached, hop.source)
            reached = segment_logsumexp(step, hop.target, hop.num_nodes)
            if length >= self._shortest:
                at_tail = reached.new_full((self._num_queries,), -torch.inf)
                powers.append(at_tail.index_copy(0, hop.query, gather(reached, hop.at_tail)))
        return torch.stack(powers, dim=1)


def _hops_on_walks(graph: ComputationGraph, longest: int) -> tuple[Tensor, list[_Hop]]:
    """List the kept edges that lie on a walk from head to tail of at most `longest` hops, (w,), and hop by hop."""
    edges = graph.kept_edges
    near = torch.zeros(longest, graph.num_nodes, dtype=torch.bool, device=graph.device)
    near[0, graph.tail] = True  # near[l]: a walk of at most l edges leads from here to the tail
    for length in range(1, longest):
        near[length] = near[length - 1]
        near[length, edges.source[near[length - 1][edges.target]]] = True

    hops = []
    before = graph.head.unique()  # heads are distinct nodes: each query has its own copy
    for length in range(1, longest + 1):
        place = torch.full((graph.num_nodes,), -1, device=graph.device)
        place[before] = torch.arange(before.numel(), device=graph.device)
        on_walk = (place[edges.source] >= 0) & near[longest - length][edges.target]
        edge = on_walk.nonzero().squeeze(1)
        after, target = edges.target[edge].unique(return_inverse=True)
        is_tail = after == graph.tail[graph.query_of_node[after]]
        at_tail = is_tail.nonzero().squeeze(1)
        query = graph.query_of_node[after[at_tail]]
        hops.append(_Hop(edge, place[edges.source[edge]], target, after.numel(), at_tail, query))
        before = after
    everyone, place = torch.cat([hop.edge for hop in hops]).unique(return_inverse=True)
    places = place.split([hop.edge.numel() for hop in hops])
    return everyone, [replace(hop, edge=part) for hop, part in zip(hops, places, strict=True)]
