"""Making explanations again from what they say made them, for figures that were not measured then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from powerlink.errors import PowerlinkError, SettingsError
from powerlink.explainers.catalog import find_recipe
from powerlink.explainers.protocol import AnyExplainer
from powerlink.explanation import Explanation, MadeBy
from powerlink.models.session import Session
from powerlink.pipeline import ExplainSettings
from powerlink.run.explain_many import explain_many
from powerlink.run.progress import Told, nobody
from powerlink.settings import settings_of


def explainer_of(made_by: MadeBy) -> AnyExplainer:
    """Make the explainer that made something, or say why that cannot be."""
    recipe = find_recipe(made_by.explainer)
    if recipe.fitting:
        raise SettingsError(f"{recipe.name} was fitted beforehand, and nothing says where its weights are")
    known = settings_of(recipe.kind).keys() - recipe.fixed.keys()
    return recipe.make({name: value for name, value in made_by.explainer_settings.items() if name in known})


def with_paper_figures(
    session: Session, explanations: Sequence[Explanation], told: Told = nobody
) -> tuple[list[Explanation], list[str]]:
    """Measure the paper's figures of explanations that lack them; also return why some still do, a sentence each."""
    found, refused = list(explanations), list[str]()
    lacking = [i for i, e in enumerate(found) if e.paper is None and e.considered and e.made_by is not None]
    if foils := [i for i in lacking if found[i].query.foil is not None]:
        refused.append(f"the paper's figures of {len(foils):,} explanations with a foil are measured in Python alone")
        lacking = [i for i in lacking if i not in set(foils)]
    makers: list[MadeBy] = []
    for i in lacking:
        if (maker := found[i].made_by) is not None and maker not in makers:
            makers.append(maker)
    for maker in makers:
        places = [i for i in lacking if found[i].made_by == maker]
        try:
            settings = ExplainSettings(**{**maker.settings, "metrics": "paper"})
            explainer = explainer_of(maker)
        except (PowerlinkError, TypeError) as error:
            refused.append(f"the paper's figures of {len(places):,} explanations cannot be measured: {error}")
            continue
        queries = torch.tensor([_ids(session, found[i]) for i in places], dtype=torch.long)
        again = explain_many(session, queries, explainer=explainer, settings=settings, seed=maker.seed, told=told)
        for i, made in zip(places, again, strict=True):
            found[i] = replace(found[i], paper=made.paper)
        if maskless := sum(made.considered > 0 and made.paper is None for made in again):
            why = f"{maker.explainer} names evidence and has no mask, which they judge"
            refused.append(f"the paper's figures of {maskless:,} explanations cannot be measured: {why}")
    return found, refused


def _ids(session: Session, explanation: Explanation) -> tuple[int, int, int]:
    query, graph = explanation.query, session.graph
    head, relation, tail = graph.triple(query.head, query.relation, query.tail)
    return (tail, relation + graph.num_relations, head) if query.inverse else (head, relation, tail)
