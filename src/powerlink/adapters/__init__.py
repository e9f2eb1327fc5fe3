"""Models from elsewhere as LinkModels: PyG encoders, PyKEEN models, and decoders for their vectors."""

from powerlink.adapters.decoders import ComplEx, ConvE, DistMult, RotatE, TransE
from powerlink.adapters.pyg import from_pyg

__all__ = ["ComplEx", "ConvE", "DistMult", "RotatE", "TransE", "from_pyg"]
