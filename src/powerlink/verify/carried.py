"""What the facts of a piece of evidence carry together: the model is asked about the removal of every subset of them.

Write fall(S) for how far the logit falls when the facts S are removed. Its facts F carry together

    together(F) = Σ over the subsets S of F, S ≠ ∅, of (−1)^(|S| + 1) · fall(S)

which is what is lost as soon as any one of them is gone, and counted by none of their smaller groups (the interaction
of inclusion and exclusion). Facts that only work side by side carry all of their fall together; facts that each do
something of their own carry nothing together, however large their fall; facts that can stand in for each other carry
less than nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.evidence import EvidenceBatch, fact_of
from powerlink.explainers.protocol import Oracle
from powerlink.graphs.computation_graph import ComputationGraph


@dataclass(frozen=True, eq=False)
class Carried:
    """Falls of the number that is explained, by piece of evidence; zero at places behind its last fact."""

    drop: Tensor  # (P,) without all its facts
    alone: Tensor  # (P, most) without only this fact
    together: Tensor  # (P,) what the facts carry together
    base: Tensor  # (Q,) each question's number with all facts in place

    @property
    def strongest(self) -> Tensor:
        """The largest effect, up or down, that a fact of each piece has alone: (P,)."""
        alone: Tensor = self.alone.abs().amax(1) if self.alone.size(1) else torch.zeros_like(self.drop)
        return alone

    def at(self, index: Tensor) -> Carried:
        """Return the same of the evidence at some places (…), flat; nothing is carried where a place is −1."""
        numbers = (self.drop, self.alone, self.together)
        # a place of −1 is the last one, where a zero is put
        drop, alone, together = (torch.cat([n, n.new_zeros(1, *n.shape[1:])])[index.flatten()] for n in numbers)
        return Carried(drop, alone, together, self.base)


def measure_carried(oracle: Oracle, graph: ComputationGraph, evidence: EvidenceBatch) -> Carried:
    """Ask about every subset of each piece's facts; a subset that several pieces share is asked about once.

    What facts carry together is a difference of differences, often a thousandth of either: ask an oracle in float64.

    A fact that the model cannot see changes nothing, so it is never removed: that spares most scenarios of models with
    fewer layers than paths have hops, and evidence with such a fact carries nothing together.
    """
    base = oracle.now()
    most = evidence.edges.size(1)
    numbers = torch.arange(1, 2**most, device=graph.device).unsqueeze(1)
    subsets = (numbers >> torch.arange(most, device=graph.device)) % 2 == 1  # (M, L) but the empty one; the last is all
    fact = fact_of(graph, evidence.edges)
    seen = oracle.sees(evidence.edges)
    removed = torch.where(subsets & seen.unsqueeze(1), fact.unsqueeze(1), -1)  # (P, M, L)
    scenario, facts = _distinct(removed.flatten(0, 1), graph.num_edges)
    falls = base.new_zeros(facts.size(0))
    asked = (facts >= 0).any(1).nonzero().squeeze(1)
    if asked.numel():
        query = graph.query_of_edge[facts[asked].amax(1)]
        falls[asked] = base[query] - oracle.without(query, facts[asked])
    fall = falls[scenario].view(removed.shape[:2])  # (P, M)
    there = evidence.edges >= 0
    size = subsets.sum(1)
    own = (there.unsqueeze(1) | ~subsets).all(2)  # not those of a larger piece
    together = (fall * (2 * (size % 2) - 1) * own).sum(1)
    whole = (seen == there).all(1)  # else the sum cancels but for rounding
    return Carried(fall[:, -1], fall[:, size == 1] * there, torch.where(whole, together, 0.0), base)


def _distinct(sets: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Number equal sets of numbers below `size`, rows (n, w) padded with −1: (n,), and one row of each (m, w)."""
    sets = sets.sort(dim=1).values
    number = sets.new_zeros(sets.size(0))
    for column in sets.unbind(1):  # column by column, so that the key never outgrows a whole number
        number = (number * (size + 1) + column + 1).unique(return_inverse=True)[1]
    first = number.new_zeros(int(number.max()) + 1 if number.numel() else 0)
    return number, sets[first.index_copy(0, number, torch.arange(number.numel(), device=number.device))]
