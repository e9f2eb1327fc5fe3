"""Write an explainer of your own: a frozen dataclass with a name, a cost and one method.

This one prefers rare relations: an edge of a relation that few facts use says more than one that everybody has.

python examples/own_explainer.py
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

import powerlink
from powerlink.explainers.protocol import EdgeScores, setting
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.kg.planted import plant
from powerlink.models.rule_model import RuleModel


@dataclass(frozen=True, kw_only=True)
class RareRelations:
    """Edge scores by rarity: 1 for the query's rarest relation, less for commoner ones."""

    name: ClassVar[str] = "rare-relations"
    cost: ClassVar[str] = "log"
    power: float = setting(0.5, "how fast the score falls with the number of facts")

    def score_edges(self, model: powerlink.LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Score the kept edges of a batch of queries in (0, 1]; pruned ones get 0."""
        kinds = 2 * graph.num_relations
        slot = graph.query_of_edge * kinds + graph.relation  # one counter per query and relation
        count = torch.bincount(slot[graph.kept], minlength=graph.num_queries * kinds).clamp(min=1)
        rarity = count[slot].float().pow(-self.power)
        largest = rarity.new_zeros(graph.num_queries).scatter_reduce(0, graph.query_of_edge, rarity, "amax")
        return EdgeScores(rarity / largest[graph.query_of_edge] * graph.kept)


# A graph whose facts follow from known rules, and a model that reasons by exactly those rules.
planted = plant(seed=0)
model = RuleModel(planted.rules, planted.graph.num_entities, planted.graph.num_relations)
session = powerlink.Session.of(planted.graph, model)
queries = torch.from_numpy(planted.graph.test.copy())[:8]

alone = powerlink.ExplainSettings(also_consider="none")  # judge this explainer's proposals and nobody else's
for explainer in (RareRelations(), powerlink.Gradient(), powerlink.Random()):
    found = powerlink.explain_many(session, queries, explainer=explainer, settings=alone)
    drops = [e.score - e.without_all.score if e.without_all else 0.0 for e in found]  # nothing found: nothing moved
    print(f"{explainer.name:15} lowers the logit by {sum(drops) / len(drops):.2f}, mean of {len(drops)} queries")
