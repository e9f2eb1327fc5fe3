"""Folders of format 2, which told the settings of all parts in one: read as they were meant."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from powerlink import TrainingSettings, load_model
from powerlink.errors import MismatchError, ModelError
from powerlink.models.decoders import ConvE
from powerlink.models.encoders import RGCN
from powerlink.models.link_model import ModelSettings
from powerlink.run.train_folder import FolderTraining

FORMAT_2 = Path(__file__).parent / "format_2"
MODEL = ModelSettings(
    encoder=RGCN.Settings(layer_dropout=0.0, blocks=2),
    decoder=ConvE.Settings(filters=2, kernel=2, image=(2, 2)),
    widths=(4, 4),
)
TRAINING = TrainingSettings(epochs=4, evaluate_every=2, batch_size=8, lr=0.01)


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(FORMAT_2, tmp_path, dirs_exist_ok=True)
    return tmp_path


def edit(path, **changes):
    description = json.loads(path.read_text("utf-8"))
    description["model"] |= changes
    path.write_text(json.dumps(description), encoding="utf-8")


def test_a_model_loads_to_the_same_scores_and_name(folder):
    subject = load_model(folder / "finished")
    assert (subject.name, subject.hash) == ("rgcn-conve", "5ce50b5fb981c8af")
    assert subject.model.settings == MODEL
    triples = torch.tensor([(0, 0, 1), (2, 3, 4), (5, 1, 0)])
    with torch.no_grad():
        found = subject.model.score(subject.whole, triples)
    expected = torch.tensor([-1.4453493356704712, -1.753301739692688, -1.5903348922729492])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_conve_from_before_images_were_interleaved_is_read_as_it_was(folder):
    path = folder / "finished" / "model.json"
    description = json.loads(path.read_text("utf-8"))
    del description["model"]["interleave"]
    path.write_text(json.dumps(description), encoding="utf-8")
    assert not load_model(folder / "finished").model.settings.decoder.interleave


def test_settings_that_nobody_ever_had_are_refused(folder):
    edit(folder / "finished" / "model.json", vibes=2)
    with pytest.raises(ModelError, match=r"describes a model this version does not know .*no setting 'vibes'"):
        load_model(folder / "finished")


def test_a_finished_training_is_known_and_another_refused(folder):
    graph = load_model(folder / "finished").graph
    assert FolderTraining(folder / "finished", graph, MODEL, TRAINING).finished
    other = ModelSettings(
        encoder=MODEL.encoder, decoder=ConvE.Settings(filters=3, kernel=2, image=(2, 2)), widths=(4, 4)
    )
    with pytest.raises(MismatchError, match="trained with filters 2, not 3"):
        FolderTraining(folder / "finished", graph, other, TRAINING)
    with pytest.raises(MismatchError, match="trained with decoder conve, not rotate"):
        FolderTraining(folder / "finished", graph, ModelSettings(encoder="rgcn", decoder="rotate"), TRAINING)


def test_a_stopped_training_goes_on_to_the_same_result(folder):
    finished = load_model(folder / "finished")
    job = FolderTraining(folder / "stopped", finished.graph, MODEL, TRAINING)
    assert job.resumed_at == 2
    assert [report.epoch for report in job.run()] == [3, 4]
    again = load_model(folder / "stopped")
    assert json.loads((folder / "stopped" / "model.json").read_text())["format"] == 3
    for name, numbers in finished.model.state_dict().items():
        torch.testing.assert_close(again.model.state_dict()[name], numbers)
