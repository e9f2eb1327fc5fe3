"""The explanations of the fixtures as others would have made them."""

from __future__ import annotations

from dataclasses import replace

from powerlink.explanation import Explanation


def as_older(explanation: Explanation) -> Explanation:
    """Return an explanation as a powerlink wrote it that measured neither effects nor what facts carry together."""
    paths = tuple(
        replace(path, facts=tuple(replace(fact, effect=None) for fact in path.facts), together=None, witnesses=1)
        for path in explanation.evidence
    )
    return replace(explanation, evidence=paths, deletion=(), remarks=())


def by_carried(explanation: Explanation) -> Explanation:
    """Return an explanation as it is when its paths are chosen by what their facts carry together."""
    assert explanation.made_by is not None
    made_by = replace(explanation.made_by, settings={**explanation.made_by.settings, "select": "carried"})
    paths = sorted(explanation.evidence, key=lambda path: -(path.together or 0.0) / len(path.facts))
    return replace(explanation, evidence=tuple(paths), made_by=made_by)
