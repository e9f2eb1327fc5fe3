"""Decoders: from the vectors of head, relation and tail to one logit."""

from powerlink.models.decoders.conve import ConvE
from powerlink.models.decoders.weightless import ComplEx, DistMult, RotatE, TransE

__all__ = ["ComplEx", "ConvE", "DistMult", "RotatE", "TransE"]
