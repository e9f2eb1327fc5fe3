"""Training on links and given negatives into a model folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from powerlink.errors import DataError, OutputError
from powerlink.kg.explained_links import ExplainedLinks
from powerlink.kg.knowledge_graph import SPLITS
from powerlink.kg.typed_folder import is_typed_folder, read_links
from powerlink.models.checkpoint import load_model, save_model, start_folder
from powerlink.models.link_model import EncoderDecoder, ModelSettings
from powerlink.models.link_training import LinkTrainingSettings, link_auc, train_on_links
from powerlink.models.session import Session
from powerlink.models.training import TrainingSettings
from powerlink.run.claim import claimed


def read_linked_data(path: str | Path) -> ExplainedLinks:
    """Read a folder of typed nodes and edges, or say that it is none."""
    folder = Path(path).expanduser()
    if not folder.is_dir() or not is_typed_folder(folder):
        raise DataError(
            f"{folder} is no folder of typed nodes and edges: --links needs nodes, edges, links and negatives"
        )
    return read_links(folder)


def train_links(
    data: ExplainedLinks,
    out: str | Path,
    *,
    model: ModelSettings | None = None,
    training: LinkTrainingSettings | None = None,
    device: torch.device | str = "cpu",
    half: bool = False,
    force: bool = False,
    told: Callable[[float, float], None] = lambda loss, auc: None,
) -> Session:
    """Train on a folder's links, save the model and return it; `told` hears each epoch's loss and validation AUC."""
    out, training = Path(out), training or LinkTrainingSettings()
    with claimed(out, folder=True):
        if (out / "model.json").exists():
            raise OutputError(f"{out} holds a model already: choose another --out, or delete it")
        start_folder(out, data.background, force=force)
        session = train_on_links(data, model, training, device, told=told)
        assert isinstance(session.model, EncoderDecoder)
        splits = [split for split in SPLITS[1:] if len(data.negatives[split])]
        save_model(
            out,
            session.model,
            data.background,
            TrainingSettings(epochs=training.epochs, lr=training.lr, seed=training.seed),
            {"link_auc": {split: link_auc(session.model, session.messages, data, split) for split in splits}},
            finished=True,
            half=half,
            calibration=session.calibration,
        )
    return load_model(out, device)
