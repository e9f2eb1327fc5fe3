"""The model under question, and what is computed once for all its queries."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from powerlink.errors import ModelError
from powerlink.explanation import POST_TRAINING, REMOVAL
from powerlink.graphs.message_graph import MessageGraph
from powerlink.kernels.plain_torch import plain_torch
from powerlink.kg.knowledge_graph import KnowledgeGraph, Split
from powerlink.models.calibration import Calibration, calibrate
from powerlink.models.layer_by_layer import LayerByLayer
from powerlink.models.protocol import Embeddings, LinkModel, abilities_of
from powerlink.models.ranking import Accuracy, KnownFacts, rank_facts
from powerlink.models.stand_ins import Fit


@dataclass(frozen=True, eq=False)
class Session:
    """A model and its graph, settled once and then asked from any number of threads.

    `model` stays its owner's, whatever becomes of its flags; `settled` is the one that is asked.
    """

    graph: KnowledgeGraph
    model: LinkModel
    settled: LinkModel
    messages: MessageGraph
    whole: Embeddings
    known: KnownFacts
    name: str  # e.g. "compgcn-distmult"
    hash: str  # of what the model is made of
    saved_calibration: Calibration | None = None
    source: str = ""  # where another process can open it, if somebody said so
    mapped: bool = False  # its graph is mapped from a file, and was not built
    fit: Fit = Fit()  # how stand-ins are fitted, of a model that passes no messages

    @classmethod
    def of(
        cls,
        graph: KnowledgeGraph,
        model: LinkModel,
        device: torch.device | str = "cpu",
        *,
        name: str = "",
        hash: str = "",
        calibration: Calibration | None = None,
        source: str = "",
        messages: MessageGraph | None = None,
        whole: Embeddings | None = None,
    ) -> Session:
        """Encode the whole graph once, where that is not done. The model must already be on the device."""
        mapped = messages is not None
        with plain_torch(device), torch.no_grad():
            messages, asked = messages or MessageGraph.of(graph, device), settled(model)
            whole = whole or _encoded(asked, messages)
            known = KnownFacts.of(graph, messages)
        label, digest = name or type(model).__name__, hash or hash_of(model)
        return cls(graph, model, asked, messages, whole, known, label, digest, calibration, source, mapped)

    @cached_property
    def calibration(self) -> Calibration | None:
        """What its scores are worth: as saved, or found now on the validation facts; None where they cannot tell."""
        if self.saved_calibration is not None:
            return self.saved_calibration
        with plain_torch(self.messages.device):
            return calibrate(self.settled, self.graph, self.whole, self.known)

    @property
    def reads_facts(self) -> bool:
        """Whether it reads facts when it is asked, by messages; else what it learned of them lies in entities' rows."""
        return abilities_of(self.settled).retrainable is None

    @property
    def reading(self) -> str:
        """What "without a fact" means of this model, in one word and how that is done."""
        return REMOVAL if self.reads_facts else f"{POST_TRAINING}: {self.fit}"

    @property
    def reach(self) -> int:
        """How far around head and tail it sees: as far as messages travel, and where none do, their own facts."""
        return max(self.settled.num_layers, 1)

    @cached_property
    def precise(self) -> LinkModel:
        """The model in float64 where it can compute so, else itself: for differences of differences of logits."""
        in_double = abilities_of(self.settled).in_double
        return in_double() if in_double else self.settled

    @cached_property
    def layers(self) -> LayerByLayer | None:
        """The model's layers over the whole graph, where they can be passed one by one; see `Room.whole`."""
        return LayerByLayer.of(self.settled, self.messages)

    @cached_property
    def precise_layers(self) -> LayerByLayer | None:
        """The same in float64, where the model can."""
        return self.layers if self.precise is self.settled else LayerByLayer.of(self.precise, self.messages)


def rank(session: Session, split: Split = "test", *, told: Callable[[int], None] | None = None) -> Accuracy:
    """Rank a split's facts in both directions, filtered: how good is the model that is being explained?

    `told` hears how many queries, two a fact, were ranked, batch by batch.
    """
    known = session.known
    with plain_torch(session.messages.device):
        return Accuracy.of(rank_facts(session.settled, session.graph, session.messages, split, known=known, told=told))


def _encoded(model: LinkModel, messages: MessageGraph) -> Embeddings:
    """Encode the whole graph, or say which kind of number the device has no such operation for."""
    try:
        return model.encode(messages).detach()
    except NotImplementedError as error:
        kinds = {str(p.dtype) for p in model.parameters()} if isinstance(model, nn.Module) else set()
        if not kinds & {"torch.float16", "torch.bfloat16"}:
            raise
        told = f"{type(model).__name__} is in {' and '.join(sorted(kinds))}, which {messages.device} cannot compute in"
        raise ModelError(f"{told} ({error}): give model.float()") from error


def settled(model: LinkModel) -> LinkModel:
    """Return a torch model ready to be asked: without dropout, batch statistics and slopes, and with the same numbers.

    It shares every parameter and buffer with the model given, whose flags stay its owner's to change at any time.
    """
    if not isinstance(model, nn.Module):
        return model

    def shared(numbers: Tensor) -> Tensor:
        return numbers.clone() if numbers.is_inference() else numbers.detach()

    numbers: dict[int, Tensor] = {id(p): nn.Parameter(shared(p), False) for p in model.parameters()}
    numbers |= {id(buffer): shared(buffer) for buffer in model.buffers()}
    try:
        twin = deepcopy(model, numbers)
    except Exception:  # a model that holds what cannot be copied (a file, a lock) is settled itself, for good
        twin = model.requires_grad_(False)
    for module in twin.modules():
        module.training = False
    return twin


@contextmanager
def undisturbed(model: LinkModel) -> Iterator[None]:
    """Ask a model without its dropout, batch statistics or slopes, and leave it as it was, whatever happens."""
    modules = [(m, m.training) for m in model.modules()] if isinstance(model, nn.Module) else []
    parameters = [(p, p.requires_grad) for p in model.parameters()] if isinstance(model, nn.Module) else []
    try:
        for module, _ in modules:
            module.training = False
        for parameter, _ in parameters:  # who learns a mask wants no slope of a weight, and need not pay for it
            parameter.requires_grad_(False)
        yield
    finally:
        for module, training in modules:
            module.training = training
        for parameter, learning in parameters:
            parameter.requires_grad_(learning)


def weights_hash(model: nn.Module, *made_of: str) -> str:
    """Hash all parameters and buffers, and what else makes the model: two share it exactly when these are the same."""
    digest = hashlib.sha256("".join(made_of).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def hash_of(model: LinkModel) -> str:
    """Hash a model's weights; of one that is no torch module, its class and all that its attributes hold."""
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    if isinstance(model, nn.Module):
        return weights_hash(model, kind)
    digest = hashlib.sha256(kind.encode())
    for name, value in sorted(vars(model).items()):
        if isinstance(getattr(type(model), name, None), cached_property):
            continue  # it follows from the others, and is there or not
        held = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
        try:
            digest.update(name.encode() + pickle.dumps(held, protocol=5))
        except Exception:  # a function, an open file: its kind is all that can be told
            digest.update(f"{name}{type(value)}".encode())
    return digest.hexdigest()[:16]


@contextmanager
def put_back_on_error(model: LinkModel) -> Iterator[None]:
    """If what is done in here fails, give a torch model its numbers, gradients and flags back: others will ask it."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    training = [module.training for module in modules]
    owned = [(entries, dict(entries)) for m in modules for entries in (m._parameters, m._buffers)]
    tensors = [t for _, entries in owned for t in entries.values() if t is not None]
    kept = [(t, t.detach().clone(), t.grad, t.requires_grad) for t in tensors]
    try:
        yield
    except BaseException:
        for module, was in zip(modules, training, strict=True):
            module.training = was
        for entries, before in owned:
            entries.clear()
            entries.update(before)  # type: ignore[arg-type]
        for tensor, numbers, gradient, requires_grad in kept:
            tensor.data.copy_(numbers)
            tensor.grad = gradient
            tensor.requires_grad_(requires_grad)
        raise
