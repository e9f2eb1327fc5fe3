"""Explanations in the terminal: cards that read well at 80 columns, with or without colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from powerlink.explanation import ExplainedPath, Explanation, Fact, Outcome, Status
from powerlink.report import wording

_PLAIN = str.maketrans({"─": "-", "┄": ".", "→": ">", "←": "<", "−": "-", "·": ",", "…": "...", "±": "+-"})

Say = Callable[[str], str]  # turns what we would write into what this terminal can show


def print_explanations(console: Console, explanations: Iterable[Explanation]) -> None:
    """Print each explanation, a blank line between two."""
    for i, explanation in enumerate(explanations):
        if i:
            console.print()
        console.print(render_text(explanation))


def render_text(explanation: Explanation) -> RenderableType:
    """Return one explanation for a rich console: the query, a card per path, and all of them together."""
    return _ExplanationText(explanation)


def render_summary(explanations: Sequence[Explanation]) -> RenderableType:
    """Return how many queries ended in each status, and what each status means."""
    counts = Counter(explanation.status for explanation in explanations)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for status in Status:
        if counts[status]:
            table.add_row(f"{counts[status]:,}", wording.status_name(status), Text(status.meaning))
    total = Text(f"{len(explanations):,} quer{'y' if len(explanations) == 1 else 'ies'}", style="bold")
    return Group(total, table) if counts else total


@dataclass(frozen=True)
class _ExplanationText:
    explanation: Explanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        explanation, say = self.explanation, _speech(options)
        yield from _header(explanation, say)
        for i, path in enumerate(explanation.paths, start=1):
            yield _card(i, path, explanation, say)
        if explanation.paths:
            yield from _footer(explanation, say)


def _speech(options: ConsoleOptions) -> Say:
    """Return how to speak to this terminal; one without Unicode gets ASCII arrows and escaped letters."""
    if options.encoding.startswith("utf"):
        return str
    return lambda text: text.translate(_PLAIN).encode(options.encoding, "backslashreplace").decode(options.encoding)


def _header(explanation: Explanation, say: Say) -> RenderResult:
    query = explanation.query
    line = _text(_name(query.head, say), style="bold")
    line.append(say(_arrow(query.relation)), style="cyan")
    line.append(_name(query.tail, say))
    yield line
    if explanation.score is not None:
        says = _text(say(f"score {wording.number(explanation.score)}"))
        if explanation.probability is not None:
            says.append(f" (probability {wording.probability(explanation.probability)})")
        if explanation.rank is not None:
            says.append(f", rank {wording.rank(explanation.rank)} {wording.ranked(query)}")
        yield says
    if explanation.status is not Status.EXPLAINED:
        status = _text(f"{wording.status_name(explanation.status)}: ".capitalize(), style="yellow")
        yield status.append(f"{explanation.status.meaning}.", style="default")


def _card(number: int, path: ExplainedPath, explanation: Explanation, say: Say) -> Panel:
    lines = [_walk(path.facts, say)]
    if unseen := [str(i) for i, fact in enumerate(path.facts, start=1) if not fact.visible]:
        hops = "hop" if len(unseen) == 1 else "hops"
        lines.append(_text(f"{hops} {', '.join(unseen)}: not seen by the model", style="dim"))
    if explanation.score is not None:
        outcome = Outcome(path.score_without, path.rank_without)
        lines.append(_text(say("without it: ")).append_text(_change(explanation, outcome, say)))
    source = Text(say(f"proposed by {wording.harmless(path.proposed_by)}"), style="dim") if path.proposed_by else None
    return Panel(
        Group(*lines),
        title=Text(f"path {number}"),
        title_align="left",
        subtitle=source,
        subtitle_align="right",
        box=box.ROUNDED,
        border_style="dim",
        padding=(0, 1),
    )


def _walk(facts: Sequence[Fact], say: Say) -> Text:
    """Return `France ─in_region→ Western Europe`; the arrow points the way the fact does."""
    line = _text(_name(facts[0].source, say) if facts else "")
    for fact in facts:
        dim = "" if fact.visible else " dim"
        line.append(say(_arrow(fact.relation, inverse=fact.inverse, visible=fact.visible)), style=f"cyan{dim}")
        line.append(_name(fact.target, say), style=dim.strip())
    return line


def _arrow(relation: str, *, inverse: bool = False, visible: bool = True) -> str:
    dash = "─" if visible else "┄"
    label = wording.isolated(wording.harmless(relation))
    return f" ←{label}{dash} " if inverse else f" {dash}{label}→ "


def _footer(explanation: Explanation, say: Say) -> RenderResult:
    rows = (("without all of these", explanation.without_all), ("with only these", explanation.only_these))
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, outcome in rows:
        if outcome is not None and explanation.score is not None:
            table.add_row(f"{name}:", _change(explanation, outcome, say))
    if table.row_count:
        yield table
    if explanation.considered:
        judged = wording.counted(explanation.considered, "candidate path")
        yield _text(f"{judged} judged on the model", style="dim")


def _change(explanation: Explanation, outcome: Outcome, say: Say) -> Text:
    assert explanation.score is not None
    score = wording.change(explanation.score, outcome.score)
    style = "red" if outcome.score < explanation.score else "green"
    line = _text(say(f"score {score.before} → {score.after} ")).append(say(f"({score.difference})"), style=style)
    if explanation.rank is not None and outcome.rank is not None:
        line.append(say(f", rank {wording.rank(explanation.rank)} → {wording.rank(outcome.rank)}"))
    return line


def _name(name: str, say: Say) -> str:
    return say(wording.isolated(wording.harmless(name)))


def _text(content: str, style: str = "") -> Text:
    """Return text that is never read as markup and folds where a line ends."""
    return Text(content, style=style, overflow="fold")
