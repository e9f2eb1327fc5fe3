"""Explanations as one self-contained HTML page, and as a fragment for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from powerlink.explanation import Explanation, MadeBy, Status
from powerlink.report import cards, drawing, measures, sentences, wording

_FOLD_FROM = 13  # this many explanations and more start folded


def render_page(explanations: Sequence[Explanation], title: str) -> str:
    """Return a page that needs nothing else: no network, no script; light, dark, and on paper."""
    made = [explanation.made_by for explanation in explanations if explanation.made_by is not None]
    makers: list[MadeBy] = []
    for maker in made:
        if maker not in makers:
            makers.append(maker)
    return page_of(
        "page.html",
        title=wording.harmless(title),
        explanations=explanations,
        counts=Counter(explanation.status for explanation in explanations),
        folded=len(explanations) >= _FOLD_FROM,
        makers=[(maker, made.count(maker)) for maker in makers],
    )


def render_fragment(explanation: Explanation) -> str:
    """Return the same card for a notebook; its style reaches nothing outside it, and it has no ids."""
    return page_of("fragment.html", explanation=explanation)


def page_of(template: str, **content: Any) -> str:
    """Return what a template of this folder says of its content."""
    return _templates().get_template(template).render(content)


@cache
def _templates() -> Environment:
    """Return the templates; they word explanations themselves, by the functions they are given here."""
    templates = Environment(
        loader=PackageLoader("powerlink", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(harmless=wording.harmless, said=cards.said, short=cards.short, points=cards.points)
    templates.globals.update(
        cards=cards, drawing=drawing, measures=measures, sentences=sentences, wording=wording, Status=Status
    )
    return templates
