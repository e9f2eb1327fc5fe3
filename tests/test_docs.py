"""What people read is true: its commands and code run, and it names all that there is and nothing that is not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
import typer

import powerlink
from powerlink import memory
from powerlink.cli import main as cli
from powerlink.cli.main import app, command
from powerlink.explainers.catalog import EXPLAINERS
from powerlink.kernels import edge_mlp
from powerlink.models import catalog
from powerlink.settings import settings_of

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README, CONTRIBUTING = ROOT / "README.md", ROOT / "CONTRIBUTING.md"
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
    if "results" not in page.relative_to(ROOT).parts  # benchmarks write those
]
RUN = [
    README,
    CONTRIBUTING,
    DOCS / "tutorial.md",
    DOCS / "reference" / "python-api.md",
    *sorted((DOCS / "how-to").glob("*.md")),
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
COMMANDS: dict[str, Any] = {name: command(name) for name in cli.COMMANDS}
TRAIN_ATLAS = "powerlink train --data atlas --encoder compgcn --decoder distmult --out models/atlas"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield Block(found[1], found[2], text[: found.start()].count("\n") + 1)


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


# What runs


def shell(commands: str, folder: Path) -> str:
    """Run commands as a reader would, in bash; `make` is only asked whether it could."""
    commands = re.sub(r"^make (\w+)$", rf"make -n -C '{ROOT}' \1", commands, flags=re.MULTILINE)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "POWERLINK"))}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "error",
        "COLUMNS": "80",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def atlas(tmp_path_factory) -> Path:
    """The model folder the pages speak of, trained once by the command they give."""
    assert TRAIN_ATLAS in README.read_text("utf-8")
    folder = tmp_path_factory.mktemp("shared")
    shell(TRAIN_ATLAS, folder)
    return folder / "models" / "atlas"


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_commands_and_code_of_a_page_run_in_their_order(page, atlas, tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "DECODERS", dict(catalog.DECODERS))  # a page adds one
    if "pykeen" in page.name:
        pytest.importorskip("pykeen", reason="PyKEEN is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "atlas").symlink_to(atlas)
    names: dict[str, Any] = {"__name__": "__main__"}
    ran = 0
    for block in blocks(page):
        if block.language in ("bash", "console"):
            shell(block.text, tmp_path)
        elif block.language == "python":
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
        else:
            continue
        ran += 1
    assert ran, f"{page} has nothing to run: take it off the list"


def test_the_tutorial_shows_what_its_commands_print(tmp_path):
    """But for the digits, which another processor may change."""

    def shape(line: str) -> str:
        return re.sub(r"\s+", " ", re.sub(r"[−+±-]?\d[\d.,]*", "#", line)).strip()

    printed: list[str] = []
    shown = 0
    for block in blocks(DOCS / "tutorial.md"):
        if block.language == "bash":
            printed = [shape(line) for line in shell(block.text, tmp_path).splitlines()]
        elif block.language == "text":
            lines = [shape(line) for line in block.text.splitlines()]
            assert [line for line in lines if line not in printed] == [], printed
            shown += len(lines)
    assert shown > 20


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_page_with_commands_or_code_is_run(page):
    languages = {block.language for block in blocks(page)}
    assert languages <= {"bash", "console", "python", "text", "json", "sh"}
    if page.name != "report-schema.md":  # its one snippet reads a file of the reader's
        assert page in RUN or not languages & {"bash", "console", "python"}


def test_a_failing_command_fails(tmp_path):
    with pytest.raises(AssertionError, match="no model folder"):
        shell("powerlink rank models/none\ntrue", tmp_path)


# The readme


def test_the_readme_begins_with_the_two_commands():
    before, first = README.read_text("utf-8").split("```bash\n", 1)
    assert first.startswith("make demo\nmake test\n```")
    assert len(before.strip().splitlines()) <= 4


def test_the_tour_shows_every_command():
    shown = "\n".join(block.text for block in blocks(README) if block.language == "bash")
    assert set(re.findall(r"^powerlink (\w+)", shown, re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize("page", [README, DOCS / "how-to" / "explain-your-own-model.md"], ids=name_of)
def test_the_own_model_shown_is_the_example(page):
    example = (ROOT / "examples" / "own_model.py").read_text("utf-8")
    (code,) = [block.text for block in blocks(page) if "class CommonNeighbours" in block.text]
    assert code.strip() in example


def test_the_own_explainer_shown_is_the_example():
    example = (ROOT / "examples" / "own_explainer.py").read_text("utf-8")
    (code,) = [b.text for b in blocks(DOCS / "how-to" / "add-an-explainer.md") if "class RareRelations" in b.text]
    start = code.index("@dataclass")
    assert code[start : code.index("\n\n\n", start)] in example


def test_what_the_readme_installs_can_be_installed():
    (install,) = [block.text for block in blocks(README) if block.language == "sh"]
    for line in install.splitlines():
        found = re.fullmatch(r"python -m pip install '?\.(?:\[(\w+)\])?'?(?:\s+#.*)?", line)
        assert found, line
        assert found[1] is None or found[1] in PROJECT["project"]["optional-dependencies"]
    for package in ("torch", "torch_geometric"):
        version = re.search(rf"\b{package} ≥ ([\d.]+)", README.read_text("utf-8"))
        assert version
        assert f"{package}>={version[1]}" in PROJECT["project"]["dependencies"]


# The references


def section(page: Path, command: str) -> str:
    parts = re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE)
    (found,) = [part for part in parts if part.splitlines()[0].split()[:2] == ["powerlink", command]]
    return found


CLI = DOCS / "reference" / "cli.md"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_cli_page_names_every_option_and_no_other(command):
    text = section(CLI, command)
    there = {option for p in COMMANDS[command].params if p.opts[0].startswith("-") for option in p.opts}
    there -= {"--help", "-h"}
    assert set(re.findall(r"`(--[a-z-]+)`", "\n".join(rows(text)))) == there
    arguments = [p.name.upper() for p in COMMANDS[command].params if not p.opts[0].startswith("-")]
    assert text.splitlines()[0].split()[2:] == arguments


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| `--")]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_cli_page_gives_the_real_defaults(command):
    derived = {}
    if command == "explain":
        kinds = (powerlink.ExplainSettings, powerlink.PowerLink)
        derived = {field.name: field.default for kind in kinds for field in fields(kind)}
    if command in ("fit", "compare"):
        derived = {field.name: field.default for field in fields(powerlink.ExplainSettings)}
    checked = 0
    for parameter in COMMANDS[command].params:
        default = derived.get(parameter.name) if parameter.default is None else parameter.default
        if default is None or isinstance(default, bool) or not parameter.opts[0].startswith("--"):
            continue
        row = next(row for row in rows(section(CLI, command)) if f"`{parameter.opts[0]}`" in row)
        assert row.split("|")[2].strip().strip("`") == str(default), row
        checked += 1
    assert checked or command in ("datasets", "presets", "explainers")


def test_the_cli_page_names_the_options_of_powerlink_itself():
    introduction = CLI.read_text("utf-8").split("\n## ")[0]
    for parameter in typer.main.get_command(app).params:
        for option in parameter.opts:
            assert f"`{option}`" in introduction


def test_the_python_page_names_every_public_name_and_no_other():
    page = DOCS / "reference" / "python-api.md"
    named = re.findall(r"^\| `(\w+)", page.read_text("utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(powerlink.__all__)
    code = "\n".join(block.text for block in blocks(page))
    for name in powerlink.__all__:
        assert re.search(rf"powerlink\.{name}\b", code), f"{name} has no example"


# Method and design


def test_the_method_names_every_status_and_every_setting():
    text = (DOCS / "method.md").read_text("utf-8")
    for status in powerlink.Status:
        assert f"| `{status.value}` |" in text
    assert all(f"`{name}`" in text or f"`{name.removeprefix('power-link')}`" in text for name in EXPLAINERS)
    own = [kind for recipe in EXPLAINERS.values() for kind in (recipe.kind, recipe.fitting) if kind]
    for kind in (powerlink.ExplainSettings, *own):
        for name in settings_of(kind):
            flag = "--" + name.replace("_", "-")
            assert re.search(rf"`{name}\b|{name} ·|{flag}\b", text), name


def test_the_files_the_pages_name_exist():
    package = ROOT / "src" / "powerlink"
    files = {path.name for path in ROOT.glob("*/**/*.py") if ".venv" not in path.parts}
    for page in (DOCS / "design.md", DOCS / "method.md", CONTRIBUTING, *(DOCS / "how-to").glob("*.md")):
        text = page.read_text("utf-8")
        for name in re.findall(r"\b([a-z_]+\.py)\b", text):
            assert name in files, f"{page.name} names {name}"
        for path in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text):
            assert (package / path).is_file() or (ROOT / path).is_file(), f"{page.name} names {path}"


def test_the_design_names_every_package_and_module():
    text = (DOCS / "design.md").read_text("utf-8")
    tree = text[text.index("    src/powerlink/") : text.index("    tests/")]
    package = ROOT / "src" / "powerlink"
    for folder in [path.parent for path in package.glob("*/__init__.py")]:
        assert f" {folder.name}/ " in tree
    for module in package.rglob("*.py"):
        if "report" in module.parts or "cli" in module.parts or module.parent.name in ("encoders", "decoders"):
            continue  # told as a group
        assert module.stem == "__init__" or re.search(rf"\b{module.stem}\b", tree), module


def test_the_layers_told_are_the_layers_kept():
    layers = [name.removeprefix("powerlink.") for name in PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]]
    text = CONTRIBUTING.read_text("utf-8")
    told = re.search(r"Imports run one way: (.*?)\. ", text, re.DOTALL)
    assert told
    assert re.findall(r"`(\w+)`", told[1]) == layers


def test_the_page_on_memory_gives_the_numbers_of_the_code():
    text = " ".join((DOCS / "how-to" / "resume-and-scale.md").read_text("utf-8").split())
    for sentence in (
        f"would fill {round(memory.EDGES_PER_BATCH * memory.BYTES_PER_EDGE / 1e9)} GB or so "
        f"({memory.EDGES_PER_BATCH:,} edges), or there are {memory.MOST_QUERIES} of them",
        f"on a GPU, {'half' if memory.SHARE_OF_A_GPU == 0.5 else ''} of its memory, or {memory.MOST_QUERIES_ON_A_GPU}.",
        f"Beyond {edge_mlp.PIECE:,} edges its scorer works through it in pieces",
        f"at most {memory.EDGES_PER_PIECE:,} edges at a time ({memory.EDGES_PER_PIECE_ON_A_GPU:,} on a GPU)",
        f"at most {'half' if memory.SHARE_OF_A_PIECE == 0.5 else ''} of the memory that is granted",
        f"up to {memory.MOST_QUERIES} queries",
    ):
        assert sentence in text


# Everything


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", prose(target), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings], link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_exist_and_no_page_speaks_of_the_machine_it_was_written_on(page):
    text = page.read_text("utf-8")
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make (\w+)`", text)) <= targets
    assert not re.search(r"/(?:work|tmp|home|root)/|\.\./shared", text)


def test_the_version_is_the_same_everywhere():
    version = PROJECT["project"]["version"]
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.search(rf"^version: {re.escape(version)}$", citation, re.MULTILINE)
    assert "10.1145/3637528.3671683" in citation
    assert "10.1145/3637528.3671683" in README.read_text("utf-8")
