"""Making explanations again from what they say made them, for figures that were not measured then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from powerlink.errors import PowerlinkError, SettingsError
from powerlink.explainers.catalog import find_recipe
from powerlink.explainers.protocol import AnyExplainer
from powerlink.explanation import Explanation, MadeBy
from powerlink.models.subject import Subject
from powerlink.pipeline import ExplainSettings
from powerlink.run.explain_many import explain_many
from powerlink.run.progress import Told, nobody


def explainer_of(made_by: MadeBy) -> AnyExplainer:
    """Make the explainer that made something, or say why that cannot be."""
    recipe = find_recipe(made_by.explainer)
    if recipe.fitting:
        raise SettingsError(f"{recipe.name} was fitted beforehand, and nothing says where its weights are")
    return recipe.make({name: v for name, v in made_by.explainer_settings.items() if name not in recipe.fixed})


def with_paper_figures(
    subject: Subject, explanations: Sequence[Explanation], told: Told = nobody
) -> tuple[list[Explanation], list[str]]:
    """Measure the paper's figures of explanations that lack them; also return why some still do, a sentence each."""
    found, refused = list(explanations), []
    lacking = [i for i, e in enumerate(found) if e.paper is None and e.considered and e.made_by is not None]
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
        queries = torch.tensor([_ids(subject, found[i]) for i in places], dtype=torch.long)
        again = explain_many(subject, queries, explainer=explainer, settings=settings, seed=maker.seed, told=told)
        for i, made in zip(places, again, strict=True):
            found[i] = replace(found[i], paper=made.paper)
    return found, refused


def _ids(subject: Subject, explanation: Explanation) -> tuple[int, int, int]:
    query, graph = explanation.query, subject.graph
    head, relation, tail = graph.triple(query.head, query.relation, query.tail)
    return (tail, relation + graph.num_relations, head) if query.inverse else (head, relation, tail)
