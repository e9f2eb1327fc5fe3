"""A training's log as a picture: loss and validation MRR over epochs, the best one marked."""

from __future__ import annotations

import io
import json
from operator import itemgetter
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from powerlink.atomic_file import write_atomically
from powerlink.errors import ModelError, PowerlinkError
from powerlink.models.link_model import ModelSettings
from powerlink.report.figure import font_families, legible
from powerlink.report.wording import harmless

LOG, CURVE = "training.jsonl", "learning_curve.png"
_LOSS, _MRR, _QUIET = "#8a6d3b", "#1f5fbf", "#5c646d"


def write_learning_curve(folder: Path) -> Path:
    """Draw the log of a model folder beside it, and return where."""
    log = read_log(folder)
    png = io.BytesIO()
    draw_learning_curve(log, title=_title(folder)).savefig(png, format="png", dpi=150)
    write_atomically(folder / CURVE, png.getvalue())
    return folder / CURVE


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Read a training's log: epoch, loss and, where it was evaluated, validation accuracy."""
    path = folder / LOG
    if not path.is_file():
        raise ModelError(f"{path} is missing: without the log of its training a model has no learning curve")
    try:
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for line in lines:
            float(line["epoch"]), float(line["loss"]), float(line.get("valid", {}).get("mrr", 0))
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise ModelError(f"{path} is damaged ({error}): it should hold one epoch a line") from error
    if not lines:
        raise ModelError(f"{path} is empty: the training has not got to its first evaluation")
    return lines


def draw_learning_curve(log: list[dict[str, Any]], title: str = "") -> Figure:
    """Return the figure of a log, outside pyplot: loss on the left axis, validation MRR on the right."""
    figure = Figure(figsize=(7, 4), layout="constrained", facecolor="white")
    left = figure.add_subplot()
    right = left.twinx()
    left.plot([line["epoch"] for line in log], [line["loss"] for line in log], color=_LOSS)
    left.set_xlabel("epoch")
    left.set_ylabel("loss", color=_LOSS)
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set_ylabel("validation MRR", color=_MRR)
    if judged := [(line["epoch"], line["valid"]["mrr"]) for line in log if "valid" in line]:
        epoch, mrr = best = max(judged, key=itemgetter(1))  # the first of the best, whose weights are kept
        right.plot(*zip(*judged, strict=True), color=_MRR, marker=".", markersize=4)
        right.plot(epoch, mrr, color=_MRR, marker="o", markersize=8, fillstyle="none")
        right.set_ylim(bottom=0, top=max(mrr, 0.01) * 1.15)
        side = "right" if 2 * epoch > log[0]["epoch"] + log[-1]["epoch"] else "left"
        said = f"best {mrr:.3f} at epoch {epoch}"
        right.annotate(said, best, xytext=(0, 9), textcoords="offset points", ha=side, color=_MRR)
    for axes in (left, right):
        axes.spines["top"].set_visible(False)
        axes.tick_params(colors=_QUIET)
    if title:
        left.set_title(legible(title), family=font_families(), parse_math=False, loc="left", fontsize=11)
    return figure


def _title(folder: Path) -> str:
    """Name the model and its graph, where the folder already says so."""
    try:
        description = json.loads((folder / "model.json").read_text("utf-8"))
        model, graph = description["model"], description["graph"]["name"]
        return harmless(f"{ModelSettings.described(model).name} on {graph}")
    except (OSError, ValueError, KeyError, TypeError, PowerlinkError):
        return ""
