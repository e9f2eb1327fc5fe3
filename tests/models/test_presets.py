"""The paper's models by name."""

from __future__ import annotations

import pytest

from builders import LAYERED
from powerlink.errors import SettingsError, UnknownNameError
from powerlink.models.link_model import build_model
from powerlink.models.presets import DATASETS, PRESETS, preset


def test_every_pair_has_a_preset_on_both_datasets():
    assert DATASETS == ("fb15k-237", "wn18rr")
    expected = {f"{d}/{e}-{c}" for d in DATASETS for e in LAYERED for c in ("transe", "distmult", "conve")}
    assert set(PRESETS) == expected
    assert all(PRESETS[name].name == name for name in PRESETS)


def test_the_shapes_are_the_papers_or_the_note_says_so():
    wider = PRESETS["fb15k-237/compgcn-distmult"]
    assert wider.model.widths == (256, 256, 256)
    assert "widths 256/256/256 for 100/150/200" in wider.note
    assert PRESETS["fb15k-237/rgcn-transe"].model.widths == (150, 150)
    assert PRESETS["fb15k-237/rgcn-conve"].model.decoder.image == (12, 16)
    assert PRESETS["wn18rr/compgcn-conve"].model.decoder.filters == 250
    for chosen in PRESETS.values():
        model, encoder = chosen.model, chosen.model.encoder.name
        layers = 2 if encoder == "wgcn" or chosen.name == "fb15k-237/compgcn-distmult" else 1
        assert len(model.widths) - 1 == layers
        assert model.decoder.name != "transe" or model.decoder.margin == 9
        assert chosen.training.label_smoothing == 0.1
        if model.decoder.name == "conve":
            assert model.decoder.image is not None
            assert model.decoder.image[0] * model.decoder.image[1] == model.widths[-1]
        assert "the paper: lr 0.001" in chosen.note


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds(name):
    model = build_model(PRESETS[name].model, 12, 3)
    assert model.num_layers == len(PRESETS[name].model.widths) - 1


def test_presets_are_found_by_dataset_and_model_in_any_case():
    assert preset("FB15k-237", "WGCN-ConvE") is PRESETS["fb15k-237/wgcn-conve"]
    assert preset("umls", "wn18rr/rgcn-transe") is PRESETS["wn18rr/rgcn-transe"]
    assert preset("fb15k-237", "wn18rr/rgcn-transe") is PRESETS["wn18rr/rgcn-transe"]


def test_a_name_that_is_none_gets_the_closest():
    with pytest.raises(UnknownNameError, match="no preset named 'wgcn-conv'; did you mean 'wgcn-conve'"):
        preset("wn18rr", "wgcn-conv")
    with pytest.raises(UnknownNameError, match="did you mean 'wn18rr/wgcn-conve'"):
        preset("umls", "wn18/wgcn-conve")


def test_other_data_must_say_whose_preset():
    with pytest.raises(SettingsError, match=r"umls has no presets of its own; .*fb15k-237/wgcn-conve or wn18rr/wgcn"):
        preset("UMLS", "wgcn-conve")
