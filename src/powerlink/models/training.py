"""Training: binary cross-entropy of all tails or of drawn ones, best by validation MRR, resumable after a kill to the
same result.

Every epoch draws its order, its dropout and its neighbourhoods from (seed, epoch) alone, so an epoch can be run again,
or first run after a restart, and give the same weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.errors import ModelError
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.dense_product import shapes_that_vary
from powerlink.kernels.fused import on_device
from powerlink.kernels.host_memory import freed_memory_kept
from powerlink.kernels.one_to_all import one_to_all_loss
from powerlink.kg.knowledge_graph import KnowledgeGraph, Split
from powerlink.models.link_model import EncoderDecoder
from powerlink.models.protocol import Embeddings
from powerlink.models.ranking import Accuracy, KnownTails, rank_facts, usual_facts
from powerlink.models.recorded_step import RecordedStep
from powerlink.models.row_adam import adam_on_rows
from powerlink.models.sampled_loss import SampledLoss, key_of_step
from powerlink.models.training_settings import Precision
from powerlink.models.training_settings import TrainingSettings as TrainingSettings  # noqa: PLC0414 - looked for here

SETTLING_STEPS = 5
WARM_UP = 0.2  # of a one-cycle schedule; the rest falls to nothing along a cosine


@dataclass(frozen=True)
class EpochReport:
    """What one epoch did."""

    epoch: int
    loss: float
    validation: Accuracy | None  # None when this epoch was not evaluated
    best_mrr: float
    improved: bool
    stop: bool  # patience is used up: this was the last epoch


class Trainer:
    """A model in training; `state` and `restore` carry it over a kill."""

    def __init__(
        self, model: EncoderDecoder, graph: KnowledgeGraph, settings: TrainingSettings, device: torch.device | str
    ) -> None:
        self.model = model.to(device)
        self.graph = graph
        self.settings = settings
        self.messages = MessageGraph.of(graph, device)
        self.targets = KnownTails.of(graph.train, graph.num_relations, device)
        self.known = KnownTails.of(graph.all_facts, graph.num_relations, device)
        on_cuda = self.messages.device.type == "cuda"
        # a recorded step reads the rate and the step count from the device
        lr = torch.tensor(settings.lr, device=device) if on_cuda else settings.lr
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=lr, weight_decay=settings.weight_decay, fused=True, capturable=on_cuda
        )
        size = min(settings.pairs_per_step, self.targets.pairs.size(0))
        self.step = RecordedStep(self._step, size, self.messages.device)
        self.sampled = self._sampled_loss() if settings.sampled else None
        self.told: Callable[[float], None] | None = None  # hears once how many seconds an epoch will take
        self.epoch = 0
        self.best_mrr = -1.0
        self.stale = 0  # evaluations since the best one

    @property
    def finished(self) -> bool:
        return self.epoch >= self.settings.epochs or self.stale >= self.settings.patience

    def run(self) -> Iterator[EpochReport]:
        """Train epoch by epoch until the last one or until validation stops getting better."""
        with freed_memory_kept():
            while not self.finished:
                yield self._next_epoch()

    def _next_epoch(self) -> EpochReport:
        self.epoch += 1
        loss = self.train_epoch()
        validation, improved = None, False
        if self.epoch % self.settings.evaluate_every == 0 or self.epoch == self.settings.epochs:
            validation = self.validate()
            improved = validation.mrr > self.best_mrr
            self.best_mrr = max(self.best_mrr, validation.mrr)
            self.stale = 0 if improved else self.stale + 1
        return EpochReport(self.epoch, loss, validation, self.best_mrr, improved, self.finished)

    def validate(self) -> Accuracy:
        """Rank the validation facts; a graph without any is judged by its training facts."""
        self.model.eval()
        split: Split = "valid" if len(self.graph.valid) else "train"
        with on_device(self.messages.device):
            return self.accuracy_of(split)

    @torch.no_grad()
    def accuracy_of(self, split: Split, embeddings: Embeddings | None = None) -> Accuracy:
        """Rank a split's facts, or as many of them as the settings say."""
        ranks = rank_facts(
            self.model,
            self.graph,
            self.messages,
            split,
            known=self.known,
            most=self.settings.ranked_facts or usual_facts(self.graph.num_entities),
            seed=self.settings.seed,
            embeddings=embeddings,
        )
        return Accuracy.of(ranks, of_facts=len(self.graph.facts(split)))

    def train_epoch(self) -> float:
        """Go once over all (head, relation) pairs and return the mean loss."""
        self.model.train()
        devices = [self.messages.device] if self.messages.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(self.settings.seed * 1_000_003 + self.epoch)
            order = torch.randperm(self.targets.pairs.size(0)).to(self.messages.device)
            batches = _batches(order, self.settings.pairs_per_step)
            pace = _Pace(len(batches), self.messages.device)
            done = (self.epoch - 1) * len(batches)
            losses = []
            with _products_in(self.settings.precision), on_device(self.messages.device):
                for number, batch in enumerate(batches, start=done):
                    self._set_rate((number + 0.5) / (self.settings.epochs * len(batches)))
                    losses.append(self.step(batch) if self.sampled is None else self._sampled_step(batch, number))
                    self._tell(pace.seconds(len(losses)))
        loss = torch.stack(losses).mean().item()
        self._tell(pace.whole())  # so few steps that none was timed alone
        if math.isnan(loss):
            raise ModelError(
                f"training diverged in epoch {self.epoch}: the loss is not a number; a smaller --lr may help"
            )
        return loss

    def _step(self, batch: Tensor) -> Tensor:
        head, relation = self.targets.pairs.index_select(0, batch).unbind(1)
        embeddings = self.model.encode(self.messages)
        half = self.settings.precision == "mixed" and batch.is_cuda
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            logits = self.model.score_tails(embeddings, head, relation)  # (B, N)
        loss, slope = one_to_all_loss(
            logits.detach(),
            batch,
            self.targets.row,
            self.targets.tail,
            smoothing=self.settings.label_smoothing,
        )
        self.optimizer.zero_grad(set_to_none=True)
        logits.backward(slope)
        self.optimizer.step()
        return loss

    def _tell(self, seconds: float | None) -> None:
        if self.told is not None and seconds is not None:
            self.told(seconds)
            self.told = None

    def _sampled_loss(self) -> SampledLoss:
        settings = self.settings
        return SampledLoss.of(
            self.messages,
            self.targets,
            self.model.num_layers,
            neighbours=settings.neighbours or 0,
            negatives=settings.negatives or 0,
            smoothing=settings.label_smoothing,
        )

    def _sampled_step(self, batch: Tensor, number: int) -> Tensor:
        assert self.sampled is not None
        half = self.settings.precision == "mixed" and batch.is_cuda
        with torch.autocast("cuda", torch.bfloat16, enabled=half), shapes_that_vary():
            loss, graph = self.sampled(self.model, batch, key_of_step(self.settings.seed, self.epoch, number))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        (group,) = self.optimizer.param_groups
        for table, rows in graph.read.items():
            if rows.grad is not None:
                adam_on_rows(
                    self.optimizer.state[table],
                    table,
                    graph.entity,
                    rows.grad,
                    lr=group["lr"],
                    weight_decay=group["weight_decay"],
                )
        return loss.detach()

    def _set_rate(self, progress: float) -> None:
        """Set the learning rate for a step at a share of the whole training."""
        rate = self.settings.lr * (one_cycle(progress) if self.settings.schedule == "one-cycle" else 1.0)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def state(self) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Return all that a restart needs: tensors (weights and Adam's moments) and counters."""
        tensors = {f"model.{name}": value.clone() for name, value in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for moment, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"adam.{moment}.{name}"] = torch.as_tensor(value).clone()
        counters = {"epoch": float(self.epoch), "best_mrr": self.best_mrr, "stale": float(self.stale)}
        return tensors, counters

    def restore(self, tensors: dict[str, Tensor], counters: dict[str, float]) -> None:
        """Continue from a saved state."""
        self.model.load_state_dict(
            {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
        )
        for name, parameter in self.model.named_parameters():
            moments = {
                key.split(".", 2)[1]: value
                for key, value in tensors.items()
                if key.startswith("adam.") and key.split(".", 2)[2] == name
            }
            if moments:
                self.optimizer.state[parameter] = {
                    key: value.to(parameter.device, copy=True) for key, value in moments.items()
                }
        self.epoch, self.best_mrr = int(counters["epoch"]), counters["best_mrr"]
        self.stale = int(counters["stale"])


class _Pace:
    """Measures the first steps of an epoch, without the very first ones: libraries and allocators settle in them."""

    def __init__(self, steps: int, device: torch.device) -> None:
        self._steps, self._device = steps, device
        self._begin = self._start = time.perf_counter()

    def whole(self) -> float:
        """Say how long it has been, once all steps are done."""
        return time.perf_counter() - self._begin

    def seconds(self, done: int) -> float | None:
        """Say how long all steps will take, once enough are done."""
        if done == SETTLING_STEPS:
            self._start = self._now()
        if done < SETTLING_STEPS + 1 or (done < SETTLING_STEPS + 10 and time.perf_counter() - self._start < 2):
            return None
        return (self._now() - self._start) / (done - SETTLING_STEPS) * self._steps

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()


def one_cycle(progress: float) -> float:
    """Return the share of the highest learning rate at a share of the training: up in a line, down along a cosine.

    >>> [round(one_cycle(p), 3) for p in (0.0, 0.1, 0.2, 0.6, 1.0)]
    [0.04, 0.52, 1.0, 0.5, 0.0]
    """
    if progress < WARM_UP:
        return 0.04 + 0.96 * progress / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP)))


@contextmanager
def _products_in(precision: Precision) -> Iterator[None]:
    """Let float32 products on CUDA use TF32 for a while, if the precision is mixed."""
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high" if precision == "mixed" else before)
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _batches(order: Tensor, size: int) -> list[Tensor]:
    """Cut an order into batches; a last one of a single pair joins its neighbour, since batch norm needs two."""
    parts = list(order.split(size))
    if len(parts) > 1 and parts[-1].numel() == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts
