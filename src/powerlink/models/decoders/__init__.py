"""Decoders: from the vectors of head, relation and tail to one logit.

Each makes a query vector of head and relation and then matches it with tails, one each or all at once.
"""

from powerlink.models.decoders.conve import ConvE
from powerlink.models.decoders.distmult import DistMult
from powerlink.models.decoders.transe import TransE

__all__ = ["ConvE", "DistMult", "TransE"]
