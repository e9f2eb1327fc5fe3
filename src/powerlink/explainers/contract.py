"""What an explainer must not get wrong, checked cheaply whenever one is asked."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from powerlink.errors import ExplainerError
from powerlink.explainers.protocol import EdgeScores, Explainer
from powerlink.graphs.computation_graph import ComputationGraph
from powerlink.models.protocol import LinkModel


def score_faithfully(explainer: Explainer, model: LinkModel, graph: ComputationGraph, seed: int) -> EdgeScores:
    """Ask an explainer for its scores, and refuse it by name if they, or what it left of the model, are not right."""
    before, generator = fingerprint(model), torch.get_rng_state()
    with _Draws() as draws:
        scores = explainer.score_edges(model, graph, seed)
    fault = fault_of(scores, graph)
    if fault is None and fingerprint(model) != before:
        fault = "changed the model it was to explain (parameters, gradients or the training flag)"
    if fault is None and draws.seen and not torch.equal(torch.get_rng_state(), generator):
        fault = "drew from torch's global generator: numbers must follow from the seed and the query alone"
    if fault is not None:
        raise ExplainerError(f"the explainer {explainer.name} {fault}")
    return scores


class _Draws(TorchFunctionMode):
    """Notices draws from torch's global generator in this thread; those of others are not the explainer's."""

    NAMES: ClassVar = {
        "bernoulli", "bernoulli_", "cauchy_", "dropout", "exponential_", "geometric_", "log_normal_", "multinomial",
        "normal", "normal_", "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like",
        "randperm", "random_", "uniform_",
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in self.NAMES and kwargs.get("generator") is None:
            self.seen |= kwargs.get("training", True)  # dropout of a model that is asked draws nothing
        return func(*args, **kwargs)


def fault_of(scores: Any, graph: ComputationGraph) -> str | None:
    """Say what is wrong with scores of a graph, to be read behind the explainer's name; None if nothing is."""
    values = getattr(scores, "values", None)
    if not isinstance(values, Tensor):
        return f"must return EdgeScores, not {type(scores).__name__}"
    if scores.path_term is not None and scores.path_term.shape != (graph.num_queries,):
        return f"returned a path_term of shape {tuple(scores.path_term.shape)}, not one per query"
    faults = (_fault_of_numbers(numbers, graph.kept) for numbers in (values, scores.by_route) if numbers is not None)
    return next((fault for fault in faults if fault), None)


def _fault_of_numbers(values: Tensor, kept: Tensor) -> str | None:
    if values.shape != kept.shape:
        return f"returned scores of shape {tuple(values.shape)}, and the graph has {kept.numel()} edges"
    if values.requires_grad:
        return "returned scores with a gradient: detach them"
    if not values.isfinite().all():
        return "returned scores that are not finite"
    inside, outside = values[kept], values[~kept]
    if not ((inside > 0) & (inside <= 1)).all():
        return f"returned scores from {inside.min().item():g} to {inside.max().item():g}; kept edges need (0, 1]"
    return "gave pruned edges a score other than 0" if outside.any() else None


def fingerprint(model: LinkModel) -> list[Any]:
    """Tell whether a torch model was touched: flags, gradients, and every number's place, version and sum."""
    if not isinstance(model, nn.Module):
        return []  # nothing is known of its insides
    tensors = [*model.parameters(), *model.buffers()]
    gradients = [t.grad for t in tensors]
    return [
        [module.training for module in model.modules()],
        [(t.data_ptr(), t._version, t.requires_grad) for t in tensors],
        [None if g is None else (g.data_ptr(), g._version) for g in gradients],
        # what is written through `.data` leaves the version as it was, but not the sum of the bits
        torch.stack([_sum_of_bits(t.detach()) for t in tensors]).tolist() if tensors else [],
    ]


def _sum_of_bits(numbers: Tensor) -> Tensor:
    """Add up a tensor's memory as whole numbers: at the memory's speed, and NaN is a number like any other."""
    flat = numbers.contiguous().view(-1)
    first, size = flat.storage_offset() * flat.element_size(), flat.numel() * flat.element_size()
    whole = torch.int64 if first % 8 == size % 8 == 0 else torch.uint8
    return flat.view(whole).sum()
