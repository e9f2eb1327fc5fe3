"""Explanations as one self-contained HTML page, and as a fragment for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from powerlink.explanation import Explanation, Status
from powerlink.report import wording
from powerlink.report.cards import View, card, made_by_rows

_FOLD_FROM = 13  # this many explanations and more start folded


def render_page(explanations: Sequence[Explanation], title: str) -> str:
    """Return a page that needs nothing else: no network, no script; light, dark, and on paper."""
    page = _templates().get_template("page.html")
    return page.render(
        title=wording.harmless(title),
        statuses=_statuses(explanations),
        cards=[card(explanation) for explanation in explanations],
        folded=len(explanations) >= _FOLD_FROM,
        makers=_makers(explanations),
        page_style=_style("page.css"),
    )


def page_of(template: str, **content: Any) -> str:
    """Return another page in the same style, from a template of this folder."""
    own = _style(template.replace(".html", ".css"))
    return _templates().get_template(template).render(page_style=_style("page.css"), own_style=own, **content)


def render_fragment(explanation: Explanation) -> str:
    """Return the same card for a notebook; its style reaches nothing outside it, and it has no ids."""
    view = card(explanation)
    if explanation.made_by is not None:
        view["details"] += made_by_rows(explanation.made_by)
    return _templates().get_template("fragment.html").render(card=view)


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("powerlink", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals.update(style=_style("style.css"), counted=wording.counted)
    return templates


@cache
def _style(name: str) -> Markup:
    return Markup(files("powerlink.report").joinpath(name).read_text("utf-8"))


def _statuses(explanations: Sequence[Explanation]) -> list[View]:
    counts = Counter(explanation.status for explanation in explanations)
    return [
        {
            "name": wording.status_name(status),
            "meaning": status.meaning,
            "count": f"{counts[status]:,}",
            "explained": wording.is_explained(status),
        }
        for status in Status
        if counts[status]
    ]


def _makers(explanations: Sequence[Explanation]) -> list[View]:
    """Return the ways these explanations were made, each once."""
    makers: list[View] = []
    for explanation in explanations:
        if explanation.made_by is None:
            continue
        known = next((maker for maker in makers if maker["made_by"] == explanation.made_by), None)
        if known:
            known["count"] += 1
        else:
            rows = made_by_rows(explanation.made_by)
            makers.append({"made_by": explanation.made_by, "count": 1, "rows": rows})
    return makers
