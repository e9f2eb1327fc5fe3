"""A training's log as a picture."""

from __future__ import annotations

import json

import pytest

from powerlink.errors import ModelError
from powerlink.report.learning_curve import CURVE, LOG, draw_learning_curve, read_log, write_learning_curve

MRRS = {10: 0.2, 20: 0.4, 30: 0.4, 40: 0.3}
LINES = [
    {"epoch": epoch, "loss": 1 / epoch, "best_mrr": 0.4, "seconds": 0.1}
    | ({"valid": {"mrr": MRRS[epoch]}} if epoch in MRRS else {})
    for epoch in range(1, 46)
]


def written(folder, lines=LINES, **description):
    (folder / LOG).write_text("".join(json.dumps(line) + "\n" for line in lines))
    if description:
        (folder / "model.json").write_text(json.dumps(description))
    return folder


def test_loss_and_validation_are_drawn_and_the_first_best_is_marked():
    left, right = draw_learning_curve(LINES, "title").axes
    (loss,) = left.lines
    assert loss.get_xydata().tolist() == [[line["epoch"], line["loss"]] for line in LINES]
    mrr, best = right.lines
    assert mrr.get_xydata().tolist() == [list(pair) for pair in MRRS.items()]
    assert best.get_xydata().tolist() == [[20, 0.4]]
    assert right.texts[0].get_text() == "best 0.400 at epoch 20"


def test_the_same_log_gives_the_same_bytes_whatever_the_graph_is_called(tmp_path):
    model = {"encoder": "rgcn", "decoder": "transe"}
    written(tmp_path, model=model, graph={"name": "$x_^ 知識\u202e\n\U0001f9ea"})
    first = write_learning_curve(tmp_path).read_bytes()
    assert first.startswith(b"\x89PNG")
    assert write_learning_curve(tmp_path) == tmp_path / CURVE
    assert (tmp_path / CURVE).read_bytes() == first


@pytest.mark.parametrize("lines", [LINES[:1], LINES[:9], LINES[:10]])
def test_a_short_log_is_drawn_too(tmp_path, lines):
    assert write_learning_curve(written(tmp_path, lines)).stat().st_size > 1000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "is missing"),
        ("", "is empty"),
        ('{"epoch": 1', "is damaged"),
        ('{"epoch": 1}\n', "is damaged"),
        ("[1]\n", "is damaged"),
        ('{"epoch": 1, "loss": "x"}\n', "is damaged"),
        ('{"epoch": 1, "loss": 1, "valid": 3}\n', "is damaged"),
    ],
)
def test_a_log_that_cannot_be_drawn_is_told(tmp_path, text, said):
    if text is not None:
        (tmp_path / LOG).write_text(text)
    with pytest.raises(ModelError, match=said):
        read_log(tmp_path)
