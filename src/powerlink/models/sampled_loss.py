"""The loss of a training step on drawn neighbourhoods and drawn tails: none of it grows with the graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.graphs.edges import expand_rows, find_sorted
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.keyed_random import keys_of
from powerlink.kernels.one_to_all import drawn_tails_loss
from powerlink.models.link_model import EncoderDecoder
from powerlink.models.ranking import KnownTails
from powerlink.models.sampling import SampledGraph, Sampler, draw

MOST_RIGHT = 64  # right tails of one pair in a step: half of all people are male


def key_of_step(seed: int, epoch: int, step: int) -> int:
    """Return what everything drawn in a step follows from."""
    return int(keys_of(seed, torch.tensor([(epoch << 32) + step])))


@dataclass(frozen=True, eq=False)
class SampledLoss:
    """Asks a model about pairs of head and relation, over a part of the graph that is drawn around what is asked."""

    targets: KnownTails
    sampler: Sampler
    negatives: int
    smoothing: float

    @classmethod
    def of(
        cls,
        messages: MessageGraph,
        targets: KnownTails,
        layers: int,
        *,
        neighbours: int,
        negatives: int,
        smoothing: float,
    ) -> SampledLoss:
        """Draw at most so many neighbours of a node and so many tails for a step; 0 stands for all of them."""
        most = neighbours or max(int(messages.row.diff().max()), 1)
        return cls(targets, Sampler(messages, layers, most), negatives or messages.num_nodes, smoothing)

    def __call__(self, model: EncoderDecoder, batch: Tensor, key: int) -> tuple[Tensor, SampledGraph]:
        """Return the mean loss of some pairs (B,), places among the targets', and the graph that was drawn for them."""
        count = self.sampler.graph.num_nodes
        head, relation = self.targets.pairs.index_select(0, batch).unbind(1)
        whole = torch.tensor([0, count], device=batch.device)
        drawn = draw(whole, whole[:1], self.negatives, keys_of(key, ~whole[:1])).place  # no entity is called −1
        right = draw(self.targets.row, batch, MOST_RIGHT, keys_of(key, ~batch - 1))
        tail = self.targets.tail[right.place]

        owner, known = expand_rows(self.targets.row, batch)
        column, met = find_sorted(drawn, self.targets.tail[known])
        wrong = count - torch.bincount(owner, minlength=batch.numel())

        wanted, where = torch.cat([head, drawn, tail]).unique(return_inverse=True)
        head, drawn, tail = where.split([head.numel(), drawn.numel(), tail.numel()])
        graph = self.sampler(wanted, key)
        embeddings = model.encode(graph, graph.weight)
        logits, of_right = model.score_some(embeddings, head, relation, drawn, (right.owner, tail))
        loss = drawn_tails_loss(
            logits,
            of_right,
            right.owner,
            right.stands_for,
            (owner[met], column[met]),
            wrong,
            smoothing=self.smoothing,
            count=count,
        )
        return loss, graph
