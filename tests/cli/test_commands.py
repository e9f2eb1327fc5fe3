"""Every command from end to end, on a model that trains in a second."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path

import pytest
from command_line import FAMILIES, call_once, write_tables

from powerlink import cli
from powerlink.cli import demo as demo_module
from powerlink.cli.main import COMMANDS as SENTENCES
from powerlink.cli.main import command
from powerlink.explainers.catalog import EXPLAINERS
from powerlink.models.catalog import DECODERS, ENCODERS
from powerlink.models.training import TrainingSettings
from powerlink.report.schema import read_explanations
from powerlink.settings import settings_of

COMMANDS = {name: command(name) for name in SENTENCES}
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
ONE = ("--head", "Carl0", "--relation", "lives_in", "--tail", "Town0")


def test_the_commands_are_those_that_are_promised():
    assert list(COMMANDS) == [
        *("demo", "datasets", "presets", "train", "rank", "predict"),
        *("explainers", "fit", "explain", "compare", "truth", "evaluate", "report"),
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_shows_an_example(powerlink, name):
    outcome = powerlink(name, "--help")
    assert outcome.code == 0
    assert f"powerlink {name}" in outcome.said.replace("Usage: powerlink", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_and_argument_of_every_command_has_a_help_text(name):
    for parameter in COMMANDS[name].params:
        assert getattr(parameter, "help", None), f"{name}: {parameter.name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_no_bracket_in_a_help_text_is_read_as_markup(name):
    for parameter in COMMANDS[name].params:
        assert "[" not in parameter.help.replace("\\[", ""), f"{name}: {parameter.name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_80_columns(powerlink, name):
    assert max(map(len, powerlink(name, "--help").out.splitlines())) <= 80


@pytest.mark.skipif(not REFERENCE.is_file(), reason="the reference of the command line is not written yet")
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_flag_is_in_the_reference(name):
    text = REFERENCE.read_text("utf-8")
    assert re.search(rf"^#+ .*\b{name}\b", text, re.MULTILINE), f"{name} has no section"
    for parameter in COMMANDS[name].params:
        for flag in (option for option in parameter.opts if option.startswith("--") and option != "--help"):
            assert flag in text, f"{name} {flag}"


def test_no_arguments_print_the_help(powerlink):
    assert "Usage: powerlink" in powerlink().said


def test_the_version_is_one_line(powerlink):
    outcome = powerlink("--version")
    assert (outcome.code, outcome.err) == (0, "")
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", outcome.out)


def test_datasets_lists_what_is_known_by_name(powerlink, tmp_path, monkeypatch):
    monkeypatch.delenv("POWERLINK_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    outcome = powerlink("datasets")
    assert outcome.code == 0
    assert all(name in outcome.out for name in ("atlas", "fb15k-237", "wn18rr", "umls", "kinships"))
    assert max(map(len, outcome.out.splitlines())) <= 80
    entries = json.loads(powerlink("datasets", "--json").out)
    assert entries[0]["name"] == "atlas"
    assert entries[0]["status"] == "bundled"


def test_train_says_what_it_learned_from_and_how_well(powerlink, families, tmp_path):
    outcome = powerlink("train", "--data", families, "--epochs", 2, "--dim", 10, "--out", tmp_path / "m")
    assert outcome.code == 0
    assert "families: 20 entities, 5 relations, 28 training facts" in outcome.said
    assert re.search(r"best at epoch 2: test MRR 0\.\d{3}, Hits@1", outcome.said)
    assert (tmp_path / "m" / "model.safetensors").is_file()
    assert not (tmp_path / "m" / "resume.safetensors").exists()


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_every_model_can_be_trained_and_explained(powerlink, families, tmp_path, encoder, decoder):
    shape = ("--encoder", encoder, "--decoder", decoder, "--epochs", 1, "--dim", 20)
    assert powerlink("train", "--data", families, *shape, "--out", tmp_path).code == 0
    outcome = powerlink("explain", tmp_path, *ONE)
    assert outcome.code == 0
    assert outcome.out.startswith("Carl0 ─lives_in→ Town0\nscore ")


def test_train_takes_the_bundled_graph_by_name(powerlink, tmp_path):
    outcome = powerlink("train", "--data", "atlas", "--epochs", 1, "--dim", 5, "--out", tmp_path / "m")
    assert outcome.code == 0
    assert outcome.out.startswith("atlas: ")


def test_train_says_what_the_data_held_twice_and_what_points_at_itself(powerlink, tmp_path):
    (tmp_path / "twice.tsv").write_text("a\tr\tb\na\tr\tb\nb\tr\tb\nb\tr\tc\nc\tr\ta\n")
    outcome = powerlink("train", "--data", tmp_path / "twice.tsv", "--epochs", 1, "--dim", 5, "--out", tmp_path / "m")
    assert outcome.code == 0
    assert "1 duplicate fact was merged" in outcome.said
    assert "1 fact with the same head and tail was kept" in outcome.said


def test_rank_prints_a_row_or_json(powerlink, model):
    outcome = powerlink("rank", model)
    assert outcome.out.split()[:4] == ["model", "graph", "split", "MRR"]
    figures = json.loads(powerlink("rank", model, "--json").out)
    assert set(figures) == {"model", "graph", "split", "mrr", "hits@1", "hits@3", "hits@10", "queries"}
    assert figures["queries"] == 16
    assert 0 < figures["mrr"] <= 1
    assert json.loads(powerlink("rank", model, "--split", "valid", "--json").out)["queries"] == 8


def test_predict_gives_the_best_tails_and_marks_what_is_known(powerlink, model):
    answers = json.loads(
        powerlink("predict", model, "--head", "Ben0", "--relation", "lives_in", "--top", 20, "--json").out
    )
    assert len(answers) == 20
    assert [a["score"] for a in answers] == sorted((a["score"] for a in answers), reverse=True)
    assert [a["tail"] for a in answers if a["known"]] == ["Town0"]
    text = powerlink("predict", model, "--head", "Ben0", "--relation", "lives_in", "--top", 20).out
    assert sum("known" in line for line in text.splitlines()) == 1


def test_predict_shows_probabilities_where_validation_facts_calibrate_them(powerlink, model, tmp_path):
    asked = ("--head", "Ben0", "--relation", "lives_in", "--top", 3)
    assert "probability" not in powerlink("predict", model, *asked).out  # four validation facts say too little
    tables = {
        split: [
            (f"{head}{side}", relation, f"{tail}{side}") for head, relation, tail in rows for side in ("", "a", "b")
        ]
        for split, rows in FAMILIES.items()
    }
    data = write_tables(tmp_path / "data", tables)
    assert (
        powerlink("train", "--data", data, "--epochs", 40, "--dim", 20, "--lr", 0.02, "--out", tmp_path / "m").code == 0
    )
    text = powerlink("predict", tmp_path / "m", *asked).out
    assert text.splitlines()[0].split()[-1] == "probability"
    assert text.count("%") == 3
    answers = json.loads(powerlink("predict", tmp_path / "m", *asked, "--json").out)
    assert all(0 < answer["probability"] < 1 for answer in answers)


def test_predict_gives_heads_when_asked_by_tail(powerlink, model):
    answers = json.loads(
        powerlink("predict", model, "--tail", "Town1", "--relation", "lives_in", "--top", 3, "--json").out
    )
    assert {answer["tail"] for answer in answers} == {"Town1"}
    assert len({answer["head"] for answer in answers}) == 3


def test_one_triple_is_explained_in_cards(powerlink, model):
    outcome = powerlink("explain", model, *ONE)
    assert outcome.code == 0
    assert "╭─ path 1 ─" in outcome.out
    assert "without it: score" in outcome.out
    assert "1 query" not in outcome.said, "one query needs no summary"
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_a_profile_tells_the_stages_apart_from_the_result_and_memory_changes_only_the_batches(powerlink, model):
    usual = powerlink("explain", model, *ONE, "--json")
    outcome = powerlink("explain", model, *ONE, "--json", "--profile", "--memory", 8)
    assert outcome.code == 0
    assert outcome.out == usual.out
    assert re.search(r"1 explanation in [\d.]+ s", outcome.err)
    assert re.search(r"[\d.]+ s +\d+%  score edges\n", outcome.err)
    assert powerlink("explain", model, *ONE, "--memory", 0).code == 2
    refused = powerlink("explain", model, *ONE, "--memory", 0.001)
    assert refused.code == 1
    assert "0.001 GiB of memory are too little" in refused.err


def test_one_triple_is_explained_in_json(powerlink, model, tmp_path):
    line = powerlink("explain", model, *ONE, "--json").out
    assert line.count("\n") == 1
    (tmp_path / "one.jsonl").write_text(line, encoding="utf-8")
    (explanation,) = read_explanations(tmp_path / "one.jsonl")
    assert (explanation.query.head, explanation.query.tail) == ("Carl0", "Town0")
    assert explanation.made_by.explainer == "slopes"


def test_many_are_explained_into_a_file_and_counted(powerlink, model, explanations):
    found = read_explanations(explanations)
    assert len({e.query for e in found}) == len(found) == 8
    outcome = powerlink("explain", model, "--split", "test", "--out", explanations)
    assert "8 of 8 are already in" in outcome.said
    assert re.search(r"8 queries \d explained", outcome.said)


def test_json_beside_a_file_prints_what_was_asked_and_not_all_that_is_in_it(powerlink, model, explanations):
    outcome = powerlink("explain", model, *ONE, "--out", explanations, "--json")
    assert [json.loads(line)["query"]["head"] for line in outcome.out.splitlines()] == ["Carl0"]


@pytest.fixture(scope="session")
def weights(model, tmp_path_factory):
    """A fitted explainer's file."""
    file = tmp_path_factory.mktemp("weights") / "pg.safetensors"
    call_once("fit", model, "--limit", 8, "--set", "epochs=2", "--set", "hidden=8", "--out", file)
    return file


@pytest.mark.parametrize("name", EXPLAINERS)
def test_every_explainer_answers(powerlink, model, weights, name):
    recipe = EXPLAINERS[name]
    own = ("--weights", weights) if recipe.fitting else ()
    own += ("--steps", 2) if "steps" in settings_of(recipe.kind) else ()
    outcome = powerlink("explain", model, *ONE, "--explainer", name, *own, "--select", "mask", "--json")
    made_by = json.loads(outcome.out)["made_by"]
    assert (made_by["explainer"], made_by["settings"]["select"]) == (name, "mask")
    assert recipe.fixed.items() <= made_by["explainer_settings"].items()


def test_the_explainers_are_listed_and_one_tells_its_settings(powerlink):
    outcome = powerlink("explainers")
    assert outcome.code == 0
    assert all(re.search(rf"^{name} +\w", outcome.out, re.MULTILINE) for name in EXPLAINERS)
    assert max(map(len, outcome.out.splitlines())) <= 80
    listed = json.loads(powerlink("explainers", "--json").out)
    assert [entry["name"] for entry in listed] == list(EXPLAINERS)
    for name, recipe in EXPLAINERS.items():
        told = powerlink("explainers", name).said
        assert all(setting in told for setting in settings_of(recipe.kind))
        assert all(setting in told for setting in settings_of(recipe.fitting)) if recipe.fitting else True
        shown = json.loads(powerlink("explainers", name, "--json").out)
        assert list(shown["settings"]) == list(settings_of(recipe.kind))
    assert "path_weight 0.0 (fixed)" in powerlink("explainers", "power-link-no-path").said


def test_settings_of_any_explainer_are_set_by_name(powerlink, model):
    own = ("--set", "steps=3", "--set", "entropy-weight=0.5", "--size-weight", 0.1)
    made_by = json.loads(powerlink("explain", model, *ONE, "--explainer", "gnn-explainer", *own, "--json").out)[
        "made_by"
    ]
    assert {"steps": 3, "entropy_weight": 0.5, "size_weight": 0.1}.items() <= made_by["explainer_settings"].items()


def test_a_fit_is_told_and_used(powerlink, model, weights, tmp_path):
    fitting = ("--limit", 8, "--set", "epochs=2", "--set", "hidden=8")
    outcome = powerlink("fit", model, *fitting, "--out", tmp_path / "again")
    assert outcome.code == 0
    believed = powerlink("fit", model, *fitting, "--only-predicted", "--out", tmp_path / "believed")
    assert re.search(r"fitted on [1-8] facts?: loss", believed.said)
    assert re.search(r"fitted on 8 facts: loss \d+\.\d+ → \d+\.\d+ weights saved in ", outcome.said)
    flags = ("--explainer", "pg-explainer", "--json")
    one, other = (
        powerlink("explain", model, *ONE, *flags, "--weights", file) for file in (weights, tmp_path / "again")
    )
    assert one.out == other.out, "the numbers count, not the file's name"
    assert json.loads(one.out)["made_by"]["explainer_settings"]["fit"]


def test_settings_reach_the_explainer_and_the_report(powerlink, model):
    flags = (
        "--explainer",
        "power-link",
        "--steps",
        7,
        "--order",
        2,
        "--path-weight",
        0,
        "--paths",
        2,
        "--max-length",
        2,
        "--hops",
        2,
        "--seed",
        3,
    )
    made_by = json.loads(powerlink("explain", model, *ONE, *flags, "--json").out)["made_by"]
    assert made_by["seed"] == 3
    expected = {"steps": 7, "order": 2, "path_weight": 0.0, "paths": 2, "max_length": 2, "hops": 2}
    assert expected.items() <= {**made_by["settings"], **made_by["explainer_settings"]}.items()


def test_heads_can_be_ranked_instead(powerlink, model):
    outcome = powerlink("explain", model, *ONE, "--rank-heads")
    assert "among heads" in outcome.said
    assert outcome.out.startswith("Carl0 ─lives_in→ Town0")


def test_a_limit_counts_what_is_left_after_only_predicted(powerlink, model, families, tmp_path):
    every = [json.loads(line) for line in powerlink("explain", model, "--split", "train", "--json").out.splitlines()]
    believed = [e["query"] for e in every if e["score"] > 0 or e["rank"] == 1]
    assert 2 <= len(believed) < len(every), "a model that believes all or nothing tests nothing"
    first = powerlink("explain", model, "--split", "train", "--only-predicted", "--limit", 2, "--json").out
    assert [json.loads(line)["query"] for line in first.splitlines()] == believed[:2]
    twice = tmp_path / "twice.tsv"
    lines = ["\t".join((q["head"], q["relation"], q["tail"])) + "\n" for q in believed]
    twice.write_text(lines[0] * 3 + lines[1], encoding="utf-8")
    again = powerlink("explain", model, "--queries", twice, "--only-predicted", "--limit", 2, "--json").out
    assert [json.loads(line)["query"] for line in again.splitlines()] == believed[:2], "repeats count once"


def test_nothing_believed_is_said(powerlink, model, monkeypatch):
    monkeypatch.setattr("powerlink.explain_many", lambda *_, **__: [])
    outcome = powerlink("explain", model, *ONE, "--only-predicted")
    assert outcome.code == 0
    assert "predicts none" in outcome.err


def test_evaluate_prints_both_protocols_or_json(powerlink, model, explanations):
    outcome = powerlink("evaluate", model, explanations)
    assert outcome.code == 0
    assert all(metric in outcome.out for metric in ("F+", "F−", "Sparsity", "HΔR:1", "HΔR:5", "logit drop"))
    assert re.search(r"8 queries \d explained", outcome.said)
    assert max(map(len, outcome.out.splitlines())) <= 80
    figures = json.loads(powerlink("evaluate", model, explanations, "--json").out)["figures"]
    assert {figure["protocol"] for figure in figures} == {"powerlink", "paper"}


def test_report_writes_a_page_that_needs_no_network(powerlink, model, explanations, tmp_path):
    page = tmp_path / "new" / "report.html"
    outcome = powerlink("report", model, explanations, "--out", page)
    assert outcome.said == f"8 explanations in {page}"
    text = page.read_text("utf-8")
    assert "compgcn-distmult on families" in text
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)


def test_demo_trains_explains_and_writes_a_page(powerlink, tmp_path, monkeypatch):
    monkeypatch.setattr(demo_module, "DEMO_MODEL", {"widths": (32, 32)})
    monkeypatch.setattr(demo_module, "DEMO_TRAINING", TrainingSettings(epochs=20, lr=0.02))
    outcome = powerlink("demo", "--out", tmp_path)
    assert outcome.code == 0
    assert outcome.out.count(", rank 1 among tails") == 5
    assert f"The same with pictures: {tmp_path / 'report.html'}" in outcome.out
    assert (tmp_path / "report.html").read_text("utf-8").count("<html") == 1
    again = powerlink("demo", "--out", tmp_path)
    assert "is already trained" in again.said
    assert again.out[again.out.index("─") :] == outcome.out[outcome.out.index("─") :]


def test_the_demo_is_set_up_for_the_atlas_and_two_cores():
    assert demo_module.DEMO_TRAINING.epochs <= 200
    assert "atlas" in inspect.getsource(demo_module.demo)


def test_rgcn_takes_any_width(powerlink, families, tmp_path):
    train = ("train", "--data", families, "--encoder", "rgcn", "--epochs", 1, "--out", tmp_path / "m")
    assert powerlink(*train, "--dim", 7).code == 0
    shape = json.loads((tmp_path / "m" / "model.json").read_text())["model"]
    assert (shape["widths"], shape["encoder"]["blocks"]) == ([7, 7], 1)


def test_no_function_of_the_command_line_is_long():
    """Commands are a thin coat: what they do is a function of Python."""
    for file in Path(cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 40, f"{file.name}: {node.name}"
