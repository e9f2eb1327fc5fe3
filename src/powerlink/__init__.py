"""Why does this model believe (head, relation, tail)? Proven path explanations for knowledge-graph completion.

>>> import powerlink
>>> model = powerlink.load_model("models/atlas")
>>> powerlink.show(powerlink.explain(model, "France", "in_continent", "Europe"))
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from powerlink.explain_settings import ExplainSettings
    from powerlink.explainers.catalog import make_explainer
    from powerlink.explainers.floor import Gradient, Random
    from powerlink.explainers.learned.power_link import PowerLink
    from powerlink.explainers.learned.power_link_plus import PowerLinkPlus
    from powerlink.explainers.slopes import Slopes
    from powerlink.explanation import Explanation, Status
    from powerlink.kg.catalog import load as load_graph
    from powerlink.kg.knowledge_graph import KnowledgeGraph
    from powerlink.models.checkpoint import load_model
    from powerlink.models.model_settings import ModelSettings
    from powerlink.models.prediction import predict
    from powerlink.models.protocol import Embeddings, LinkModel
    from powerlink.models.session import Session, rank
    from powerlink.models.training_settings import TrainingSettings
    from powerlink.report.figure import save_figure
    from powerlink.report.schema import read_explanations
    from powerlink.report.show import show, write_explanations, write_page
    from powerlink.run.compare import compare
    from powerlink.run.comparison_folder import CompareSettings
    from powerlink.run.explain_many import explain, explain_many
    from powerlink.run.fitting import fit_explainer
    from powerlink.run.train_folder import train
    from powerlink.run.workforce import Workforce
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
    "Workforce",
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

# Where each name comes from. What it needs (torch takes a second to import) is loaded when it is first named.
_HOMES = {
    "KnowledgeGraph": "kg.knowledge_graph",
    "load_graph": "kg.catalog:load",
    "ModelSettings": "models.model_settings",
    "TrainingSettings": "models.training_settings",
    "train": "run.train_folder",
    "open_model": "sources",
    "load_model": "models.checkpoint",
    "Session": "models.session",
    "Subject": "models.session:Session",  # what a Session was called before
    "LinkModel": "models.protocol",
    "Embeddings": "models.protocol",
    "rank": "models.session",
    "predict": "models.prediction",
    "explain": "run.explain_many",
    "explain_many": "run.explain_many",
    "ExplainSettings": "explain_settings",
    "compare": "run.compare",
    "CompareSettings": "run.comparison_folder",
    "Workforce": "run.workforce",
    "Slopes": "explainers.slopes",
    "PowerLink": "explainers.learned.power_link",
    "PowerLinkPlus": "explainers.learned.power_link_plus",
    "Gradient": "explainers.floor",
    "Random": "explainers.floor",
    "make_explainer": "explainers.catalog",
    "fit_explainer": "run.fitting",
    "Explanation": "explanation",
    "Status": "explanation",
    "evaluate": "verify.metrics",
    "read_explanations": "report.schema",
    "write_explanations": "report.show",
    "show": "report.show",
    "write_page": "report.show",
    "save_figure": "report.figure",
}


def __getattr__(name: str) -> object:
    if name in ("adapters", "testing"):
        return import_module(f"powerlink.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'powerlink' has no attribute {name!r}")
    module, _, called = _HOMES[name].partition(":")
    return globals().setdefault(name, getattr(import_module(f"powerlink.{module}"), called or name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
