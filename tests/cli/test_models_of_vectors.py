"""Models that pass no messages from the command line: they are explained like any other, or refused in a sentence."""

from __future__ import annotations

import json

import pytest
from command_line import call_once

ASKED = ("--head", "Gambia", "--relation", "in_continent", "--tail", "Africa")


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors") / "m"
    shape = ("--encoder", "none", "--decoder", "complex", "--dim", 16)
    call_once("train", "--data", "atlas", *shape, "--epochs", 10, "--lr", 0.02, "--out", folder)
    return folder


def test_it_is_explained_compared_and_reported(powerlink, vectors, tmp_path):
    told = powerlink("explain", vectors, *ASKED, "--candidates", 6)
    assert told.code == 0, told.err
    assert "This model reads no facts when it is asked" in " ".join(told.out.split())
    out = tmp_path / "kelpie.jsonl"
    kelpie = ("--explainer", "kelpie", "--select", "mask", "--set", "facts=5", "--set", "most=2")
    assert powerlink("explain", vectors, *ASKED, *kelpie, "--out", out).code == 0
    made = json.loads(out.read_text("utf-8"))
    assert made["made_by"]["reading"].startswith("post-training: 100 steps of Adam")
    assert {piece["kind"] for piece in made["evidence"]} == {"set"}
    page = tmp_path / "page.html"
    assert powerlink("report", vectors, out, "--out", page).code == 0
    assert "fitted again without them" in page.read_text("utf-8")
    few = ("--explainers", "single-facts,kelpie,power-link", "--which", "all", "--limit", 3, "--candidates", 5)
    compared = powerlink("compare", vectors, *few, "--out", tmp_path / "c")
    assert compared.code == 1  # one that was asked for took no part
    assert "left out: this explainer weighs messages" in compared.said
    assert "F+" not in compared.said


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        (("--explainer", "power-link"), "this explainer weighs messages, and the model passes none: take slopes"),
        (("--metrics", "paper"), "the paper's figures weigh messages, and the model passes none"),
        (("--explainer", "kelpie", "--set", "facts=0"), "facts must be at least 1, not 0"),
        (
            ("--explainer", "kelpie", "--set", "mode=maybe"),
            "mode of kelpie must be necessary or sufficient, not 'maybe'",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(powerlink, vectors, extra, sentence):
    told = powerlink("explain", vectors, *ASKED, *extra)
    assert told.code == 1
    assert sentence in " ".join(told.said.split())
    assert "Traceback" not in told.said


def test_it_has_no_layers(powerlink, tmp_path):
    told = powerlink("train", "--data", "atlas", "--encoder", "none", "--layers", 2, "--out", tmp_path / "m")
    assert told.code == 1
    assert "a model without an encoder has one width and no layers" in " ".join(told.said.split())
