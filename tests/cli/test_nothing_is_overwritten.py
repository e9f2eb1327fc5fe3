"""What is not ours stays: outputs that exist, or that are inputs, are refused in a sentence, and nothing is touched."""

from __future__ import annotations

import pytest

PRECIOUS = b"precious\n"


@pytest.fixture
def own_explanations(explanations, tmp_path):
    copied = tmp_path / "explanations.jsonl"
    copied.write_bytes(explanations.read_bytes())
    return copied


def files_of(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", ["model.safetensors", "model-00001-of-00002.safetensors", "graph/thesis.txt"])
def test_a_training_leaves_a_strangers_folder_alone(powerlink, refused, families, tmp_path, name):
    (tmp_path / "hub" / name).parent.mkdir(parents=True)
    (tmp_path / "hub" / name).write_bytes(PRECIOUS)
    (tmp_path / "hub" / "config.json").write_text("{}")
    before = files_of(tmp_path / "hub")
    train = ("train", "--data", families, "--epochs", 1, "--dim", 5, "--out", tmp_path / "hub")
    err = refused(*train).err
    assert "is there, and powerlink did not make it: choose another --out, or say --force" in err
    assert files_of(tmp_path / "hub") == before
    assert powerlink(*train, "--force").code == 0
    assert (tmp_path / "hub" / "config.json").read_text() == "{}"


def test_a_training_that_was_killed_early_goes_on(powerlink, families, tmp_path):
    train = ("train", "--data", families, "--epochs", 1, "--dim", 5, "--out", tmp_path / "m")
    assert powerlink(*train).code == 0
    (tmp_path / "m" / "model.json").unlink()  # killed between the weights and what vouches for them
    assert powerlink(*train).code == 0
    (tmp_path / "n" / "graph").mkdir(parents=True)
    (tmp_path / "m" / "graph" / "train.parquet").rename(tmp_path / "n" / "graph" / "train.parquet")
    assert powerlink(*train[:-1], tmp_path / "n").code == 0  # killed while the graph was written


def test_a_page_replaces_neither_its_input_nor_the_model_nor_a_strangers_file(
    powerlink, refused, model, own_explanations, tmp_path
):
    before = own_explanations.read_bytes()
    report = ("report", model, own_explanations, "--out")
    assert f"is {own_explanations}, which this command reads" in refused(*report, own_explanations, "--force").err
    assert own_explanations.read_bytes() == before
    weights = model / "model.safetensors"
    kept = weights.read_bytes()
    assert "no form of a report named" in refused(*report, weights, "--force").err
    inside = model / "graph" / "notes.html"
    inside.write_bytes(PRECIOUS)
    assert "is a file of" in refused(*report, inside, "--force").err
    assert inside.read_bytes() == PRECIOUS
    inside.unlink()
    assert weights.read_bytes() == kept
    page = tmp_path / "index.html"
    page.write_bytes(PRECIOUS)
    assert "powerlink did not make it" in refused(*report, page).err
    assert page.read_bytes() == PRECIOUS
    assert powerlink(*report, page, "--force").code == 0
    assert powerlink(*report, page).code == 0, "its own page it may make again"


def test_a_fit_replaces_neither_the_model_nor_a_strangers_file(powerlink, refused, model, tmp_path):
    fit = ("fit", model, "--limit", 4, "--set", "epochs=1", "--set", "hidden=4", "--out")
    weights = model / "model.safetensors"
    kept = weights.read_bytes()
    assert "is a file of" in refused(*fit, weights, "--force").err
    assert weights.read_bytes() == kept
    other = tmp_path / "pg.safetensors"
    other.write_bytes(PRECIOUS)
    assert "powerlink did not make it" in refused(*fit, other).err
    assert other.read_bytes() == PRECIOUS
    assert powerlink(*fit, other, "--force").code == 0
    assert powerlink(*fit, other).code == 0, "its own fit it may make again"
