"""Models from elsewhere as LinkModels: PyG encoders, PyKEEN models, and decoders for their vectors."""

from powerlink.adapters.decoders import ComplEx, ConvE, DistMult, RotatE, TransE
from powerlink.adapters.pyg import from_pyg
from powerlink.adapters.pykeen import from_pykeen, load_pykeen

__all__ = ["ComplEx", "ConvE", "DistMult", "RotatE", "TransE", "from_pyg", "from_pykeen", "load_pykeen"]
