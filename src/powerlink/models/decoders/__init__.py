"""Decoders: from the vectors of head, relation and tail to one logit."""

from powerlink.models.decoders.complex import ComplEx
from powerlink.models.decoders.conve import ConvE
from powerlink.models.decoders.distmult import DistMult
from powerlink.models.decoders.rotate import RotatE
from powerlink.models.decoders.transe import TransE

__all__ = ["ComplEx", "ConvE", "DistMult", "RotatE", "TransE"]
