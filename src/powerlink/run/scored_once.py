"""An explainer by the clock, asked once per batch however many ways its scores are used."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.errors import ExplainerError, PowerlinkError
from powerlink.explainers.protocol import EdgeScores, Explainer
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.memory import ran_out_of_memory
from powerlink.models.protocol import LinkModel
from powerlink.run.wrapped import Wrapped


@dataclass(frozen=True)
class Elapsed:
    """Seconds by the clock, and of the processor: on a shared machine the second is the fairer one."""

    clock: float = 0.0
    cpu: float = 0.0

    @classmethod
    def now(cls) -> Elapsed:
        """Read both clocks, once what a GPU still has to do is done."""
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: Elapsed) -> Elapsed:
        return Elapsed(self.clock + other.clock, self.cpu + other.cpu)

    def __sub__(self, other: Elapsed) -> Elapsed:
        return Elapsed(self.clock - other.clock, self.cpu - other.cpu)


class ScoredOnce(Wrapped):
    """Keeps the scores of the latest batch, pruned or not, with its size and the time they took."""

    def __init__(self, explainer: Explainer) -> None:
        super().__init__(explainer)
        self._kept: list[tuple[Tensor, Tensor, EdgeScores]] = []  # queries, kept edges, scores
        self.spent = Elapsed()  # on all scores of the batch
        self.queries = self.edges = 0  # of the batch

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Score a batch, or give back the scores of the same queries, pruned alike, just scored."""
        for queries, kept, scores in self._kept:
            if torch.equal(queries, graph.queries) and torch.equal(kept, graph.kept):
                return scores
        if self._kept and not torch.equal(self._kept[0][0], graph.queries):
            self.forget()
        start = Elapsed.now()
        scores = self._ask(model, graph, seed)
        self._kept.append((graph.queries, graph.kept, scores))
        self.spent += Elapsed.now() - start
        self.queries, self.edges = graph.num_queries, graph.num_edges
        return scores

    @property
    def took(self) -> Elapsed:
        """What scoring the batch took; a mean, where it was scored pruned and whole."""
        times = max(len(self._kept), 1)
        return Elapsed(self.spent.clock / times, self.spent.cpu / times)

    def forget(self) -> None:
        """Let go of the scores: the next batch is another."""
        self._kept, self.spent = [], Elapsed()
        self.queries = self.edges = 0

    def _ask(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        try:
            return self._explainer.score_edges(model, graph, seed)
        except PowerlinkError:
            raise
        except Exception as error:  # a stranger's explainer must not stop the others
            if ran_out_of_memory(error):
                raise
            raise ExplainerError(f"the explainer {self.name} broke off: {type(error).__name__}: {error}") from error
