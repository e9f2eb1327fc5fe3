"""Why does this model believe (head, relation, tail)? Proven path explanations for knowledge-graph completion.

>>> import powerlink
>>> model = powerlink.load_model("models/atlas")
>>> powerlink.show(powerlink.explain(model, "France", "in_continent", "Europe"))
"""

from importlib import import_module

from powerlink.explainers.catalog import make_explainer
from powerlink.explainers.floor import Gradient, Random
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explainers.learned.power_link_plus import PowerLinkPlus
from powerlink.explainers.slopes import Slopes
from powerlink.explanation import Explanation, Status
from powerlink.kg.catalog import load as load_graph
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.models.checkpoint import load_model
from powerlink.models.link_model import ModelSettings
from powerlink.models.prediction import predict
from powerlink.models.protocol import Embeddings, LinkModel
from powerlink.models.session import Session, rank
from powerlink.models.training import TrainingSettings
from powerlink.pipeline import ExplainSettings
from powerlink.report.figure import save_figure
from powerlink.report.schema import read_explanations
from powerlink.report.show import show, write_explanations, write_page
from powerlink.run.compare import compare
from powerlink.run.comparison_folder import CompareSettings
from powerlink.run.explain_many import explain, explain_many
from powerlink.run.fitting import fit_explainer
from powerlink.run.train_folder import train
from powerlink.sources import open_model
from powerlink.verify.metrics import evaluate

__all__ = [
    "KnowledgeGraph",
    "load_graph",
    "ModelSettings",
    "TrainingSettings",
    "train",
    "open_model",
    "load_model",
    "Session",
    "LinkModel",
    "Embeddings",
    "rank",
    "predict",
    "explain",
    "explain_many",
    "ExplainSettings",
    "compare",
    "CompareSettings",
    "Slopes",
    "PowerLink",
    "PowerLinkPlus",
    "Gradient",
    "Random",
    "make_explainer",
    "fit_explainer",
    "Explanation",
    "Status",
    "evaluate",
    "read_explanations",
    "write_explanations",
    "show",
    "write_page",
    "save_figure",
]


def __getattr__(name: str) -> object:
    """Load `powerlink.adapters` and `powerlink.testing` when they are first named: PyG takes seconds to import."""
    if name in ("adapters", "testing"):
        return import_module(f"powerlink.{name}")
    if name == "Subject":  # what a Session was called before
        return Session
    raise AttributeError(f"module 'powerlink' has no attribute {name!r}")
