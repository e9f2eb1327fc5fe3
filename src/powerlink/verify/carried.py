"""What the facts of a path carry together: the model is asked about the removal of every subset of them.

Write fall(S) for how far the logit falls when the facts S are removed. A path's facts F carry together

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

from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.graphs.what_if import Removals
from powerlink.memory import Room
from powerlink.models.protocol import LinkModel
from powerlink.paths.search import PathBatch
from powerlink.verify.counterfactual import edges_of_facts, scores_without

MOST_FACTS = 10  # of a path: 2^10 − 1 questions


@dataclass(frozen=True, eq=False)
class Carried:
    """Falls of the logit by path, on the computation graph; zero at places behind a path's end."""

    drop: Tensor  # (P,) without all facts of the path
    alone: Tensor  # (P, max_length) without only this fact
    together: Tensor  # (P,) what the facts carry together
    base: Tensor  # (Q,) the logit of each query with all facts in place

    @property
    def strongest(self) -> Tensor:
        """The largest effect, up or down, that a fact of each path has alone: (P,)."""
        alone: Tensor = self.alone.abs().amax(1) if self.alone.size(1) else torch.zeros_like(self.drop)
        return alone

    def at(self, index: Tensor) -> Carried:
        """Return the same of the paths at some places (…), flat; nothing is carried where a place is −1."""
        place, there = index.flatten().clamp(min=0), index.flatten() >= 0
        if not self.drop.numel():
            nothing = self.drop.new_zeros(place.shape)
            return Carried(nothing, nothing.unsqueeze(1).expand(-1, self.alone.size(1)), nothing, self.base)
        drop, alone, together = (
            torch.where(there.view(-1, *[1] * (number.dim() - 1)), number[place], 0.0)
            for number in (self.drop, self.alone, self.together)
        )
        return Carried(drop, alone, together, self.base)


@torch.no_grad()
def measure_carried(model: LinkModel, graph: ComputationGraph, paths: PathBatch, room: Room | None = None) -> Carried:
    """Ask the model about every subset of each path's facts; a subset that several paths share is asked about once.

    What facts carry together is a difference of differences, often a thousandth of either: ask a model in float64.

    A fact that the model cannot see changes nothing, so it is never removed: that spares most scenarios of models with
    fewer layers than paths have hops, and a path with such a fact carries nothing together.
    """
    base = model.score(model.encode(graph), graph.triples)
    subsets = _subsets(paths.edges.size(1), graph.device)  # (M, L)
    fact = fact_of(graph, paths.edges)
    seen = graph.visible(paths.edges, model.num_layers)
    removed = torch.where(subsets & seen.unsqueeze(1), fact.unsqueeze(1), -1)  # (P, M, L)
    scenario, facts = _distinct(removed.flatten(0, 1), graph.num_edges)
    falls = base.new_zeros(facts.size(0))
    asked = (facts >= 0).any(1).nonzero().squeeze(1)
    if asked.numel():
        query = graph.query_of_edge[facts[asked].amax(1)]
        owner = torch.arange(asked.numel(), device=graph.device)
        removals = Removals.of(graph, asked.numel(), *edges_of_facts(graph, owner, facts[asked]))
        falls[asked] = base[query] - scores_without(model, graph, query, removals, room=room)
    fall = falls[scenario].view(removed.shape[:2])  # (P, M)
    there = paths.edges >= 0
    size = subsets.sum(1)
    own = (there.unsqueeze(1) | ~subsets).all(2)  # not those of a longer path
    together = (fall * (2 * (size % 2) - 1) * own).sum(1)
    whole = (seen == there).all(1)  # else the sum cancels but for rounding
    return Carried(fall[:, -1], fall[:, size == 1] * there, torch.where(whole, together, 0.0), base)


def fact_of(graph: ComputationGraph, edges: Tensor) -> Tensor:
    """Return one edge for both directions of each fact (…); padding of −1 stays."""
    edge = edges.clamp(min=0)
    return torch.where(edges >= 0, torch.minimum(edge, graph.reverse[edge]), -1) if graph.num_edges else edges


def _subsets(size: int, device: torch.device) -> Tensor:
    """List the subsets of `size` places without the empty one, (2^size − 1, size) bool; the last one is all of them."""
    numbers = torch.arange(1, 2**size, device=device).unsqueeze(1)
    chosen: Tensor = (numbers >> torch.arange(size, device=device)) % 2 == 1
    return chosen


def _distinct(sets: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Number equal sets of numbers below `size`, rows (n, w) padded with −1: (n,), and one row of each (m, w)."""
    sets = sets.sort(dim=1).values
    number = sets.new_zeros(sets.size(0))
    for column in sets.unbind(1):  # column by column, so that the key never outgrows a whole number
        number = (number * (size + 1) + column + 1).unique(return_inverse=True)[1]
    first = number.new_zeros(int(number.max()) + 1 if number.numel() else 0)
    return number, sets[first.index_copy(0, number, torch.arange(number.numel(), device=number.device))]
