"""What can be fitted again of a model without an encoder: every entity's vector, and its bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from powerlink.models.decoders.decoder import Decoder
from powerlink.models.protocol import Embeddings, Objective


@dataclass(frozen=True, eq=False)
class FreeVectors:
    """The vectors of a table and what a decoder makes of them; a row's last number is the entity's bias."""

    objective: ClassVar[Objective] = Objective()

    vectors: Tensor  # (N, d)
    bias: Tensor | None  # (N,)
    relations: Tensor  # (2R, d)
    decoder: Decoder

    def rows(self) -> Tensor:
        """Return the vectors, and behind each its bias where there is one: (N, d or d + 1)."""
        return self.vectors if self.bias is None else torch.cat([self.vectors, self.bias.unsqueeze(1)], dim=1)

    def stood_in(self, rows: Tensor) -> Embeddings:
        """Take stand-ins' rows (n, ·) apart."""
        rows, width = rows.to(self.relations.dtype), self.vectors.size(1)
        return Embeddings(rows[:, :width], self.relations, None if self.bias is None else rows[:, width])

    def queries(self, heads: Embeddings, head: Tensor, relation: Tensor) -> VectorQueries:
        """Ask about heads and relations (n,)."""
        rows = heads.entity.index_select(0, head), self.relations.index_select(0, relation)
        return VectorQueries(self.decoder.query(*rows), self.decoder)

    def constrained(self, rows: Tensor) -> Tensor:
        """Return rows as they are."""
        return rows


@dataclass(frozen=True, eq=False)
class VectorQueries:
    """Query vectors (n, d)."""

    vectors: Tensor
    decoder: Decoder

    def match(self, tails: Embeddings, query: Tensor, tail: Tensor) -> Tensor:
        """Return the logits (m,) of some queries and tails, places (m,) of each."""
        logits = self.decoder.match(self.vectors.index_select(0, query), tails.entity.index_select(0, tail))
        return logits if tails.bias is None else logits + tails.bias.index_select(0, tail)

    def match_all(self, tails: Embeddings) -> Tensor:
        """Return the logits (queries, tails) of all pairs."""
        logits = self.decoder.match_all(self.vectors, tails.entity)
        return logits if tails.bias is None else logits + tails.bias
