"""What a score is worth: how often a candidate that scored so was right, for questions about held-out facts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from powerlink.errors import SettingsError
from powerlink.kg.knowledge_graph import KnowledgeGraph
from powerlink.models.protocol import Embeddings, LinkModel
from powerlink.models.ranking import Known, both_ways, score_tails

FACTS = 1_000  # asked about where there are as many
FEWEST_FACTS = 10  # of fewer, no figure says more than chance
MOST_QUESTIONS, MOST_LOGITS = 512, 4_000_000  # at a time
STEPS = 100  # of Newton's method, which takes about ten
# Logits are counted by the first 21 bits of their float32: sign, exponent and 12 of the fraction. That is one part in
# 4,000 or finer, the same for every batch, and no larger for a million entities than for a hundred.
_KEPT_BITS = 21
_DROPPED_BITS = 32 - _KEPT_BITS


@dataclass(frozen=True)
class Calibration:
    """Of candidates that scored like this for questions about held-out facts, so many were the right answer."""

    temperature: float
    shift: float  # the score of a candidate that is right as often as not
    facts: int  # validation facts asked about, each in both directions

    def __post_init__(self) -> None:
        if not (math.isfinite(self.shift) and math.isfinite(self.temperature) and self.temperature > 0):
            raise SettingsError(
                f"a calibration needs a finite shift and a temperature above 0, not {self.shift} and {self.temperature}"
            )

    def probability(self, logit: float) -> float:
        """Return sigmoid((logit − shift) / temperature), never below 0 or above 1."""
        scaled = (logit - self.shift) / self.temperature
        odds = math.exp(-abs(scaled))
        return 1 / (1 + odds) if scaled >= 0 else odds / (1 + odds)


@torch.no_grad()
def calibrate(
    model: LinkModel,
    graph: KnowledgeGraph,
    embeddings: Embeddings,
    known: Known,
    *,
    facts: int = FACTS,
    seed: int = 0,
    at_once: int | None = None,
) -> Calibration | None:
    """Fit temperature and shift on validation facts, drawn where there are more than `facts`; None where that fails.

    Each fact is asked about in both directions. Its own answer is the right one, all other candidates are wrong, and
    other known answers are left out. `at_once` is how many questions are scored at a time.
    """
    if len(graph.valid) < FEWEST_FACTS:
        return None
    device, count = embeddings.entity.device, embeddings.entity.size(0)
    drawn = torch.randperm(len(graph.valid), generator=torch.Generator().manual_seed(seed))[:facts]
    questions = both_ways(torch.from_numpy(np.array(graph.valid))[drawn].to(device), graph.num_relations)
    right, wrong = [], torch.zeros(2**_KEPT_BITS, dtype=torch.long, device=device)
    for part in questions.split(at_once or max(1, min(MOST_QUESTIONS, MOST_LOGITS // count))):
        logits = score_tails(model, embeddings, part[:, 0], part[:, 1])
        right.append(logits.gather(1, part[:, 2:]).squeeze(1))
        logits = logits.float().flatten()
        if not logits.isfinite().all():
            return None
        wrong += _tally(logits) - _tally(logits[known.left_out(part, count)])
    bins = wrong.nonzero().squeeze(1)
    return fit(torch.cat(right), _middle(bins), wrong[bins])


def fit(right: Tensor, wrong: Tensor, times: Tensor) -> Calibration | None:
    """Fit to the logits of right answers (n,), two a fact, and of wrong ones (m,), each seen so many `times` (m,).

    Minimised is the mean negative log-likelihood, where a right answer counts as 1 with a doubt of one in n + 2, and a
    wrong one as 0 with a doubt of the same make (Platt): no figure then says more than so many answers can, and scores
    that tell right from wrong without fault still have a temperature. None where a higher score is no more often right.
    """
    logits = torch.cat([right, wrong]).double().cpu()
    weight = torch.cat([torch.ones(right.numel()), times.cpu()]).double()
    if not right.numel() or not wrong.numel() or not logits.isfinite().all():
        return None
    answers, others = float(right.numel()), float(times.sum())
    target = torch.full_like(logits, 1 / (others + 2))
    target[: right.numel()] = (answers + 1) / (answers + 2)

    weight = weight / weight.sum()
    mean = (weight * logits).sum()
    spread = (weight * (logits - mean).square()).sum().sqrt()
    if not spread > 0 or not spread.isfinite():
        return None
    line = _lowest_loss(torch.stack([(logits - mean) / spread, torch.ones_like(logits)], dim=1), target, weight)
    if line is None or not line[0] > 0:
        return None
    slope, height = (line / torch.stack([spread, torch.ones_like(spread)])).tolist()
    temperature, shift = 1 / slope, mean.item() - height / slope
    if not (math.isfinite(temperature) and math.isfinite(shift)):
        return None
    return Calibration(temperature, shift, right.numel() // 2)


def _lowest_loss(inputs: Tensor, target: Tensor, weight: Tensor) -> Tensor | None:
    """Minimise the logistic loss of inputs (n, 2) by Newton's method: slope and height (2,); None if it gets lost."""

    def loss(line: Tensor) -> float:
        score = inputs @ line
        return float((weight * (torch.nn.functional.softplus(score) - target * score)).sum())

    base = (weight * target).sum()
    line: Tensor = torch.stack([torch.zeros_like(base), base.logit()])
    now = loss(line)
    for _ in range(STEPS):
        said = (inputs @ line).sigmoid()
        slope = inputs.t() @ (weight * (said - target))
        curve = inputs.t() @ (inputs * (weight * said * (1 - said)).unsqueeze(1))
        step, failed = torch.linalg.solve_ex(curve, slope)
        fall = float(slope @ step)  # twice what the step would save, were the loss a parabola
        if failed or not math.isfinite(fall) or fall < 0:
            return None
        if fall <= 1e-12 * now:
            last: Tensor = line - step
            return last
        share = 1.0
        while (then := loss(line - share * step)) > now - 0.25 * share * fall:
            share /= 2
            if share < 1e-9:
                return None
        line, now = line - share * step, then
    return None


def _tally(logits: Tensor) -> Tensor:
    """Count float32 logits (n,) by their first bits: (2^21,)."""
    return torch.bincount((logits.view(torch.int32) >> _DROPPED_BITS) + 2 ** (_KEPT_BITS - 1), minlength=2**_KEPT_BITS)


def _middle(bins: Tensor) -> Tensor:
    """Return the logit (n,) in the middle of each of some of the tally's bins (n,)."""
    bits: Tensor = ((bins - 2 ** (_KEPT_BITS - 1)) << _DROPPED_BITS) + 2 ** (_DROPPED_BITS - 1)
    return bits.to(torch.int32).view(torch.float32)
