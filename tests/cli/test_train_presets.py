"""Training a model of the paper by its name, and the pictures of a training."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from command_line import FAMILIES, write_tables

from powerlink.models import training_plan
from powerlink.models.decoders import ConvE
from powerlink.models.encoders import WGCN
from powerlink.models.link_model import ModelSettings
from powerlink.models.presets import PRESETS
from powerlink.models.training import Trainer


@pytest.fixture(scope="module")
def paper_data(tmp_path_factory):
    """Four families in a folder that is called like a dataset of the paper."""
    return write_tables(tmp_path_factory.mktemp("data") / "FB15k-237", FAMILIES)


def description(folder):
    return json.loads((folder / "model.json").read_text())


def test_presets_are_listed_with_their_settings(powerlink):
    lines = powerlink("presets").out.splitlines()
    assert lines[0].split() == ["dataset", "model", "layers", "widths", "epochs", "paper's", "MRR"]
    rows = [line.split() for line in lines[1:19]]
    assert [f"{row[0]}/{row[1]}" for row in rows] == list(PRESETS)
    two_layers = next(row for row in rows if row[:2] == ["fb15k-237", "compgcn-distmult"])
    epochs = PRESETS["fb15k-237/compgcn-distmult"].training.epochs
    assert two_layers[2:] == ["2", "256/256/256", str(epochs), "0.343"]
    assert all(len(line) <= 80 for line in lines)
    listed = json.loads(powerlink("presets", "--json").out)
    assert [entry["name"] for entry in listed] == list(PRESETS)
    assert all(entry["note"] and entry["training"]["epochs"] for entry in listed)


def test_a_training_says_what_it_takes_and_which_way_it_chose(powerlink, paper_data, tmp_path, monkeypatch):
    said = ("train", "--data", paper_data, "--dim", 8, "--epochs", 1)
    whole = powerlink(*said, "--out", tmp_path / "whole")
    assert re.search(r"training needs about \d+\.\d GiB of \d+\.\d GiB of free memory", whole.said)
    assert "a step" not in whole.said
    monkeypatch.setattr(training_plan, "LONGEST_EPOCH", 0.0)
    drawn = powerlink(*said, "--batch-size", 4, "--ranked-facts", 1, "--out", tmp_path / "drawn")
    assert drawn.code == 0, drawn
    assert "training on at most 10 neighbours a node and 1,024 drawn tails a step, 4 pairs at a time" in drawn.said
    assert "(--neighbours 0 --negatives 0 takes all)" in drawn.said
    assert re.search(r"an epoch takes about .*, all 1 about", drawn.said)
    assert "facts, drawn by the seed)" in drawn.said
    assert description(tmp_path / "drawn")["training"]["negatives"] == 1024
    monkeypatch.setattr(training_plan, "free_memory", lambda device: 2**10)
    refused = powerlink(*said, "--out", tmp_path / "refused")
    assert refused.code != 0
    assert "this training needs about" in refused.said
    assert not (tmp_path / "refused").exists()


def test_a_preset_is_trained_with_what_is_said_beside_it(powerlink, paper_data, tmp_path):
    said = ("--epochs", 1, "--lr", 0.02, "--seed", 3, "--label-smoothing", 0.2, "--schedule", "constant")
    outcome = powerlink("train", "--data", paper_data, "--preset", "rgcn-distmult", "--out", tmp_path / "m", *said)
    assert outcome.code == 0, outcome
    there, preset = description(tmp_path / "m"), PRESETS["fb15k-237/rgcn-distmult"]
    assert tuple(there["model"]["widths"]) == preset.model.widths
    assert there["model"]["output_dropout"] == preset.model.output_dropout == 0.4
    expected = {"epochs": 1, "lr": 0.02, "seed": 3, "label_smoothing": 0.2, "schedule": "constant"}
    expected |= {"neighbours": 0, "negatives": 0}  # all of it fits
    assert there["training"] == vars(preset.training) | expected


def test_new_settings_reach_the_training_without_a_preset(powerlink, families, tmp_path):
    said = ("--schedule", "one-cycle", "--weight-decay", 0.01, "--precision", "mixed", "--half")
    outcome = powerlink("train", "--data", families, "--dim", 10, "--epochs", 1, "--out", tmp_path / "m", *said)
    assert outcome.code == 0, outcome
    there = description(tmp_path / "m")
    assert there["half"]
    assert (
        there["training"] | {"schedule": "one-cycle", "weight_decay": 0.01, "precision": "mixed"} == there["training"]
    )
    assert powerlink("rank", tmp_path / "m").code == 0


def test_every_setting_of_a_model_has_its_flag(powerlink, families, tmp_path):
    shape = ("--encoder", "wgcn", "--decoder", "conve", "--dim", 20, "--layers", 1, "--output-dropout", 0.0)
    own = ("--self-loop", "--first-relation-weight", 0.1, "--image", 2, 10, "--no-interleave", "--filters", 4)
    said = ("--evaluate-every", 1, "--epochs", 1)
    outcome = powerlink("train", "--data", families, *shape, *own, *said, "--out", tmp_path / "m")
    assert outcome.code == 0, outcome
    model = ModelSettings.described(description(tmp_path / "m")["model"])
    encoder = WGCN.Settings(self_loop=True, first_relation_weight=0.1)
    decoder = ConvE.Settings(image=(2, 10), interleave=False, filters=4)
    assert model == ModelSettings(encoder=encoder, decoder=decoder, widths=(20, 20), output_dropout=0.0)


def test_a_presets_shape_has_flags_beside_it(powerlink, paper_data, tmp_path):
    said = ("--epochs", 1, "--blocks", 3, "--layer-dropout", 0.3)
    outcome = powerlink("train", "--data", paper_data, "--preset", "rgcn-distmult", "--out", tmp_path / "m", *said)
    assert outcome.code == 0, outcome
    assert description(tmp_path / "m")["model"]["encoder"] == {"name": "rgcn", "layer_dropout": 0.3, "blocks": 3}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--preset", "wgcn-conve", "--blocks", 3), "wgcn-conve has no setting 'blocks'; rgcn has it"),
        (("--preset", "wgcn-conv"), "did you mean 'wgcn-conve'"),
        (("--preset", "nothing-like-it"), "`powerlink presets` lists them"),
        (("--preset", "wgcn-conve", "--encoder", "rgcn"), "leave out --encoder, or --preset"),
        (("--preset", "wgcn-conve", "--decoder", "conve", "--dim", 5), "leave out --decoder and --dim, or --preset"),
        (("--schedule", "two-cycle"), "'two-cycle' is not one of"),
        (("--label-smoothing", 1.5), "--label-smoothing"),
        (("--weight-decay", -1), "--weight-decay"),
    ],
)
def test_what_does_not_go_with_a_preset_is_told(refused, paper_data, tmp_path, flags, said):
    assert said in refused("train", "--data", paper_data, "--out", tmp_path / "m", *flags).err
    assert not (tmp_path / "m").exists()


def test_other_data_must_say_whose_preset(powerlink, refused, families, tmp_path):
    outcome = refused("train", "--data", families, "--preset", "rgcn-transe", "--out", tmp_path / "m")
    assert "families has no presets of its own; say whose to take: fb15k-237/rgcn-transe or wn18rr" in outcome.err
    said = ("--preset", "wn18rr/rgcn-transe", "--epochs", 1)
    assert powerlink("train", "--data", families, *said, "--out", tmp_path / "m").code == 0
    assert description(tmp_path / "m")["model"]["widths"] == [100, 100]


def test_training_says_how_long_it_took_and_where_its_curve_is(powerlink, families, tmp_path):
    outcome = powerlink("train", "--data", families, "--epochs", 2, "--dim", 10, "--out", tmp_path / "m")
    assert "2 epochs in 0." in outcome.out
    assert f"learning curve in {tmp_path / 'm' / 'learning_curve.png'}" in outcome.out
    assert (tmp_path / "m" / "learning_curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_stopped_training_has_its_curve(powerlink, families, tmp_path, monkeypatch):
    real = Trainer.train_epoch

    def interrupted(self):
        if self.epoch > 12:
            raise KeyboardInterrupt
        return real(self)

    monkeypatch.setattr(Trainer, "train_epoch", interrupted)
    assert powerlink("train", "--data", families, "--dim", 10, "--out", tmp_path / "m").code == 130
    assert (tmp_path / "m" / "learning_curve.png").is_file()


def test_report_without_explanations_draws_the_learning_curve(powerlink, refused, model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "m")
    (folder / "learning_curve.png").unlink()
    outcome = powerlink("report", folder)
    assert outcome.out == f"learning curve in {folder / 'learning_curve.png'}\n"
    assert (folder / "learning_curve.png").is_file()
    (folder / "training.jsonl").unlink()
    assert "training.jsonl is missing" in refused("report", folder).err
    assert "there is no model folder" in refused("report", tmp_path / "none").err
