"""Training: 1-to-all binary cross-entropy, best by validation MRR, resumable after a kill to the same result.

Every epoch draws its order and its dropout from (seed, epoch) alone, so an epoch can be run again, or first run after a
restart, and give the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from powerlink.errors import ModelError
from powerlink.graphs.edges import expand_rows
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kg.knowledge_graph import KnowledgeGraph, Split
from powerlink.models.link_model import EncoderDecoder
from powerlink.models.ranking import Accuracy, KnownTails, rank_facts


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How a model is trained; saved beside it."""

    epochs: int = 200
    batch_size: int = 256
    lr: float = 0.003
    label_smoothing: float = 0.1
    patience: int = 5  # evaluations without a better validation MRR before training stops
    evaluate_every: int = 10  # epochs
    seed: int = 0


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
        self.optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr)
        self.epoch = 0
        self.best_mrr = -1.0
        self.stale = 0  # evaluations since the best one

    @property
    def finished(self) -> bool:
        return self.epoch >= self.settings.epochs or self.stale >= self.settings.patience

    def run(self) -> Iterator[EpochReport]:
        """Train epoch by epoch until the last one or until validation stops getting better."""
        while not self.finished:
            self.epoch += 1
            loss = self._train_epoch()
            validation, improved = None, False
            if self.epoch % self.settings.evaluate_every == 0 or self.epoch == self.settings.epochs:
                validation = self.validate()
                improved = validation.mrr > self.best_mrr
                self.best_mrr = max(self.best_mrr, validation.mrr)
                self.stale = 0 if improved else self.stale + 1
            yield EpochReport(self.epoch, loss, validation, self.best_mrr, improved, self.finished)

    def validate(self) -> Accuracy:
        """Rank the validation facts; a graph without any is judged by its training facts."""
        self.model.eval()
        split: Split = "valid" if len(self.graph.valid) else "train"
        return Accuracy.of(rank_facts(self.model, self.graph, self.messages, split, known=self.known))

    def _train_epoch(self) -> float:
        self.model.train()
        devices = [self.messages.device] if self.messages.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(self.settings.seed * 1_000_003 + self.epoch)
            order = torch.randperm(self.targets.pairs.size(0)).to(self.messages.device)
            losses = [self._step(batch) for batch in _batches(order, self.settings.batch_size)]
        loss = torch.stack(losses).mean().item()
        if math.isnan(loss):
            raise ModelError(
                f"training diverged in epoch {self.epoch}: the loss is not a number; a smaller --lr may help"
            )
        return loss

    def _step(self, batch: Tensor) -> Tensor:
        head, relation = self.targets.pairs[batch].unbind(1)
        embeddings = self.model.encode(self.messages)
        logits = self.model.score_tails(embeddings, head, relation)  # (B, N)
        labels = torch.full_like(logits, 1 / logits.size(1) if self.settings.label_smoothing else 0.0)
        row, place = expand_rows(self.targets.row, batch)
        labels[row, self.targets.tail[place]] += 1 - self.settings.label_smoothing
        loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

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
                step = moments.pop("step").cpu().clone()
                self.optimizer.state[parameter] = {
                    "step": step,
                    **{key: value.to(parameter.device, copy=True) for key, value in moments.items()},
                }
        self.epoch, self.best_mrr = int(counters["epoch"]), counters["best_mrr"]
        self.stale = int(counters["stale"])


def _batches(order: Tensor, size: int) -> list[Tensor]:
    """Cut an order into batches; a last one of a single pair joins its neighbour, since batch norm needs two."""
    parts = list(order.split(size))
    if len(parts) > 1 and parts[-1].numel() == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts
