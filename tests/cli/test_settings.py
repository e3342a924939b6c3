"""[tool.gradscope] of pyproject.toml, and the options that choose rules in the same way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Line

FOUND = "GS201"
"""What inspect finds in nan.json."""


def project(folder: Path, *lines: str) -> None:
    text = "\n".join(("[project]", 'name = "toy"', "", *lines, ""))
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")


def found(run: Line, *options: str) -> tuple[int, list[str], int]:
    """The exit code, what was found, and how many rules were checked."""
    ran = run("inspect", "nan.json", "--json", *options)
    report = json.loads(ran.out)
    return ran.code, [each["rule"] for each in report["findings"]], len(report["checked"])


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        (["--select", "GS2"], [FOUND]),
        (["--select", "gs201"], [FOUND]),
        (["--select", "GS4,GS5"], []),
        (["--select", "GS4,non-finite-birth"], [FOUND]),
        (["--ignore", "GS2"], []),
        (["--ignore", "GS2", "--select", "GS201"], [FOUND]),  # the longer name decides
        (["--select", "GS2", "--ignore", "GS201"], []),
        (["--select", "GS201", "--ignore", "non-finite-birth"], []),
        (["--ignore", "GS"], []),
    ],
)
def test_rules_are_chosen_by_prefix_on_the_command_line(
    run: Line, options: list[str], rules: list[str]
) -> None:
    code, named, _ = found(run, *options)

    assert named == rules
    assert code == bool(rules)


def test_a_prefix_checks_the_rules_that_begin_with_it_only(run: Line) -> None:
    ran = run("inspect", "nan.json", "--json", "--select", "GS2")
    report = json.loads(ran.out)
    named = [*report["checked"], *(each["rule"] for each in report["unchecked"])]

    assert len(named) > 1
    assert all(each.startswith("GS2") for each in named)


def test_rules_across_ranks_are_not_chosen_by_a_prefix_for_one_rank(run: Line) -> None:
    report = json.loads(run("inspect", "nan.json", "--json", "--select", "GS").out)

    assert not [each for each in report["checked"] if each.startswith("GS0")]


@pytest.mark.parametrize(
    ("settings", "options", "code", "rules"),
    [
        (['select = ["GS4"]'], [], 0, []),
        (['ignore = ["GS2"]'], [], 0, []),
        (['ignore = ["GS2"]'], ["--select", "GS201"], 1, [FOUND]),  # options begin anew
        (['select = ["GS2", "GS4"]'], ["--ignore", "GS201"], 0, []),  # or leave out more
        (['fail-on = "never"'], [], 0, [FOUND]),
        (['fail-on = ["GS4"]'], [], 0, [FOUND]),
        (['fail-on = ["GS2"]'], [], 1, [FOUND]),
        (['fail-on = ["never"]'], ["--fail-on", "error"], 1, [FOUND]),
    ],
)
def test_the_file_chooses_and_options_win(
    run: Line, tmp_path: Path, settings: list[str], options: list[str], code: int, rules: list[str]
) -> None:
    project(tmp_path, "[tool.gradscope]", *settings)

    assert found(run, *options)[:2] == (code, rules)


def test_the_nearest_file_with_settings_counts(
    run: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "package" / "inner"
    inner.mkdir(parents=True)
    project(tmp_path, "[tool.gradscope]", 'ignore = ["GS2"]')
    project(inner.parent, "[tool.other]", 'gradscope = "no table of ours"')
    monkeypatch.chdir(inner)

    assert run("inspect", "../../nan.json").code == 0
    project(inner, "[tool.gradscope]", 'fail-on = "error"')
    assert run("inspect", "../../nan.json").code == 1


def test_the_report_says_which_file_chose(run: Line, tmp_path: Path) -> None:
    project(tmp_path, "[tool.gradscope]", 'select = ["GS4"]', 'ignore = ["GS401"]')
    said = f"rules chosen by [tool.gradscope] of {tmp_path / 'pyproject.toml'}: select GS4; ignore"

    text = " ".join(run("inspect", "nan.json", "--width", "300").out.split())
    notes = json.loads(run("inspect", "nan.json", "--json").out)["notes"]

    assert said in text
    assert [each for each in notes if said in each]
    assert "rules chosen by" not in run("inspect", "nan.json", "--select", "GS2").out


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        (
            ["[tool.gradscope]", "select = [", '    "GS4",', '    "GS77",', "]"],
            7,
            "select: there is no rule 'GS77'",
        ),
        (["[tool.gradscope]", "ignore = ['graph-cutt']"], 5, "near it: GS401 (graph-cut)"),
        (["[tool.gradscope]", 'fail-on = "eror"'], 5, "fail-on takes error, warning"),
        (["[tool.gradscope]", "", 'rules = ["GS4"]'], 6, "has no setting 'rules'; choose select"),
        (["[tool.gradscope]", 'select = "GS4"'], 5, "select must be a list of strings"),
        (["[tool]", "gradscope.select = ['GS77']"], 5, "there is no rule 'GS77'"),
        (["[tool.gradscope]", "select = [GS4]"], 5, "it is not valid TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(
    run: Line, tmp_path: Path, lines: list[str], line: int, said: str
) -> None:
    project(tmp_path, *lines)
    ran = run("inspect", "nan.json")

    assert ran.code == 2
    assert f"{tmp_path / 'pyproject.toml'}:{line}: " in ran.err
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_prefix_that_fails_needs_one_rule_that_was_checked(run: Line) -> None:
    """mean.json has level engine: of GS2, only rules that need no values are checked."""
    assert run("inspect", "mean.json", "--fail-on", "GS2").code == 0
    assert run("inspect", "mean.json", "--fail-on", "GS201").code == 2
