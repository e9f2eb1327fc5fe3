"""An explainer by the clock, asked once per batch however many ways its scores are used."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from powerlink.errors import ExplainerError, PowerlinkError
from powerlink.explainers.protocol import EdgeScores, Explainer
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.protocol import LinkModel
from powerlink.paths.propose import Cost
from powerlink.run.batching import ran_out_of_memory


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


class ScoredOnce:
    """Keeps the scores of the latest batch, with its size and the time they took."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer
        self._kept: tuple[Tensor, EdgeScores] | None = None
        self.took = Elapsed()
        self.queries = self.edges = 0  # of the batch

    @property
    def name(self) -> str:
        return self._explainer.name

    @property
    def cost(self) -> Cost:
        return self._explainer.cost

    def score_edges(self, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
        """Score a batch, or give back the scores of the same queries just scored."""
        if self._kept is None or not torch.equal(self._kept[0], graph.queries):
            self.forget()
            start = Elapsed.now()
            self._kept = graph.queries, self._ask(model, graph, seed)
            self.took = Elapsed.now() - start
            self.queries, self.edges = graph.num_queries, graph.num_edges
        return self._kept[1]

    def forget(self) -> None:
        """Let go of the scores: the next batch is another."""
        self._kept, self.took = None, Elapsed()
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
