"""powerlink inside PyG's own Explainer: an algorithm for edge level, and a fidelity that weighs every layer."""

from powerlink.pyg_explainer.algorithm import PowerLinkExplainer
from powerlink.pyg_explainer.fidelity import fidelity

__all__ = ["PowerLinkExplainer", "fidelity"]
