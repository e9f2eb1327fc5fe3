"""Ranking: where the true tail stands among all entities. Filtered, both directions, ties at their mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from powerlink.graphs.edges import expand_rows, find_sorted, row_pointer
from powerlink.graphs.message_graph import MessageGraph, inverse_relation
from powerlink.kg.knowledge_graph import KnowledgeGraph, Split, Triples
from powerlink.models.protocol import Embeddings, LinkModel, abilities_of

LOGITS_AT_ONCE = 2**23, 2**27  # that a CPU, a GPU ranks at a time: 32 and 512 MiB, and as much for what is made of them
SCORES_PER_RANKING, FEWEST_FACTS = 10**10, 1_000


@dataclass(frozen=True)
class Accuracy:
    """How well a model ranks held-out facts."""

    mrr: float
    hits_at_1: float
    hits_at_3: float
    hits_at_10: float
    queries: int
    drawn_from: int | None = None  # queries that there are in all, where not all were asked

    @classmethod
    def of(cls, ranks: Tensor, of_facts: int | None = None) -> Accuracy:
        """Summarise ranks (n,), perhaps of a part of so many facts."""
        ranks = ranks.double()
        if not ranks.numel():
            return cls(0.0, 0.0, 0.0, 0.0, 0)
        drawn_from = 2 * of_facts if of_facts and 2 * of_facts > ranks.numel() else None
        at_1, at_3, at_10 = ((ranks <= k).double().mean().item() for k in (1, 3, 10))
        return cls(ranks.reciprocal().mean().item(), at_1, at_3, at_10, ranks.numel(), drawn_from)

    def as_dict(self) -> dict[str, float]:
        """Return the figures under the names people know."""
        figures = {
            "mrr": self.mrr,
            "hits@1": self.hits_at_1,
            "hits@3": self.hits_at_3,
            "hits@10": self.hits_at_10,
            "queries": self.queries,
        }
        return figures if self.drawn_from is None else {**figures, "drawn_from": self.drawn_from}


class Known(Protocol):
    """What is known to be true, asked by head and relation, inverses included."""

    def lookup(self, head: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Return (which query, known tail) for all known tails of the queries (n,)."""
        ...

    def left_out(self, triples: Tensor, count: int) -> Tensor:
        """Return where, in flattened logits (n, count), a triple's own tail (n, 3) and its other known tails stand."""
        head, relation, tail = triples.unbind(1)
        row, known = self.lookup(head, relation)
        own = torch.arange(tail.numel(), device=tail.device) * count + tail
        places: Tensor = torch.cat([row * count + known, own]).unique()
        return places


@dataclass(frozen=True, eq=False)
class KnownTails(Known):
    """The tails known for each (head, relation), inverses included: what training aims at and filtering skips."""

    pairs: Tensor  # (P, 2) distinct head, relation
    row: Tensor  # (P + 1,)
    tail: Tensor  # (n,)
    num_relations: int

    @classmethod
    def of(cls, facts: Triples, num_relations: int, device: torch.device | str = "cpu") -> KnownTails:
        """Index facts (n, 3) in both directions."""
        head, relation, tail = torch.from_numpy(np.array(facts)).to(device).unbind(1)
        heads, tails = torch.cat([head, tail]), torch.cat([tail, head])
        relations = torch.cat([relation, relation + num_relations])
        key, order = (heads * (2 * num_relations) + relations).sort(stable=True)
        distinct, pair = key.unique_consecutive(return_inverse=True)
        pairs = torch.stack([distinct // (2 * num_relations), distinct % (2 * num_relations)], dim=1)
        return cls(pairs, row_pointer(pair, distinct.numel()), tails[order], num_relations)

    @cached_property
    def keys(self) -> Tensor:
        """Each pair as one number, ascending: (P,)."""
        return self.pairs[:, 0] * (2 * self.num_relations) + self.pairs[:, 1]

    def lookup(self, head: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Return (which query, known tail) for all known tails of the queries (n,)."""
        if self.pairs.size(0) == 0:
            return head.new_empty(0), head.new_empty(0)
        place, known = find_sorted(self.keys, head * (2 * self.num_relations) + relation)
        known = known.nonzero().squeeze(1)
        owner, position = expand_rows(self.row, place[known])
        return known[owner], self.tail[position]


@dataclass(frozen=True, eq=False)
class KnownFacts(Known):
    """The same of a whole graph: the training facts as its message graph has them, and the held-out ones indexed."""

    messages: MessageGraph
    held_out: KnownTails

    @classmethod
    def of(cls, graph: KnowledgeGraph, messages: MessageGraph) -> KnownFacts:
        """Index what the message graph leaves out."""
        others = np.concatenate([graph.valid, graph.test])
        return cls(messages, KnownTails.of(others, graph.num_relations, messages.device))

    def lookup(self, head: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Return (which query, known tail) for all known tails of the queries (n,); one may come more than once."""
        # An edge that reaches the head by the inverse relation comes from a known tail.
        count = 2 * self.messages.num_relations
        asked, of_query = (head * count + relation).unique(return_inverse=True)
        pair, edge = expand_rows(self.messages.row, asked // count)
        inverse = inverse_relation(asked % count, self.messages.num_relations)
        there = self.messages.relation[edge] == inverse[pair]
        query, position = expand_rows(row_pointer(pair[there], asked.numel()), of_query)
        held_out, tail = self.held_out.lookup(head, relation)
        return torch.cat([query, held_out]), torch.cat([self.messages.source[edge[there]][position], tail])


def both_ways(facts: Tensor, num_relations: int) -> Tensor:
    """Ask for the tails of all facts (n, 3), and then, through the inverse relations, for their heads: (2n, 3)."""
    head, relation, tail = facts.unbind(1)
    return torch.cat([facts, torch.stack([tail, relation + num_relations, head], dim=1)])


def score_tails(model: LinkModel, embeddings: Embeddings, head: Tensor, relation: Tensor) -> Tensor:
    """Score every node as the tail: (n, num_nodes). Models without a fast way are asked triple by triple."""
    if fast := abilities_of(model).score_tails:
        return fast(embeddings, head, relation)
    nodes = torch.arange(embeddings.entity.size(0), device=head.device)
    rows = [
        model.score(embeddings, torch.stack([h.expand_as(nodes), r.expand_as(nodes), nodes], dim=1))
        for h, r in zip(head, relation, strict=True)
    ]
    return torch.stack(rows) if rows else embeddings.entity.new_zeros(0, nodes.numel())


def score_tails_of(model: LinkModel, heads: Embeddings, tails: Embeddings, head: Tensor, relation: Tensor) -> Tensor:
    """Score every node of `tails` for heads taken from another encoding: (n, num_nodes of tails).

    A model that does this itself need not copy the tails beside the heads.
    """
    if fast := abilities_of(model).score_tails_of:
        return fast(heads, tails, head, relation)
    count = tails.entity.size(0)
    joined = tails.followed_by(heads.rows(head))
    place = count + torch.arange(head.numel(), device=head.device)
    return score_tails(model, joined, place, relation)[:, :count]


def filtered_ranks(logits: Tensor, triples: Tensor, known: Known) -> Tensor:
    """Rank each triple's tail among all candidates, other known tails left out: logits (n, N) → ranks (n,) float64.

    A score that is not a number ranks last, whichever side it is on.
    """
    own = logits.gather(1, triples[:, 2:])
    if own.isnan().any():  # the rare case: else, what is no number is neither above nor level with anything
        logits = logits.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=torch.finfo(logits.dtype).min)
        own = logits.gather(1, triples[:, 2:])
    # Count all, then take back the known: with a million entities, a copy of the logits costs more than comparing them.
    count = logits.size(1)
    left_out = known.left_out(triples, count)
    row, theirs = left_out // count, logits[left_out // count, left_out % count]

    def among_others(all_of_them: Tensor, those_left_out: Tensor) -> Tensor:
        # in 32 bits a CPU adds flags up twice as fast
        return all_of_them.sum(1, dtype=torch.int32).index_add(0, row, those_left_out.int(), alpha=-1)

    above = among_others(logits > own, theirs > own[row, 0])
    level = among_others(logits == own, theirs == own[row, 0])
    return 1 + above.double() + level.double() / 2


def usual_facts(num_entities: int) -> int:
    """Return how many facts are ranked at most where nobody says it: as many as take a minute or two."""
    return max(FEWEST_FACTS, SCORES_PER_RANKING // (2 * max(num_entities, 1)))


def _drawn(facts: Triples, most: int | None, seed: int) -> Triples:
    """Draw facts (≤ most, 3) without repeats, in their order; all of them where there are not more."""
    if most is None or len(facts) <= most:
        return np.array(facts)
    drawn = np.random.default_rng(seed).choice(len(facts), most, replace=False, shuffle=False)
    return np.asarray(facts[np.sort(drawn)])


@torch.no_grad()
def rank_facts(
    model: LinkModel,
    graph: KnowledgeGraph,
    messages: MessageGraph,
    split: Split,
    *,
    batch_size: int = 512,
    known: Known | None = None,
    told: Callable[[int], None] | None = None,
    most: int | None = None,
    seed: int = 0,
    embeddings: Embeddings | None = None,
) -> Tensor:
    """Rank every fact of a split in both directions: (2n,) — tails of all facts, then heads.

    Of a split of more than `most` facts, as many are drawn by the seed. `told` hears how many queries were ranked,
    batch by batch. `embeddings` are the whole graph's, if they are there.
    """
    device = messages.device
    known = known or KnownTails.of(graph.all_facts, graph.num_relations, device)
    triples = both_ways(torch.from_numpy(_drawn(graph.facts(split), most, seed)).to(device), graph.num_relations)
    embeddings = embeddings or model.encode(messages)
    ranks = []
    at_once = LOGITS_AT_ONCE[device.type == "cuda"] // max(graph.num_entities, 1)
    for part in triples.split(max(1, min(batch_size, at_once))):
        ranks.append(filtered_ranks(score_tails(model, embeddings, part[:, 0], part[:, 1]), part, known))
        if told is not None:
            told(len(part))
    return torch.cat(ranks) if ranks else torch.empty(0, dtype=torch.float64)
