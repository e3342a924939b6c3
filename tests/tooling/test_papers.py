"""What the README, the Makefile, the configuration and the docs say agrees with what is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gradscope.analysis.rules import all_rules
from gradscope.errors import ExitCode
from gradscope.render.terminal.cells import UNICODE
from gradscope.render.views.report import rule_lines

HOUSE = Path(__file__).parents[2]
PAPERS = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "bench/README.md",
    "docs/index.md",
    "docs/engine/index.md",
    "docs/guide/ci.md",
]
PROJECT = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))


def text_of(name: str) -> str:
    return (HOUSE / name).read_text(encoding="utf-8")


def makefile_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", text_of("Makefile"), re.MULTILINE))


@pytest.mark.parametrize("paper", [*PAPERS, ".ci/run"])
def test_every_make_command_that_is_named_exists(paper: str) -> None:
    text = text_of(paper)
    lines = re.findall(r"`(make [a-z][^`]*)`", text) + re.findall(
        r"^(make [a-z].*)$", text, re.MULTILINE
    )
    named = {
        word
        for line in lines
        for word in re.sub(r"\w+=('[^']*'|\S+)", "", line.partition("#")[0]).split()[1:]
        if re.fullmatch(r"[a-z-]+", word)
    }

    assert named <= makefile_targets()


def test_the_two_commands_of_the_readme_are_there() -> None:
    assert {"demo", "test"} <= makefile_targets()
    assert "make demo" in text_of("README.md")
    assert "make test" in text_of("README.md")


def test_ci_runs_the_readmes_test_command_with_the_whole_engine_and_all_of_check() -> None:
    check = re.search(r"^check: ([a-z -]+?) ##", text_of("Makefile"), re.MULTILINE)
    run = text_of(".ci/run")

    assert check is not None
    test, *rest = check[1].split()
    assert test == "test"
    assert "\ncheck: ARGS = --engine all\n" in text_of("Makefile")
    assert re.search(r'^HOME=.* steadily make test ARGS="--engine all"$', run, re.MULTILINE), (
        "as a newcomer"
    )
    assert re.search(r'^    steadily make test ARGS="--engine all -m torch"$', run, re.MULTILINE), (
        "what compares with PyTorch"
    )
    assert f"make {' '.join(rest)}\n" in run


def test_ci_and_the_extra_pin_the_same_pytorch() -> None:
    assert PROJECT["project"]["optional-dependencies"]["torch"][0] == "torch==2.13.0"
    assert "tools/venv.sh dev torch" in text_of(".ci/run")


@pytest.mark.parametrize("paper", PAPERS)
def test_every_file_a_paper_links_to_exists(paper: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text_of(paper))
    missing = [link for link in links if not ((HOUSE / paper).parent / link).exists()]

    assert missing == []


def test_the_version_is_the_same_everywhere() -> None:
    package = subprocess.run(
        [sys.executable, "-c", "import gradscope; print(gradscope.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    newest = re.search(r"^## (\S+)", text_of("CHANGELOG.md"), re.MULTILINE)

    assert newest is not None
    assert {PROJECT["project"]["version"], package, newest[1]} == {package}


def test_every_ignored_lint_rule_has_its_reason_beside_it() -> None:
    section = text_of("pyproject.toml").partition("[tool.ruff.lint]")[2].partition("isort")[0]
    rules = [line for line in section.splitlines() if re.match(r'\s+"[A-Z]+\d*",', line)]

    assert rules
    assert [line for line in rules if not re.search(r"# \S", line)] == []


def test_the_page_of_a_rule_teaches_what_explain_does() -> None:
    for rule in all_rules():
        section = re.sub(r"\[(GS\d+)\]\([^)]*\)", r"\1", text_of(f"docs/rules/{rule.slug}.md"))
        shown = [each.plain for each in rule_lines(rule, 400, UNICODE)]
        assert all(line.strip() in section for line in shown), rule.slug


def test_the_reference_pages_are_what_the_code_says() -> None:
    outcome = subprocess.run(
        [sys.executable, HOUSE / "tools" / "docs" / "reference.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "")


def test_the_figures_of_the_engine_page_are_what_its_programs_do() -> None:
    outcome = subprocess.run(
        [sys.executable, HOUSE / "tools" / "docs" / "figures.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "")


@pytest.mark.parametrize("target", sorted(makefile_targets()))
def test_every_make_target_can_be_planned(target: str) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")

    outcome = subprocess.run(
        [make, "--dry-run", target],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
    )

    assert outcome.returncode == 0, outcome.stderr
    if target not in {"help", "fresh", "clean", "pythons"}:
        assert outcome.stdout.startswith("sh tools/venv.sh"), "it sets itself up first"


def test_the_docs_list_every_exit_code_that_there_is() -> None:
    listed = re.findall(r"^- (\d+): ", text_of("docs/reference/errors.md"), re.MULTILINE)
    commands = [str(file) for file in (HOUSE / "gradscope/commands").rglob("*.py")]
    spelled = re.findall(
        r"\b(?:exit|Exit|_exit)\((\d+)\)",
        "".join(text_of(name) for name in ("gradscope/cli.py", *commands)),
    )

    assert [int(code) for code in listed] == [code.value for code in ExitCode]
    assert spelled == []


def test_each_change_is_a_file_of_one_line_of_a_known_type() -> None:
    kinds = re.findall(r'^directory = "(\w+)"', text_of("pyproject.toml"), re.MULTILINE)
    files = sorted((HOUSE / "changes").glob("*.md"))

    for file in files:
        _, kind, ending = file.name.split(".")
        assert (kind in kinds, ending) == (True, "md"), file.name
        text = file.read_text(encoding="utf-8")
        assert text.count("\n") == 1, file.name
        assert text.endswith(".\n"), file.name
