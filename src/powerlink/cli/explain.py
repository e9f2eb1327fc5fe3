"""powerlink explain: why does the model believe it?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import powerlink
from powerlink.cli.console import console, errors, kept_in, print_line, shown, telling
from powerlink.cli.derived_flags import taken, with_flags
from powerlink.cli.naming import check_there, opened
from powerlink.cli.options import (
    DeviceOption,
    ExplainerOption,
    FactsOption,
    HeadOption,
    JsonOption,
    LimitOption,
    MemoryOption,
    ModelArgument,
    OnlyPredictedOption,
    ProfileOption,
    QueriesOption,
    RankHeadsOption,
    RelationOption,
    ResumableOption,
    SeedOption,
    TailOption,
    WeightsOption,
)
from powerlink.cli.own_settings import SetOption, read_settings
from powerlink.errors import DataError, SettingsError
from powerlink.explain_settings import EXPLAINER, ExplainSettings, Split
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.report.wording import counted
from powerlink.run.workforce import Workforce
from powerlink.settings import settings_of
from powerlink.stage_clock import timed

if TYPE_CHECKING:
    from torch import Tensor

    from powerlink.explainers.protocol import AnyExplainer
    from powerlink.explanation import Explanation
    from powerlink.models.session import Session
    from powerlink.run.progress import Told
    from powerlink.stage_clock import Seconds

Triple = tuple[str | None, str | None, str | None]
# Other explainers take those of these flags that they have a setting for, and everything else through --set.
PANELS = {
    "Explanation": ExplainSettings,
    "Explainer (settings of power-link; others take those they have)": PowerLink,
    "Workers": Workforce,
}


@with_flags(PANELS)
def explain(
    given: dict[str, Any],
    model: ModelArgument,
    head: HeadOption = None,
    relation: RelationOption = None,
    tail: TailOption = None,
    split: FactsOption = None,
    queries: QueriesOption = None,
    only_predicted: OnlyPredictedOption = False,
    limit: LimitOption = None,
    rank_heads: RankHeadsOption = False,
    out: ResumableOption = None,
    explainer: ExplainerOption = EXPLAINER,
    weights: WeightsOption = None,
    own: SetOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    memory: MemoryOption = None,
    profile: ProfileOption = False,
    json: JsonOption = False,
) -> None:
    """Explain predictions by the facts that carry them, each proven on the model.

    One triple:  powerlink explain models/atlas --head France --relation in_continent --tail Europe

    Many:  powerlink explain models/atlas --split test --limit 50 --out explanations.jsonl

    Another explainer:  … --explainer gnn-explainer --set entropy_weight=0.5
    """
    _check_source(model, triple := (head, relation, tail), split, queries)
    workforce = taken(given, Workforce)
    settings, maker = _settings(explainer, given | ({"weights": str(weights)} if weights else {}), own or [])
    how: dict[str, Any] = {"explainer": maker, "settings": settings, "seed": seed, "limit": limit, "out": out}
    how |= {"which": "predicted" if only_predicted else "all", "memory": memory and int(memory * 2**30)}
    session = opened(model, device, how["memory"])
    with kept_in(out), timed() as seconds, telling() as told, workforce.hire(session.messages.device) as executor:
        how |= {"rank_heads": rank_heads, "executor": executor, "told": _noting(told, out)}
        found = powerlink.explain_many(session, _facts(session, triple, split, queries), **how)
    _print(found, only_predicted, out, json)
    _print_profile(seconds if profile else {}, len(found))


def _noting(told: Told, out: Path | None) -> Told:
    """Tell as well how many explanations were there already."""
    first = True

    def heard(what: str, done: int, of: int) -> None:
        nonlocal first
        if first and what == "explaining" and done and out:
            errors.print(f"{done:,} of {of:,} are already in {shown(out)}", soft_wrap=True)
        first = first and what != "explaining"
        told(what, done, of)

    return heard


def _print_profile(seconds: Seconds, explained: int) -> None:
    """Tell how long each stage took, the longest first."""
    if not seconds:
        return
    total = sum(took.clock for took in seconds.values())
    errors.print(f"{counted(explained, 'explanation')} in {total:.1f} s")
    for stage, took in sorted(seconds.items(), key=lambda item: -item[1].clock):
        errors.print(f"  {took.clock:9.2f} s  {took.clock / max(total, 1e-9):4.0%}  {stage}")


def _settings(explainer: str, given: dict[str, Any], own: list[str]) -> tuple[ExplainSettings, AnyExplainer]:
    """Sort the given flags into those of every explanation and those of the explainer, and add what --set says."""
    from powerlink.explainers.catalog import find_recipe

    recipe = find_recipe(explainer)
    common = settings_of(ExplainSettings)
    theirs = {name: value for name, value in given.items() if name not in common}
    for name, value in read_settings(recipe.name, recipe.kind, own).items():
        if name in theirs:
            raise SettingsError(f"{name} is set twice: by --{name.replace('_', '-')} and by --set")
        theirs[name] = value
    return ExplainSettings(**{n: v for n, v in given.items() if n in common}), recipe.make(theirs)


def _check_source(model: str, triple: Triple, split: Split | None, file: Path | None) -> None:
    """Refuse a command that does not say what to explain, or says it twice."""
    sources = [any(part is not None for part in triple), split is not None, file is not None]
    if sum(sources) != 1:
        raise SettingsError("say what to explain by one of: --head/--relation/--tail, --split, or --queries")
    if sources[0] and None in triple:
        raise SettingsError("a triple needs all three: --head, --relation and --tail")
    check_there(model)


def _facts(session: Session, triple: Triple, split: Split | None, file: Path | None) -> Tensor:
    """Collect the facts to explain from the one source that was given."""
    import numpy as np
    import torch

    from powerlink.run.queries import distinct, read_queries

    if file is not None:
        return distinct(read_queries(session.graph, file))
    if split is None:
        head, relation, tail = (part or "" for part in triple)
        return torch.tensor([session.graph.triple(head, relation, tail)])
    if not len(session.graph.facts(split)):
        raise DataError(f"the model's graph has no {split} facts to explain")
    return distinct(torch.from_numpy(np.array(session.graph.facts(split))))


def _print(found: list[Explanation], only_predicted: bool, out: Path | None, json: bool) -> None:
    from powerlink.report.schema import to_json
    from powerlink.report.text import print_explanations, render_summary

    if only_predicted and not found:
        errors.print("the model predicts none of these triples: nothing to explain")
    if json:
        for explanation in found:
            print_line(to_json(explanation))
        return
    if out is None:
        print_explanations(console, found)
    if out is not None or len(found) > 1:
        console.print(render_summary(found))
    if out is not None:
        console.print(f"{counted(len(found), 'explanation')} in {shown(out)}", soft_wrap=True)
