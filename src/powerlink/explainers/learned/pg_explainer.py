"""PGExplainer-Link: one network for all queries (Luo et al., NeurIPS 2020), fitted on many, applied in one forward."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from powerlink.errors import MismatchError, SettingsError
from powerlink.explainers.learned.learner import Descent
from powerlink.explainers.learned.masks import features_of, initial_weights, mask_of, rows_of_edges
from powerlink.explainers.learned.terms import WeightedTerms, counterfactual, keep_prediction, mask_entropy, mask_sum
from powerlink.explainers.protocol import EdgeScores
from powerlink.explainers.weights import Weights, load_weights
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kernels.edge_mlp import edge_mlp
from powerlink.kernels.keyed_random import keyed_uniform, keys_of
from powerlink.models.protocol import LinkModel
from powerlink.models.session import Session
from powerlink.paths.propose import Cost
from powerlink.settings import setting

PARTS = {"first": 3, "first_bias": 2, "second": 3, "second_bias": 2, "last": 3, "last_bias": 2}  # name → dimensions


@dataclass(frozen=True, kw_only=True)
class PGFitting:
    """How PGExplainer-Link is fitted: edges are drawn by the concrete relaxation, ever more sharply.

    Temperatures are PGExplainer's well-known ones. Its weights, 0.05 of the size and 1 of the entropy, are for graphs
    of one relation and some hundred edges: the size is a sum over edges (the entropy a mean, as in `gnn-explainer`), so
    on a graph of thousands they empty the mask, or fill it. In a knowledge graph facts of several relations lie side by
    side, and nodes alone do not tell them apart: `reads_relations=False` is PGExplainer's own network.
    """

    epochs: int = setting(30, "passes over the training queries")
    batch: int = setting(32, "queries in a step of Adam at most")
    lr: float = setting(0.003, "Adam's learning rate")
    hidden: int = setting(64, "width of the network's two hidden layers")
    reads_relations: bool = setting(True, "read the edge's relation, too; PGExplainer reads nodes alone")
    first_temperature: float = setting(5.0, "of the relaxation, in the first epoch; high is soft")
    last_temperature: float = setting(2.0, "the same in the last epoch; between them it falls by equal factors")
    prediction_weight: float = setting(1.0, "weight of keeping the prediction")
    counterfactual_weight: float = setting(0.0, "weight of losing the prediction without the mask; 0 switches it off")
    size_weight: float = setting(3e-5, "weight of the mask's sum over the query's edges")
    entropy_weight: float = setting(0.0, "weight of the mask's mean entropy")

    def __post_init__(self) -> None:
        if self.epochs < 0 or self.batch < 1 or self.hidden < 1 or not 0 < self.lr < math.inf:
            raise SettingsError("epochs must not be negative; batch, lr and hidden must be positive and finite")
        if not (0 < self.first_temperature < math.inf and 0 < self.last_temperature < math.inf):
            raise SettingsError("temperatures must be positive and finite")

    def fit(
        self,
        model: LinkModel,
        batches: Iterable[ComputationGraph],
        seed: int,
        told: Callable[[float], None] = lambda loss: None,
    ) -> dict[str, Tensor]:
        """Learn one network from batches of queries; `told` hears every epoch's mean loss of a query."""
        first = next(iter(batches), None)
        if first is None:
            raise SettingsError("there is no query to fit on")
        nodes = features_of(first)[0]
        key = keys_of(seed, torch.zeros(1, dtype=torch.long, device=first.device))
        drawn = initial_weights(key, (6 if self.reads_relations else 5) * nodes.size(1), self.hidden)
        parts = [part.to(nodes.dtype).requires_grad_() for part in drawn]
        descent = Descent(parts, self.lr)

        def prepared(graph: ComputationGraph) -> tuple[ComputationGraph, PairScorer, WeightedTerms]:
            return graph, PairScorer(graph, parts), self.terms(model, graph)

        kept = [prepared(graph) for graph in batches] if isinstance(batches, list) else None
        for epoch in range(self.epochs):
            losses = []
            for graph, scorer, terms in kept or map(prepared, batches):
                mask = Relaxed(scorer, graph, self._temperature(epoch), keys=(seed, epoch))
                losses.append(descent.step(mask, terms))
            told(torch.cat(losses).mean().item())
        return dict(zip(PARTS, (part.detach() for part in parts), strict=True))

    def terms(self, model: LinkModel, graph: ComputationGraph) -> WeightedTerms:
        """Return what the mask is rewarded for."""
        return [
            (self.prediction_weight, keep_prediction(model, graph)),
            (self.size_weight, mask_sum(graph)),
            (self.entropy_weight, mask_entropy(graph)),
            *counterfactual(self.counterfactual_weight, model, graph),
        ]

    def _temperature(self, epoch: int) -> float:
        share = epoch / max(self.epochs - 1, 1)
        return float(self.first_temperature * (self.last_temperature / self.first_temperature) ** share)


@dataclass(frozen=True, kw_only=True)
class PGExplainer:
    """Edge scores by one network, fitted beforehand, that reads an edge's two nodes and its relation beside the query.

    Fitted with `reads_relations=False` it reads nodes alone, and parallel edges score alike. Reports tell the fit by a
    hash of its numbers.
    """

    name: ClassVar[str] = "pg-explainer"
    cost: ClassVar[Cost] = "inverse"
    weighs_messages: ClassVar[bool] = True
    fitting: ClassVar[type[PGFitting]] = PGFitting

    weights: str | None = setting(None, "the file that `powerlink fit` made", compare=False)
    fit: str = field(init=False, default="")
    _learned: Weights | None = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.weights is not None:
            learned = load_weights(self.weights, self.name, PARTS)
            object.__setattr__(self, "fit", learned.hash)
            object.__setattr__(self, "_learned", learned)

    def check_fit(self, session: Session) -> None:
        """Refuse to explain without weights, or with those of another model."""
        self._fitted().check_model(session)

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Apply the network to all edges at once; nothing is random here."""
        learned = self._fitted()
        nodes = features_of(graph)[0]
        if learned.tensors["first"].size(1) not in (5 * nodes.size(1), 6 * nodes.size(1)):
            raise MismatchError(
                f"{learned.path} was fitted on vectors of another width than this model's, which is "
                f"{nodes.size(1)}: fit it on this model with `powerlink fit`"
            )
        parts = [learned.tensors[name].to(nodes) for name in PARTS]
        with torch.no_grad():
            return EdgeScores.of_kept(graph, mask_of(PairScorer(graph, parts).logits()))

    def _fitted(self) -> Weights:
        if self._learned is None:
            raise SettingsError(
                f"{self.name} must be fitted before it can explain: "
                f"`powerlink fit MODEL --explainer {self.name} --out FILE`, then explain with `--weights FILE`"
            )
        return self._learned


class PairScorer:
    """An MLP on [source, target, ĥ, r̂, t̂, relation], one for all edges and queries: (1, 6d, H), (1, H, H), (1, H, 1).

    As in `TripletScorer` the first layer is a sum of projections, one of each node and one of each query and relation.
    A first layer of 5d reads no relation.
    """

    def __init__(self, graph: ComputationGraph, parts: list[Tensor]) -> None:
        self.parameters = parts
        self._graph = graph
        self._nodes, self._relations = features_of(graph)
        self._inputs = parts[0].size(1) // self._nodes.size(1)
        self._rows = rows_of_edges(graph, self._relations.size(0) if self._inputs == 6 else 0)

    def logits(self) -> Tensor:
        """Return the logits of the kept edges: (E,)."""
        first, first_bias, *deeper = self.parameters
        source, target, head, relation, tail, *own = first[0].chunk(self._inputs)  # (d, H) each
        graph = self._graph
        by_query = (
            self._nodes[graph.head] @ head
            + self._relations[graph.queries[:, 1]] @ relation
            + self._nodes[graph.tail] @ tail
            + first_bias
        )  # (Q, H)
        for weight in own:  # the edge's relation rides on its query's row: (Q·2R, H)
            by_query = (by_query.unsqueeze(1) + self._relations @ weight).flatten(0, 1)
        second, second_bias, last, last_bias = (part.expand(graph.num_queries, *part.shape[1:]) for part in deeper)
        return edge_mlp(
            self._rows,
            (self._nodes @ torch.cat([source, target], dim=1)).unflatten(1, (2, -1)),
            by_query,
            second=second,
            second_bias=second_bias,
            last=last,
            last_bias=last_bias,
        )


class Relaxed:
    """A mask drawn by the concrete relaxation: σ((logit + log u − log(1 − u)) / temperature), u uniform.

    The draws follow from (keys, query, edge), so they do not depend on how queries are batched.
    """

    def __init__(self, mask: PairScorer, graph: ComputationGraph, temperature: float, *, keys: tuple[int, int]) -> None:
        self.parameters = mask.parameters
        self._mask, self._temperature = mask, temperature
        edges = graph.kept_edges
        seed, epoch = keys
        columns = [*graph.queries[edges.query].unbind(1), graph.edge[edges.index]]
        draws = keyed_uniform(keys_of(seed, torch.full_like(edges.query, epoch), *columns), 1).squeeze(1)
        self._noise = torch.logit(draws.double(), eps=1e-7)

    def logits(self) -> Tensor:
        """Return the drawn mask as logits: (E,)."""
        logits = self._mask.logits()
        return (logits + self._noise.to(logits.dtype)) / self._temperature
