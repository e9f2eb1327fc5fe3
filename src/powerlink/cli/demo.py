"""powerlink demo: from nothing to five proven explanations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from powerlink.cli.console import console, pick_device, shown, telling
from powerlink.cli.options import DeviceOption
from powerlink.cli.train import train_with_progress
from powerlink.explanation import Explanation
from powerlink.kernels.plain_torch import plain_torch
from powerlink.models.checkpoint import load_model
from powerlink.models.link_model import ModelSettings
from powerlink.models.subject import Subject
from powerlink.models.training import TrainingSettings
from powerlink.report.show import write_page
from powerlink.report.text import print_explanations
from powerlink.run.explain_many import explain_many
from powerlink.verify.verdict import standing_of

SHOWN = 5
TRIED = 10  # not every prediction hangs on paths; a first look is at those that do


def demo(
    out: Annotated[Path, typer.Option(help="Where the model and the report go.")] = Path("demo"),
    device: DeviceOption = "auto",
) -> None:
    """Train on a small world atlas, explain five held-out predictions it ranks first, and write a report.

    Takes about a minute on a laptop, and less the second time.

    Example: powerlink demo --out demo
    """
    folder = out / "model"
    train_with_progress("atlas", folder, DEMO_MODEL, DEMO_TRAINING, device)
    subject = load_model(folder, pick_device(device))
    found = _explained(subject, held_out_and_ranked_first(subject, TRIED))[:SHOWN]
    print_explanations(console, found)
    page = out / "report.html"
    write_page(found, page, "Five predictions about the world, explained")
    console.print(f"\nThe same with pictures: {shown(page)}", soft_wrap=True)
    console.print(
        f"Next: powerlink predict {shown(folder)} --head France --relation in_continent\n"
        f"      powerlink explain {shown(folder)} --head Kenya --relation in_continent --tail Africa",
        soft_wrap=True,  # a command that is copied must stay on its line
    )


def _explained(subject: Subject, queries: torch.Tensor) -> list[Explanation]:
    """Explain queries, and keep those that have paths to show."""
    with telling() as told:
        return [explanation for explanation in explain_many(subject, queries, told=told) if explanation.paths]


DEMO_MODEL = ModelSettings(encoder="compgcn", decoder="distmult", widths=(100, 100, 100))
DEMO_TRAINING = TrainingSettings(epochs=150, batch_size=256, lr=0.003)


def held_out_and_ranked_first(subject: Subject, count: int) -> torch.Tensor:
    """Pick test facts the model ranks first, of as many relations as possible: (count, 3)."""
    facts = torch.from_numpy(np.array(subject.graph.test))
    with plain_torch(subject.messages.device):
        standing = standing_of(subject, facts.to(subject.messages.device))
    first = facts[(standing.rank == 1).cpu()]
    strongest = first[standing.score.cpu()[(standing.rank == 1).cpu()].argsort(descending=True, stable=True)]
    seen: dict[int, int] = {}
    turn = []  # the how-manieth of its relation each fact is: round after round over the relations
    for relation in strongest[:, 1].tolist():
        turn.append(seen.get(relation, 0))
        seen[relation] = turn[-1] + 1
    return strongest[torch.tensor(turn).argsort(stable=True)][:count]
