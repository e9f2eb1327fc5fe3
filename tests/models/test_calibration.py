"""A score becomes the share of candidates that were right, or nothing at all."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from builders import MessageSum, knowledge_graph, model_of, random_rows
from powerlink import ModelSettings, Session, TrainingSettings, explain, load_graph, load_model, predict, train
from powerlink.errors import ModelError, SettingsError
from powerlink.models.calibration import FEWEST_FACTS, Calibration, calibrate, fit
from powerlink.models.ranking import both_ways, score_tails
from powerlink.report.html import render_page
from powerlink.report.show import show

ONE = torch.ones(1, dtype=torch.long)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of the atlas that ranks the right answer first one time in four or so."""
    folder = tmp_path_factory.mktemp("atlas")
    settings = ModelSettings(encoder="compgcn", decoder="distmult", widths=(32, 32))
    train(load_graph("atlas"), folder, model=settings, training=TrainingSettings(epochs=40, batch_size=128, lr=0.01))
    return folder


@pytest.fixture(scope="module")
def atlas(folder):
    return load_model(folder)


def drawn(temperature, shift, count, seed=0):
    """Logits whose answers are right as often as a known calibration says."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(-6, 4, count)
    right = rng.random(count) < 1 / (1 + np.exp(-(logits - shift) / temperature))
    return torch.from_numpy(logits[right]), torch.from_numpy(logits[~right])


def candidates(session, split):
    """Score every candidate of every question of a split, by loops: logits (n,) and whether each is right (n,)."""
    graph = session.graph
    known: dict[tuple[int, int], set[int]] = {}
    for head, relation, tail in both_ways(torch.from_numpy(graph.all_facts), graph.num_relations).tolist():
        known.setdefault((head, relation), set()).add(tail)
    logits, right = [], []
    for head, relation, tail in both_ways(torch.from_numpy(np.array(graph.facts(split))), graph.num_relations).tolist():
        with torch.no_grad():
            row = score_tails(session.model, session.whole, torch.tensor([head]), torch.tensor([relation]))[0].tolist()
        for entity, score in enumerate(row):
            if entity == tail or entity not in known[head, relation]:
                logits.append(score)
                right.append(entity == tail)
    return np.array(logits), np.array(right, dtype=float)


def expected_calibration_error(chance, right):
    places = np.minimum((chance * 10).astype(int), 9)
    shares = [(np.mean(places == p), chance[places == p], right[places == p]) for p in np.unique(places)]
    return sum(share * abs(said.mean() - was.mean()) for share, said, was in shares)


@pytest.mark.parametrize(("temperature", "shift"), [(1.0, 0.0), (2.5, 1.5), (0.4, -3.0)])
def test_a_known_temperature_and_shift_are_found(temperature, shift):
    right, wrong = drawn(temperature, shift, 200_000)
    found = fit(right, wrong, ONE.expand(len(wrong)))
    assert found.temperature == pytest.approx(temperature, rel=0.03)
    assert found.shift == pytest.approx(shift, abs=0.15)
    assert found.probability(found.shift) == 0.5


@pytest.mark.parametrize(("scale", "offset"), [(1e-6, 0.0), (1e6, 0.0), (1.0, 1e4)])
def test_it_follows_the_scale_of_the_scores(scale, offset):
    right, wrong = drawn(1.5, -2.0, 5_000)
    times = ONE.expand(len(wrong))
    plain, scaled = fit(right, wrong, times), fit(scale * right + offset, scale * wrong + offset, times)
    assert scaled.temperature == pytest.approx(scale * plain.temperature, rel=1e-6)
    assert scaled.probability(scale * 1.25 + offset) == pytest.approx(plain.probability(1.25), rel=1e-6)


def test_how_often_a_logit_was_seen_counts():
    right, wrong = drawn(1.5, -2.0, 500)
    once = fit(right, torch.cat([wrong, wrong[:100], wrong[:100]]), ONE.expand(len(wrong) + 200))
    times = torch.ones(len(wrong), dtype=torch.long)
    times[:100] = 3
    assert fit(right, wrong, times).temperature == pytest.approx(once.temperature, rel=1e-9)


@pytest.mark.parametrize("gap", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("answers", [20, 2000])
def test_scores_without_fault_say_no_more_than_so_many_answers_can(gap, answers):
    right, wrong = torch.full((answers,), gap), torch.zeros(50 * answers)
    found = fit(right, wrong, ONE.expand(len(wrong)))
    assert found.temperature > 0
    assert found.probability(gap) == pytest.approx((answers + 1) / (answers + 2), rel=1e-6)
    assert found.probability(0.0) == pytest.approx(1 / (50 * answers + 2), rel=1e-6)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ([], [0.0]),
        ([0.0], []),
        ([1.0, 1.0], [1.0]),
        ([0.0, 1.0], [1.0, 2.0]),
        ([math.inf], [0.0]),
        ([1.0], [math.nan]),
    ],
    ids=["no right", "no wrong", "all level", "the wrong way round", "infinite", "no number"],
)
def test_what_cannot_be_fitted_is_none(right, wrong):
    assert fit(torch.tensor(right), torch.tensor(wrong), ONE.expand(len(wrong))) is None


@pytest.mark.parametrize("numbers", [(0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (1.0, math.inf)])
def test_a_calibration_that_is_none_is_refused(numbers):
    with pytest.raises(SettingsError, match="temperature above 0"):
        Calibration(*numbers, 10)


def test_probabilities_of_any_score():
    calibration = Calibration(2.0, 1.0, 10)
    assert calibration.probability(5.0) == pytest.approx(1 / (1 + math.exp(-2)), rel=1e-12)
    assert (calibration.probability(-1e300), calibration.probability(1e300)) == (0.0, 1.0)


def test_it_equals_a_plain_minimisation_over_every_candidate(atlas):
    logits, right = candidates(atlas, "valid")
    answers, others = right.sum(), (1 - right).sum()
    target = np.where(right > 0, (answers + 1) / (answers + 2), 1 / (others + 2))

    def loss(line):
        score = line[0] * logits + line[1]
        return 1e3 * (np.logaddexp(0, score) - target * score).mean()

    slope, height = minimize(loss, [1.0, 0.0], method="BFGS", options={"gtol": 1e-7}).x
    found = atlas.calibration
    assert found.facts == len(atlas.graph.valid)
    assert found.temperature == pytest.approx(1 / slope, rel=1e-3)
    assert found.shift == pytest.approx(-height / slope, rel=1e-3)


def test_it_is_the_same_whatever_is_asked_at_once(atlas):
    whole, *others = (
        calibrate(atlas.model, atlas.graph, atlas.whole, atlas.known, at_once=at_once) for at_once in (1000, 64, 1)
    )
    for other in others:
        assert other.temperature == pytest.approx(whole.temperature, rel=1e-5)
        assert other.shift == pytest.approx(whole.shift, rel=1e-5)


def test_facts_are_drawn_by_seed(atlas):
    def some(seed):
        return calibrate(atlas.model, atlas.graph, atlas.whole, atlas.known, facts=50, seed=seed)

    assert some(1) == some(1) != some(2)
    assert some(1).facts == 50


def test_on_test_facts_probabilities_hold_better_than_sigmoids_of_scores(atlas):
    logits, right = candidates(atlas, "test")
    calibrated = np.array([atlas.calibration.probability(logit) for logit in logits])
    before, after = (expected_calibration_error(p, right) for p in (1 / (1 + np.exp(-logits)), calibrated))
    assert after < 0.5 * before
    assert calibrated.sum() == pytest.approx(right.sum(), rel=0.1)  # as many right answers as it says


def test_training_saves_it_and_loading_reads_it(folder, atlas):
    told = json.loads((folder / "model.json").read_text("utf-8"))["calibration"]
    assert Calibration(**told) == atlas.saved_calibration
    assert atlas.calibration is atlas.saved_calibration
    assert calibrate(atlas.model, atlas.graph, atlas.whole, atlas.known) == atlas.calibration


def test_a_folder_from_before_is_calibrated_when_first_asked(folder, atlas, tmp_path):
    described = rewritten(folder, tmp_path)
    del described["calibration"]
    (tmp_path / "model.json").write_text(json.dumps(described), "utf-8")
    session = load_model(tmp_path)
    assert (session.saved_calibration, session.hash) == (None, atlas.hash)
    assert session.calibration == atlas.calibration
    assert session.calibration is session.calibration


@pytest.mark.parametrize(
    "told",
    [
        {"temperature": 0.0, "shift": 0.0, "facts": 9},
        {"temperature": "1", "shift": 0.0, "facts": 9},
        {"shift": 1.0},
        [1.0, 0.0, 9],
    ],
)
def test_a_damaged_calibration_is_told(folder, tmp_path, told):
    described = rewritten(folder, tmp_path) | {"calibration": told}
    (tmp_path / "model.json").write_text(json.dumps(described), "utf-8")
    with pytest.raises(ModelError, match="lacks a proper 'calibration'"):
        load_model(tmp_path)


def rewritten(folder, copy):
    """Link a model folder's files into another one, and return its description."""
    for path in folder.iterdir():
        if path.name != "model.json":
            (copy / path.name).symlink_to(path)
    return json.loads((folder / "model.json").read_text("utf-8"))


def test_explanations_and_predictions_say_it(atlas, capsys):
    (best,) = predict(atlas, head="Kenya", relation="in_continent", top=1)
    assert best.probability == atlas.calibration.probability(best.score)
    why = explain(atlas, *(atlas.graph.entities[0], atlas.graph.relations[0], atlas.graph.entities[0]))
    assert why.status == "head_is_tail"
    assert why.probability == atlas.calibration.probability(why.score)
    show(why)
    assert "(probability " in capsys.readouterr().out


@pytest.mark.parametrize("valid", [0, FEWEST_FACTS - 1])
def test_without_validation_facts_no_report_says_a_probability(valid, capsys):
    rows = random_rows(3, 20, 2, 80)
    graph = knowledge_graph(rows[valid:], 20, 2, valid=rows[:valid])
    session = Session.of(graph, model_of("compgcn", "distmult", 1, 20, 2))
    assert session.calibration is None
    head, relation, tail = rows[-1]
    why = explain(session, f"e{head}", f"r{relation}", f"e{tail}")
    assert why.score is not None
    assert why.probability is None
    show(why)
    page = render_page([why], "Why?")
    assert "probability" not in capsys.readouterr().out + page
    assert [answer.probability for answer in predict(session, head="e0", relation="r0", top=3)] == [None] * 3


def test_a_score_that_is_no_number_leaves_a_model_uncalibrated():
    rows = random_rows(3, 20, 2, 80)
    graph = knowledge_graph(rows[20:], 20, 2, valid=rows[:20])
    values = [float(i) for i in range(20)]
    assert Session.of(graph, MessageSum(values, head_share=0.5)).whole.entity.isfinite().all()
    assert Session.of(graph, MessageSum([math.nan, *values[1:]])).calibration is None
    assert Session.of(graph, MessageSum([0.0] * 20)).calibration is None  # all level
