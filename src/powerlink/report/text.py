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

from powerlink.explanation import Evidence, Explanation, Fact, Outcome, Status
from powerlink.report import sentences, wording
from powerlink.report.measures import Measure, kind_of, known_measures, slight_hops

_PLAIN = str.maketrans({"─": "-", "┄": ".", "→": ">", "←": "<", "−": "-", "·": ",", "…": "...", "±": "+-"})

Say = Callable[[str], str]  # turns what we would write into what this terminal can show


def print_explanations(console: Console, explanations: Iterable[Explanation]) -> None:
    """Print each explanation, a blank line between two."""
    for i, explanation in enumerate(explanations):
        if i:
            console.print()
        console.print(ExplanationText(explanation))


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
    total = Text(wording.counted(len(explanations), "query"), style="bold")
    return Group(total, table) if counts else total


@dataclass(frozen=True)
class ExplanationText:
    """One explanation for a rich console: the query, a card per path, and all of them together."""

    explanation: Explanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        explanation, say = self.explanation, _speech(options)
        yield from _header(explanation, say)
        if explanation.evidence:
            yield _text(f"{sentences.WHY}: ", style="bold").append(
                say(_later(sentences.order(explanation))), "not bold dim"
            )
        for i, path in enumerate(explanation.evidence, start=1):
            yield _card(i, path, explanation, say)
        if explanation.evidence:
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
    if against := sentences.foil(explanation):
        yield _text(say(against), style="bold")
    if standing := sentences.standing(explanation):
        yield _text(say(standing))
    if status := sentences.status_sentence(explanation.status):
        doubtful = sentences.is_doubtful(explanation.status)
        yield _text(say(status), style="bold yellow" if doubtful else "yellow")
    if explanation.evidence and (reading := sentences.reading(explanation)):
        yield _text(say(reading))
    for remark in sentences.remarks(explanation):
        yield _text("Doubt: ", style="bold yellow").append(say(remark), style="not bold")
    if said := sentences.lead(explanation):
        yield _text(say(said))


def _card(number: int, path: Evidence, explanation: Explanation, say: Say) -> Panel:
    slight = slight_hops(explanation, path)
    if path.kind == "path":
        lines = [_walk(path.facts, slight, say)]
    else:
        lines = [_walk([fact], [0] if i in slight else [], say) for i, fact in enumerate(path.facts)]
    lines += [_text(say(note), style="dim") for note in sentences.fact_notes(path)]
    if against := sentences.against_note(explanation, path):
        lines.append(_text(say(against), style="yellow"))
    lines += _measured(path, slight, explanation, say)
    source = Text(say(f"proposed by {wording.harmless(path.proposed_by)}"), style="dim") if path.proposed_by else None
    return Panel(
        Group(*lines),
        title=Text(f"{kind_of(path)} {number}"),
        title_align="left",
        subtitle=source,
        subtitle_align="right",
        box=box.ROUNDED,
        border_style="dim",
        padding=(0, 1),
    )


def _measured(path: Evidence, slight: Sequence[int], explanation: Explanation, say: Say) -> list[Text]:
    """Return a path's numbers, a line each; the one that the paths are ordered by comes first."""
    lines = []
    for measure in known_measures(explanation, path):
        if measure is Measure.WITHOUT:
            outcome = Outcome(path.score_without, path.rank_without)
            lines.append(_text(say("without it: ")).append_text(_change(explanation, outcome, say)))
        elif measure is Measure.OWN:
            lines.append(_text(say(f"cost: {wording.amount(path.cost)} (score {wording.amount(path.score)})")))
        elif path.together is not None:
            lines.append(_text(say(f"carried together: {wording.carried(path.together)}")))
            if effects := sentences.each_alone(path):
                lines.append(_each_alone(path, effects, slight, say))
    return lines


def _each_alone(path: Evidence, effects: Sequence[str], slight: Sequence[int], say: Say) -> Text:
    line = _text("each alone: ")
    for i, effect in enumerate(effects):
        line.append(say(" · ") if i else "", style="dim").append(say(effect), style="dim" if i in slight else "")
    if note := sentences.slight_note(path, slight):
        line.append(f" ({note})", style="dim")
    return line


def _walk(facts: Sequence[Fact], slight: Sequence[int], say: Say) -> Text:
    """Return `France ─in_region→ Western Europe`; the arrow points the way the fact does, dim if it does little."""
    line = _text(_name(facts[0].source, say) if facts else "")
    for i, fact in enumerate(facts):
        arrow = say(_arrow(fact.relation, inverse=fact.inverse, visible=fact.visible))
        line.append(arrow, style="cyan" if fact.visible and i not in slight else "cyan dim")
        line.append(_name(fact.target, say), style="" if fact.visible else "dim")
    return line


def _arrow(relation: str, *, inverse: bool = False, visible: bool = True) -> str:
    dash = "─" if visible else "┄"
    label = wording.isolated(wording.harmless(relation))
    return f" ←{label}{dash} " if inverse else f" {dash}{label}→ "


def _footer(explanation: Explanation, say: Say) -> RenderResult:
    rows: list[tuple[str, Text]] = [
        (name, _change(explanation, outcome, say))
        for name, outcome in (
            ("without all of these", explanation.without_all),
            ("with only these", explanation.only_these),
        )
        if outcome is not None and explanation.score is not None
    ]
    if explanation.deletion:
        one_by_one = _text(say(sentences.deletion_row(explanation)))
        if mean := sentences.deletion_mean(explanation):
            one_by_one.append(f"\n{say(mean)}", style="dim")
        rows.append(("fact after fact", one_by_one))
    if rows:
        yield _text(sentences.HOW_MUCH, style="bold")
        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, line in rows:
            table.add_row(f"{name}:", line)
        yield table
    if judged := sentences.judged(explanation):
        yield _text(judged, style="dim")


def _change(explanation: Explanation, outcome: Outcome, say: Say) -> Text:
    assert explanation.score is not None
    score = wording.change(explanation.score, outcome.score)
    style = "red" if outcome.score < explanation.score else "green"
    line = _text(say(f"score {score.before} → {score.after} ")).append(say(f"({score.difference})"), style=style)
    if explanation.rank is not None and outcome.rank is not None:
        line.append(say(f", rank {wording.rank(explanation.rank)} → {wording.rank(outcome.rank)}"))
    return line


def _later(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].removesuffix(".")


def _name(name: str, say: Say) -> str:
    return say(wording.isolated(wording.harmless(name)))


def _text(content: str, style: str = "") -> Text:
    """Return text that is never read as markup and folds where a line ends."""
    return Text(content, style=style, overflow="fold")
