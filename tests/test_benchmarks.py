"""The sweep over the paper's models, and the pages that are made of its results."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from builders import knowledge_graph, model_of, random_rows
from powerlink import ExplainSettings, Session, load_graph, load_model
from powerlink.explainers.learned.power_link import PowerLink
from powerlink.kg.storage import save_graph
from powerlink.models.checkpoint import save_model, start_folder
from powerlink.models.link_model import ModelSettings, build_model
from powerlink.models.presets import PRESETS
from powerlink.models.training import Trainer, TrainingSettings
from powerlink.pipeline import computation_graph

ROOT = Path(__file__).parent.parent
NAMES = "fb15k-237/rgcn-distmult", "wn18rr/compgcn-transe"
FAST = ("--set", "epochs=4", "evaluate_every=2", "batch_size=16")


@pytest.fixture(scope="module")
def benchmarks():
    """The scripts as modules, as they find each other when they are run."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import paper_accuracy  # noqa: PLC0415
        import train_models  # noqa: PLC0415
        import write_results  # noqa: PLC0415
        from pages import models  # noqa: PLC0415
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    return paper_accuracy, train_models, write_results, models


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rows = [f"e{i}\t{r}\te{(i * step + 1) % 12}\n" for i in range(12) for r, step in (("a", 1), ("b", 5), ("c", 7))]
    for name in ("FB15k-237", "wn18rr"):
        (folder / name).mkdir()
        for split, part in (("train", rows[4:]), ("valid", rows[:2]), ("test", rows[2:4])):
            (folder / name / f"{split}.tsv").write_text("".join(part))
    return folder


@pytest.fixture
def sweep(benchmarks, data, tmp_path, capsys):
    def call(*arguments, only=NAMES):
        places = ("--data-dir", data, "--models", tmp_path / "models", "--results", tmp_path / "results")
        code = benchmarks[1].main([*map(str, places), "--device", "cpu", "--only", ",".join(only), *arguments])
        printed = capsys.readouterr()
        return code, printed.out.splitlines(), printed.err

    return call


def result(tmp_path, name):
    return json.loads((tmp_path / "results" / f"{name.replace('/', '_')}.json").read_text())


def test_a_sweep_writes_a_file_a_model_and_a_line_each(sweep, tmp_path):
    code, lines, errors = sweep(*FAST)
    assert (code, errors) == (0, "")
    assert [line.split()[0] for line in lines] == ["preset", "fb15k-237/rgcn-distmult", "wn18rr/compgcn-transe"]
    for name in NAMES:
        found = result(tmp_path, name)
        assert found["preset"] == name
        assert found["configuration"]["training"]["epochs"] == found["epochs"] == 4
        assert found["configuration"]["model"]["widths"] == list(PRESETS[name].model.widths)
        assert found["best_epoch"] in (2, 4)
        assert 0 < found["seconds"]["to_best"] <= found["seconds"]["total"]
        assert {"mrr", "hits@1", "hits@3", "hits@10"} <= found["valid"].keys() & found["test"].keys()
        assert {"versions", "device", "date", "seed", "seconds_per_epoch"} <= found.keys()
        assert [tried["valid_mrr"] for tried in found["tried"]] == [found["valid"]["mrr"]]
        session = load_model(tmp_path / "models" / name.replace("/", "_"))
        assert session.name == name.split("/")[1]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert sweep(*FAST)[1] == lines, "what is done is told again, not done again"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == before


def test_a_sweep_on_workers_trains_the_same_models(sweep, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))  # workers import the script, too
    code, lines, errors = sweep(*FAST, "--executor", "processes", "--workers", "2")
    assert (code, errors) == (0, "")
    hashes = {name: load_model(tmp_path / "models" / name.replace("/", "_")).hash for name in NAMES}
    shutil.rmtree(tmp_path / "models")
    shutil.rmtree(tmp_path / "results")
    assert {line.split()[0] for line in sweep(*FAST)[1]} == {line.split()[0] for line in lines}
    assert hashes == {name: load_model(tmp_path / "models" / name.replace("/", "_")).hash for name in NAMES}


def test_another_configuration_is_another_try_and_validation_chooses(sweep, tmp_path):
    name = NAMES[0]
    for lr in ("0.03", "1e-9", "0.01"):
        assert sweep(*FAST, f"lr={lr}", only=[name])[0] == 0
    found = result(tmp_path, name)
    tried = {entry["configuration"]["training"]["lr"]: entry["valid_mrr"] for entry in found["tried"]}
    assert list(tried) == [0.03, 1e-9, 0.01]
    assert all("test" not in entry for entry in found["tried"])
    assert found["valid"]["mrr"] == max(tried.values())
    best = found["configuration"]["training"]["lr"]
    assert tried[best] == max(tried.values())
    assert f"lr={best}" in found["command"]
    kept = json.loads((tmp_path / "models" / name.replace("/", "_") / "model.json").read_text())
    assert kept["training"]["lr"] == best
    assert kept["accuracy"]["test"] == found["test"]
    assert list((tmp_path / "models" / "trying").iterdir()) == []


def test_settings_that_are_only_right_together_may_come_one_by_one(sweep, tmp_path):
    name = NAMES[0]
    assert sweep(*FAST, "widths=12,12", "blocks=4", only=[name])[0] == 0  # the preset's five blocks do not divide 12
    model = result(tmp_path, name)["configuration"]["model"]
    assert (model["widths"], model["blocks"]) == ([12, 12], 4)


def test_an_interrupted_sweep_goes_on(sweep, tmp_path, benchmarks, monkeypatch):
    from powerlink.models.training import Trainer  # noqa: PLC0415

    real = Trainer.train_epoch

    def interrupted(self):
        if self.epoch > 3:
            raise KeyboardInterrupt
        return real(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_epoch", interrupted)
        code, _, errors = sweep(*FAST)
    assert code == 130
    assert "run the same command again to go on" in errors
    trained = []
    monkeypatch.setattr(Trainer, "train_epoch", lambda self: trained.append(self.epoch) or real(self))
    assert sweep(*FAST, only=NAMES[:1])[0] == 0
    assert trained == [3, 4]


def test_a_kill_between_results_and_model_is_mended(sweep, tmp_path, benchmarks, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(benchmarks[1], "settle", lambda job: None)
        assert sweep(*FAST, only=NAMES[:1])[0] == 0
    home = tmp_path / "models" / NAMES[0].replace("/", "_")
    assert not home.exists()
    assert sweep(*FAST, only=NAMES[:1])[0] == 0
    load_model(home)


def test_a_budget_begins_nothing_that_it_cannot_end(sweep, tmp_path):
    code, lines, _ = sweep(*FAST, "--budget", "0")
    assert code == 0
    assert lines[-1].startswith("no time left for fb15k-237/rgcn-distmult, wn18rr/compgcn-transe: ")
    assert not (tmp_path / "models").exists()
    sweep(*FAST, only=NAMES[:1])
    _, lines, _ = sweep("--budget", "5", "--set", "epochs=9000000", only=NAMES[:1])
    assert lines[-1].startswith("no time left for fb15k-237/rgcn-distmult")
    assert list((tmp_path / "models" / "trying").iterdir()) == [], "known to take longer: not begun"


def test_a_budget_that_ends_in_the_middle_leaves_a_training_to_go_on_with(sweep, tmp_path):
    endless = ("--set", "epochs=9000000", "evaluate_every=2")
    code, lines, _ = sweep("--budget", "0.2", *endless, only=NAMES[:1])
    assert code == 0
    assert lines[-1].startswith("no time left for fb15k-237/rgcn-distmult: ")
    (folder,) = (tmp_path / "models" / "trying").iterdir()
    assert (folder / "resume.safetensors").is_file()
    assert not list(tmp_path.glob("results/*"))


def test_one_that_diverges_does_not_stop_the_others(sweep, tmp_path):
    code, lines, errors = sweep(*FAST, "lr=1e30")
    assert code == 1
    assert len(lines) == 1
    for name in NAMES:
        assert f"{name}: training diverged in epoch " in errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--set", "lrr=1"), "did you mean 'lr'"),
        (("--set", "lr"), "as NAME=VALUE"),
        (("--set", "epochs=many"), "expected something like epochs="),
        (("--only", "wgcn-conve"), "did you mean 'wn18rr/wgcn-conve'"),
    ],
)
def test_what_cannot_be_meant_is_told_in_a_sentence(sweep, arguments, said):
    code, _, errors = sweep(*arguments)
    assert code == 1
    assert errors.startswith("train_models: ")
    assert errors.count("\n") == 1
    assert said in errors


def test_the_sweep_runs_as_a_script_from_a_source_tree(data, tmp_path):
    command = [sys.executable, "benchmarks/train_models.py", "--data-dir", data, "--models", tmp_path / "m"]
    command += ["--results", tmp_path / "r", "--only", NAMES[0], "--device", "cpu", *FAST]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(NAMES[0])


# The pages


def test_the_pages_are_what_the_results_say(benchmarks):
    folder = ROOT / "docs" / "results"
    pages = benchmarks[2].pages()
    assert {path.name for path in folder.glob("*.md")} == pages.keys()
    for page, text in pages.items():
        assert (folder / page).read_text("utf-8") == text, f"run benchmarks/write_results.py: {page} is out of date"


def test_the_papers_figures_are_the_same_in_presets_and_pages(benchmarks):
    paper = benchmarks[0].PAPER
    assert paper.keys() == PRESETS.keys()
    assert {name: figures.mrr for name, figures in paper.items()} == {n: p.paper_mrr for n, p in PRESETS.items()}


def test_bounds_hold_for_any_ranks_and_refuse_what_no_ranks_give(benchmarks):
    import numpy as np  # noqa: PLC0415

    figures_of, paper = benchmarks[0].Figures, benchmarks[0].PAPER
    random = np.random.default_rng(0)
    for _ in range(200):
        ranks = np.floor(random.pareto(random.uniform(0.2, 2), size=50)) + 1
        hits = [float((ranks <= k).mean()) for k in (1, 3, 10)]
        figures = figures_of(float((1 / ranks).mean()), *hits)
        assert figures.least_mrr <= figures.mrr + 1e-12
        assert figures.mrr <= figures.most_mrr + 1e-12
        assert figures.possible
    assert [name for name, figures in paper.items() if not figures.possible] == ["fb15k-237/compgcn-transe"]
    assert not figures_of(0.9, 0.3, 0.4, 0.5).possible
    assert benchmarks[0].identical() == [("wn18rr/compgcn-conve", "wn18rr/compgcn-distmult")]


def test_the_page_of_models_tells_reached_from_not_reached(benchmarks, sweep, tmp_path):
    sweep(*FAST)
    reached, missed = (result(tmp_path, name) for name in NAMES)
    reached["test"]["mrr"], missed["test"]["mrr"] = 0.3796, 0.2054
    page = benchmarks[3].text(reached, missed)
    table = [line for line in page.split("## What it took")[0].splitlines() if line.startswith("| ") and "/" in line]
    rows = {line.split("|")[1].strip(): line for line in table}
    assert "| 0.380 | 0.380 | yes |" in rows[NAMES[0]]
    assert "| 0.205 | 0.206 | no (−0.001) |" in rows[NAMES[1]]
    assert sum("not trained yet" in row for row in rows.values()) == 16
    assert "2 of 18 trained" in page
    assert f"`{reached['command']}`" in page


def test_the_page_of_models_tells_how_far_a_row_is_from_its_preset(benchmarks, sweep, tmp_path):
    name = NAMES[0]
    sweep(*FAST, only=[name])
    found = result(tmp_path, name)
    assert f"* `{name}`: its preset as it is now was not trained to the end." in benchmarks[3].text(found)
    preset = json.loads(json.dumps({"model": asdict(PRESETS[name].model), "training": asdict(PRESETS[name].training)}))
    tried = {"configuration": preset, "valid_mrr": 0.25, "seconds_per_epoch": 0.5, "epochs": 150}
    page = benchmarks[3].text(found | {"tried": [*found["tried"], tried]})
    said = f"* `{name}`: the preset has a validation MRR of 0.2500 at 0.50 s an epoch, the row above"
    assert f"{said} {found['valid']['mrr']:.4f}" in page
    page = benchmarks[3].text(found | {"tried": [tried], "configuration": preset})
    assert "Every row is what its preset gives." in page
    assert "was not trained to the end" not in page


@pytest.mark.parametrize("name", ["rgcn-distmult", "wgcn-transe", "compgcn-conve"])
def test_the_plain_step_it_is_measured_against_computes_the_same(name, data, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import plain_step  # noqa: PLC0415

    graph, preset = load_graph(data / "wn18rr"), PRESETS[f"wn18rr/{name}"]
    still = replace(preset.model, **{setting: 0.0 for setting in preset.model.flat() if setting.endswith("dropout")})
    ours, plain = (
        Trainer(build_model(still, graph.num_entities, graph.num_relations), graph, preset.training, "cpu")
        for _ in range(2)
    )
    batch = torch.arange(8)
    for _ in range(2):
        loss = ours.step(batch)
        expected = plain_step.step(plain.model.train(), plain.messages, plain.targets, batch, plain.optimizer)
        torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [{}, {"self_loop": True, "degree_norm": True}])
def test_the_plain_mask_it_is_measured_against_is_learned_alike(monkeypatch, shape):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from plain_mask import plain_mask  # noqa: PLC0415

    rows = random_rows(0, 30, 3, 140)
    session = Session.of(knowledge_graph(rows, 30, 3), model_of("wgcn", "conve", 2, 30, 3, **shape))
    explainer, settings = PowerLink(), ExplainSettings(hops=2, hub_limit=0)
    for query in random_rows(1, 30, 3, 5):
        graph = computation_graph(session, torch.tensor([query]), settings)
        fast = explainer.score_edges(session.settled, graph, 0).values[graph.kept_edges.index]
        slow = plain_mask(session.settled, graph, explainer, 0)
        assert fast.dtype == slow.dtype == torch.float64
        assert slow.numel() > 50
        start = replace(explainer, steps=0).score_edges(session.settled, graph, 0).values[graph.kept]
        assert (slow - start).abs().max() > 0.1, "fifty steps must have moved the mask"
        torch.testing.assert_close(fast, slow, rtol=0, atol=1e-6)


def test_the_benchmark_of_speed_measures_every_part_and_its_page_tells_them(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import explain  # noqa: PLC0415
    from pages import speed  # noqa: PLC0415

    rows = [f"e{h}\tr{r}\te{t}\n" for h, r, t in random_rows(0, 30, 3, 150)]
    for split, part in (("train", rows[20:]), ("valid", rows[:5]), ("test", rows[5:20])):
        (tmp_path / f"{split}.tsv").write_text("".join(part))
    results = tmp_path / "results" / "speed"
    where = ["--data", str(tmp_path), "--results", str(results), "--queries", "2", "--facts", "3000"]
    monkeypatch.setattr(sys, "argv", ["explain.py", *where])
    monkeypatch.setattr(explain, "MODEL", replace(explain.MODEL, widths=(8, 8, 8), image=(4, 2)))
    monkeypatch.setattr(explain, "PowerLink", lambda steps=3: PowerLink(steps=min(steps, 3)))
    explain.main()
    found = speed.saved(tmp_path / "results")
    assert found.keys() == {f"{part}_cpu" for part in explain.PARTS}
    assert found["paper_cpu"]["queries"] == 2
    assert found["equal_cpu"]["first five paths"]["highest"]["same paths"] == 1.0
    assert len(found["growth_cpu"]["by edges"]) == 8
    own, other = found["generated_cpu"]["graphs"]
    assert own["facts"] == len(rows) - 20
    assert 2_900 < other["facts"] <= 3_000
    assert own["queries"] == other["queries"] == 2
    page = speed.text(found)
    assert page.count("\n## ") == len(explain.PARTS) + 1  # and why stages are above their floor
    speed.draw(found, tmp_path / "speed.png")
    assert (tmp_path / "speed.png").stat().st_size > 10_000


@pytest.fixture
def paper_protocol(tmp_path, monkeypatch):
    """The benchmark on small models that nobody trained, which believe about half of what they are asked."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import paper_protocol as benchmark  # noqa: PLC0415

    facts = random_rows(0, 30, 3, 170)
    graph = knowledge_graph(facts[50:], 30, 3, valid=facts[:20], test=facts[20:50])
    for name in benchmark.SETUPS:
        encoder, decoder, *_ = name.split("-")
        shape = ModelSettings(encoder=encoder, decoder=decoder, widths=(8,) * (benchmark.SETUPS[name].hops + 1))
        model = build_model(shape, 30, 3, 0)
        if model.bias is not None:
            torch.nn.init.zeros_(model.bias)
        folder = tmp_path / "models" / f"fb15k-237_{name}"
        folder.mkdir(parents=True)
        save_graph(graph, folder / "graph")
        save_model(folder, model, graph, TrainingSettings(), {}, finished=True)

    def call(place, *more):
        where = ["--models", tmp_path / "models", "--folder", tmp_path / place, "--out", tmp_path / f"{place}.json"]
        few = ["--queries", "6", "--fit", "4", "--alone", "2", "--device", "cpu", *more]
        return benchmark.main([*map(str, where), *few]), tmp_path / f"{place}.json"

    return call


def test_the_papers_protocol_runs_every_method_and_its_page_sets_them_beside_the_paper(paper_protocol):
    from pages import paper_protocol as page  # noqa: PLC0415
    from paper_explanations import PAPER  # noqa: PLC0415

    code, out = paper_protocol("all")
    assert code == 0
    models = json.loads(out.read_text())["models"]
    assert models.keys() == PAPER.keys()
    for name, model in models.items():
        assert model["queries"] == 6
        assert model["looked at"] == 6 + sum(model["left_out"].values())
        assert PAPER[name].keys() <= {row["explainer"] for row in model["tables"]["mask"]}
        assert model["refused"] == {}
        assert model["one at a time"]["seconds"].keys() == {"power-link", "power-link-free", "page-link"}
        drops = {entry["file"]: entry["logit drop"] for entry in model["fit"]["tried"]}
        assert drops[model["fit"]["file"]] == max(drops.values())
    text = page.text({"models": models})
    for name, rows in PAPER.items():
        part = text.split(f"## {name}\n")[1].split("\n## ")[0]
        for explainer, figures in rows.items():
            line, *_ = [line for line in part.splitlines() if line.startswith(f"| {explainer} |")]
            assert [cell.split(" / ")[1] for cell in line.strip("| ").split(" | ")[1:]] == [f"{f:.3f}" for f in figures]


def test_the_papers_protocol_stops_in_time_and_goes_on(paper_protocol):
    only = "--only", "rgcn-transe", "--explainers", "power-link,gradient"
    assert paper_protocol("cut", *only, "--seconds", "1e-9")[0] == 3
    code, out = paper_protocol("cut", *only)
    assert code == 0
    cut, whole = (
        json.loads(path.read_text())["models"]["rgcn-transe"] for path in (out, paper_protocol("one", *only)[1])
    )
    assert cut["tables"] == whole["tables"]
    assert "fit" not in whole


def test_drug_mechanisms_are_merged_by_pair_and_held_against_models(tmp_path):
    data = tmp_path / "data"
    (data / "Hetionet").mkdir(parents=True)
    (data / "DrugMechDB").mkdir()
    cures = [(f"Compound::{i}", "CtD", f"Disease::{i}") for i in range(6)]
    facts = [
        fact
        for i in range(6)
        for fact in ((f"Compound::{i}", "CbG", f"Gene::{i}"), (f"Disease::{i}", "DaG", f"Gene::{i}"))
    ]
    facts += [(f"Gene::{i}", "GiG", f"Gene::{(i + 1) % 6}") for i in range(6)]
    for split, rows in (("train", [*facts, *cures[:2]]), ("valid", cures[2:4]), ("test", cures[4:])):
        text = "".join("\t".join(row) + "\n" for row in rows)
        (data / "Hetionet" / f"{split}.tsv").write_text(text)
    pairs = [
        *((f"a{i}", f"Compound::{i}", f"Disease::{i}", "treats", f"Gene::{i}") for i in range(6)),
        ("b2", "Compound::2", "Disease::2", "treats", "Gene::3|Gene::2"),
        ("c3", "Compound::3", "Disease::3", "palliates", "Gene::5"),
        ("d2", "Compound::2", "Disease::2", "treats", ""),
    ]
    with gzip.open(data / "DrugMechDB" / "hetionet_pairs.tsv.gz", "wt") as file:
        file.writelines("\t".join(row) + "\n" for row in pairs)
    graph = load_graph(str(data / "Hetionet"))
    for seed in (0, 1):
        settings = ModelSettings(widths=(8, 8, 8))
        network = build_model(settings, graph.num_entities, graph.num_relations, seed)
        start_folder(tmp_path / f"m{seed}", graph)
        save_model(tmp_path / f"m{seed}", network, graph, TrainingSettings(), {}, finished=True)
    arguments = ["--data", data, "--models", tmp_path / "m0", tmp_path / "m1", "--split", "valid", "--device", "cpu"]
    arguments += ["--folder", tmp_path / "kept", "--out", tmp_path / "found.json"]
    script = ROOT / "benchmarks" / "drug_mechanisms.py"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script, *map(str, arguments)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "kept" / "known_valid.tsv").read_text().splitlines() == [
        "head\trelation\ttail\tknown",
        "Compound::2\tCtD\tDisease::2\tGene::2|Gene::3",
        "Compound::3\tCtD\tDisease::3\tGene::3",
    ]
    tables = json.loads((tmp_path / "found.json").read_text())["tables"]
    assert [table["queries"] for table in tables] == [2, 2, 4]
    assert [table["within_reach"] for table in tables] == [2, 2, 4]
    assert [len(table["rows"]) for table in tables] == [6, 6, 6]


def test_the_rule_that_the_rules_of_choice_call_chosen_is_the_products(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import choice_rules  # noqa: PLC0415
    from powerlink.verify.choice import choose_by_carried, is_reason  # noqa: PLC0415

    facts = random_rows(1, 16, 3, 70)
    session = Session.of(knowledge_graph(facts, 16, 3), model_of("compgcn", "distmult", 2, 16, 3))
    queries = torch.tensor([(0, 0, 5), (1, 2, 7), (3, 1, 9), (4, 0, 2)])
    compared = 0
    tables = choice_rules.tables(session, queries, lambda number, steps: [False] * len(steps))
    for query, table in zip(queries, tables, strict=True):
        graph, paths, carried = choice_rules.candidates(session, query)
        index = choose_by_carried(graph, paths, carried, choice_rules.DEPTH).index
        reasons = is_reason(paths, carried)
        chosen = [place for place in index[0].tolist() if place >= 0 and reasons[place]]
        ranked = choice_rules.ranked(table, choice_rules.RULES[choice_rules.CHOSEN])
        assert ranked[: len(chosen)] == chosen  # behind them, the product leaves out what does nothing
        compared += len(chosen)
    assert compared > 10


def test_families_follow_the_rules_of_kinship(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from families import RULES, family, follows_a_rule  # noqa: PLC0415

    graph = family(3)
    everyone = {(h, r, t) for facts in (graph.train, graph.valid, graph.test) for h, r, t in facts.tolist()}
    named = {name: graph.relations.index(name) for name in RULES}
    parents, grand, count = named["hasParent"], named["hasGrandparent"], graph.num_relations
    above = {(h, t) for h, r, t in everyone if r == parents}
    assert above == {(t, h) for h, r, t in everyone if r == named["hasChild"]}
    assert {(h, t) for h, r, t in everyone if r == grand} == {(a, c) for a, b in above for d, c in above if b == d}
    assert follows_a_rule(graph, grand, [parents, parents])
    assert follows_a_rule(graph, grand, [parents, named["hasChild"] + count, -1])
    assert not follows_a_rule(graph, grand, [parents])
    assert not follows_a_rule(graph, grand, [named["hasChild"], parents])


def test_power_link_plus_is_measured_beside_its_peers_and_its_page_tells_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import power_link_plus as benchmark  # noqa: PLC0415
    from pages import power_link_plus as page  # noqa: PLC0415

    facts = random_rows(0, 30, 3, 170)
    graph = knowledge_graph(facts[50:], 30, 3, valid=facts[:20], test=facts[20:50])
    shape = ModelSettings(encoder="rgcn", decoder="transe", widths=(8, 8), blocks=2)
    model = build_model(shape, 30, 3, 0)
    if model.bias is not None:
        torch.nn.init.zeros_(model.bias)
    folder = tmp_path / "models" / "rgcn-transe"
    folder.mkdir(parents=True)
    save_graph(graph, folder / "graph")
    save_model(folder, model, graph, TrainingSettings(), {}, finished=True)
    monkeypatch.setattr(benchmark, "FRONTS", {name: (own, some[:2]) for name, (own, some) in benchmark.FRONTS.items()})
    where = ["--models", tmp_path / "models", "--folder", tmp_path / "made", "--out", tmp_path / "out.json"]
    few = ["--only", "rgcn-transe", "--parts", "compare,fronts,speed", "--queries", "6", "--slow", "2", "--fit", "3"]
    monkeypatch.setattr(sys, "argv", ["power_link_plus.py", *map(str, where), *few, "--device", "cpu", "--everything"])
    benchmark.main()
    found = json.loads((tmp_path / "out.json").read_text())
    told = found["rgcn-transe"]
    assert [row["explainer"] for row in told["compare"]["tables"]["mask"]] == [*benchmark.LEARNED, *benchmark.FLOORS]
    assert told["compare"]["beside power-link-plus"]["mask"][0]["explainer"] == "power-link-plus"
    assert told["fronts"]["explainers"].keys() == {*benchmark.LEARNED}
    assert told["speed, cpu"]["all test facts, both directions"]["queries"] == 60
    text = page.text(found)
    assert "Beside `power-link`: better in" in text
    assert "All 60 queries" in text
    page.draw(found, tmp_path / "fronts.png")
    assert (tmp_path / "fronts.png").stat().st_size > 10_000


def test_a_planted_graph_is_trained_opened_and_explained_in_stages(tmp_path):
    arguments = ("--facts", "2e4", "--explain", "2", "--dim", "8", "--batch-size", "512", "--results", str(tmp_path))
    subprocess.run([sys.executable, ROOT / "benchmarks" / "scale.py", *arguments], check=True, capture_output=True)
    told = json.loads((tmp_path / "scale_cpu.json").read_text())
    (size,) = told["sizes"]
    assert size["build"]["facts"] > 15_000
    assert size["train"]["epoch seconds"] > 0
    assert size["train"]["test"]["queries"] == 2_000
    assert size["explain"]["explained"] == 2
    assert all(size[stage]["peak resident GiB"] > 0.1 for stage in ("build", "train", "explain"))
