"""The explainers by name: ours, the paper's ablations of Power-Link, and those that other packages register."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from powerlink.errors import ExplainerError, SettingsError, UnknownNameError
from powerlink.explainers.floor import Gradient, LowDegree, Random, Shortest
from powerlink.explainers.k_paths import KPaths
from powerlink.explainers.learned.gnn_explainer import GNNExplainer
from powerlink.explainers.learned.kex import KEX
from powerlink.explainers.learned.page_link import PaGELink
from powerlink.explainers.learned.pg_explainer import PGExplainer
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.explainers.learned.power_link_plus import PowerLinkPlus
from powerlink.explainers.protocol import AnyExplainer
from powerlink.explainers.single_facts import SingleFacts
from powerlink.explainers.slopes import Slopes
from powerlink.explainers.subsets.kelpie import Kelpie
from powerlink.explainers.subsets.subgraphx import SubgraphX
from powerlink.settings import settings_of

GROUP = "powerlink.explainers"  # the entry-point group other packages register in


@dataclass(frozen=True)
class Recipe:
    """A name, a class, and the settings that make the name: none for the class's own."""

    name: str
    kind: type[Any]
    line: str  # what it is, in one line
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fitting(self) -> type[Any] | None:
        """How it is fitted beforehand, where it must be."""
        return getattr(self.kind, "fitting", None)

    @property
    def proposes(self) -> str:
        """What kind of evidence it names; most find the best paths under their scores."""
        return str(getattr(self.kind, "proposes", "paths"))

    @property
    def needs(self) -> str:
        """What it cannot do without: a fit beforehand, a model that passes messages."""
        weighs = getattr(self.kind, "weighs_messages", False)
        return ", ".join([*(["a fit"] if self.fitting else []), *(["messages"] if weighs else [])])

    def make(self, settings: Mapping[str, Any] | None = None) -> AnyExplainer:
        """Make the explainer; settings are the class's fields, apart from those that are fixed."""
        given, known = settings or {}, settings_of(self.kind)
        for name in given:
            if name not in known:
                listed = ", ".join(sorted(known)) or "none at all"
                raise SettingsError(f"{self.name} has no setting {name!r}; it has {listed}{_who_has(name)}")
            if name in self.fixed:
                raise SettingsError(
                    f"{self.name} is {self.kind.name} with {name} {self.fixed[name]}: to set it, use {self.kind.name}"
                )
        called = {"name": self.name} if self.fixed else {}
        made: AnyExplainer = self.kind(**called, **self.fixed, **given)
        return made


def _who_has(setting: str) -> str:
    """Return the explainers that do have a setting, to be added to a refusal; nothing where none has."""
    having = [recipe.name for recipe in EXPLAINERS.values() if setting in settings_of(recipe.kind) and not recipe.fixed]
    return f" ({', '.join(having)} {'has' if len(having) == 1 else 'have'} it: choose by --explainer)" if having else ""


def _ablation(suffix: str, line: str, **fixed: Any) -> Recipe:
    return Recipe(f"{PowerLink.name}-{suffix}", PowerLink, f"power-link {line}", fixed)


EXPLAINERS: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("slopes", Slopes, "what the score loses by each fact, to first order: nothing to learn (the default)"),
        Recipe("single-facts", SingleFacts, "the facts that the score would lose most by, to first order, one by one"),
        Recipe("power-link-plus", PowerLinkPlus, "a free mask that keeps the prediction and is missed without it"),
        Recipe("power-link", PowerLink, "a scorer per query whose strong edges line up into walks (the paper)"),
        Recipe("gnn-explainer", GNNExplainer, "a free mask that is small and decided (GNNExplainer-Link)"),
        Recipe("pg-explainer", PGExplainer, "one network fitted on many queries beforehand (PGExplainer-Link)"),
        Recipe("page-link", PaGELink, "a free mask that rises on the best paths of each step (PaGE-Link)"),
        Recipe("kelpie", Kelpie, "sets of facts of the head, by what the rank loses without them (Kelpie)"),
        Recipe("ke-x", KEX, "a free mask within a budget that leaves no doubt which tail it is (KE-X)"),
        Recipe("subgraphx", SubgraphX, "paths in the subgraph of greatest Shapley value, by tree search (SubgraphX)"),
        Recipe("subgraphx-nodes", SubgraphX, "subgraphx that prunes nodes, as published", {"players": "nodes"}),
        Recipe("gradient", Gradient, "floor: gradient of the score by edge weight"),
        Recipe("shortest", Shortest, "floor: the shortest paths, without asking the model"),
        Recipe("k-paths", KPaths, "floor: shortest paths of different relations, without asking the model (K-Paths)"),
        Recipe("low-degree", LowDegree, "floor: paths around hubs, without asking the model"),
        Recipe("random", Random, "floor: chance"),
        _ablation("no-path", "without the path term", path_weight=0.0),
        _ablation("no-prediction", "without the prediction term", prediction_weight=0.0),
        _ablation("euclidean", "reading three distances instead of six vectors", combination="euclidean"),
        _ablation("free", "without its scorer: a free logit per edge, as its peers have", combination="none"),
        _ablation("order-2", "with walks of at most 2 hops in its path term", order=2),
        _ablation("order-3", "with walks of at most 3 hops (its default)", order=3),
        _ablation("order-4", "with walks of at most 4 hops in its path term", order=4),
        _ablation("authors", "with the prediction term weighted 0.8, as in the authors' code", prediction_weight=0.8),
    )
}


def find_recipe(name: str) -> Recipe:
    """Find an explainer by name, here or among those other packages registered; ours come first."""
    if name in EXPLAINERS:
        return EXPLAINERS[name]
    registered = registered_elsewhere()
    if name not in registered:
        raise UnknownNameError("explainer", name, [*EXPLAINERS, *registered], "powerlink explainers")
    return _load(registered[name])


def make_explainer(name: str, settings: Mapping[str, Any] | None = None) -> AnyExplainer:
    """Make an explainer by name; settings are its dataclass fields."""
    return find_recipe(name).make(settings)


@cache
def registered_elsewhere() -> dict[str, EntryPoint]:
    """Return what other packages registered, not yet loaded: a broken one is told when it is asked for."""
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in EXPLAINERS}


def _load(point: EntryPoint) -> Recipe:
    """Load an explainer of another package."""
    origin = f"the explainer {point.name} ({point.value})"
    try:
        kind = point.load()
    except Exception as error:  # whatever a stranger's import may raise
        raise ExplainerError(f"{origin} cannot be loaded: {error}") from error
    able = any(callable(getattr(kind, method, None)) for method in ("score_edges", "propose"))
    if not isinstance(kind, type) or not able:
        raise ExplainerError(f"{origin} is no explainer: it must be a class with a method score_edges, or propose")
    if not hasattr(kind, "__dataclass_fields__") or getattr(kind, "name", None) != point.name:
        raise ExplainerError(f"{origin} must be a frozen dataclass whose `name` is {point.name!r}")
    lines = (kind.__doc__ or "").strip().splitlines()
    return Recipe(point.name, kind, lines[0].rstrip(".") if lines else "without a description")
