"""Help pages: complete, in 80 columns, with examples that the command line takes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from gradscope.cli import app
from gradscope.render.terminal.terminal import Terminal
from tests.cli.conftest import Line

COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_commands_stand_in_the_order_of_work_each_with_its_whole_summary(run: Line) -> None:
    lines = [
        line.split(maxsplit=1) for line in run("-h").out.partition("Commands:\n")[2].split("\n")
    ]
    shown = dict(line for line in lines if line)

    assert list(shown)[:8] == [
        "trace", "inspect", "view", "render", "timeline", "debug", "watch", "diff",
    ]  # fmt: skip
    assert shown == {
        name: command.help.partition("\n")[0].strip() for name, command in COMMANDS.items()
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_page_fits_and_names_every_option(run: Line, name: str) -> None:
    short, long = run(name, "-h").out, run(name, "--help").out

    assert short == long
    assert max(map(len, long.splitlines())) <= 80
    for parameter in COMMANDS[name].params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            if parameter.param_type_name == "option":
                assert f"{option}" in long
                assert parameter.help, option
    assert "list[" not in long
    assert "<path>" not in long


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_command_lines_that_can_be_read(name: str) -> None:
    examples = COMMANDS[name].epilog.splitlines()

    assert examples
    for example in examples:
        program, command, *arguments = shlex.split(example)
        assert (program, command) == ("gradscope", name)
        COMMANDS[name].make_context(name, arguments)


def test_the_options_of_inspect_are_grouped(run: Line) -> None:
    page = run("inspect", "-h").out

    titles = [line for line in page.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == [
        "Arguments:",
        "Options:",
        "Output:",
        "Findings:",
        "Questions about one thing (take a name or an id):",
        "Examples:",
    ]


# What is asked for nearly right --------------------------------------------------------------


def test_explain_lists_the_rules_about_a_word(run: Line) -> None:
    nan, every = run("inspect", "--explain", "nan").out, run("inspect", "--explain", "all").out

    first, *_ = nan.splitlines()
    assert first.startswith("GS201 non-finite-birth ")
    assert nan.endswith("gradscope inspect --explain non-finite-birth shows one with an example\n")
    assert every.count("\nGS") > 5 * nan.count("\nGS")


def test_a_call_is_found_by_the_name_that_the_page_shows(run: Line) -> None:
    shown = run("inspect", "train.json", "--op", "addmm#2")
    missing = run("inspect", "train.json", "--op", "addmm#99")

    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("addmm")
    assert "no op 'addmm#99'" in missing.err


def test_a_report_that_does_not_fit_the_terminal_has_no_tables(
    run: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run("inspect", "mean.json").out
    monkeypatch.setattr(Terminal, "height", 8)
    short = run("inspect", "mean.json").out
    asked = run("inspect", "--rows", "8", "mean.json").out

    verdict = whole.splitlines()[-1]
    assert "rules checked, no problems found" in verdict
    assert "slowest lines" in whole
    assert "slowest lines" not in short
    assert short.endswith(f"for tables of times, use --rows N or --all\n{verdict}\n")
    assert asked == whole


def test_view_writes_no_picture(run: Line) -> None:
    ran = run("view", "--no-open", "-o", "x.svg", "mean.json")

    assert ran.code == 2
    assert "gradscope render -o x.svg mean.json" in ran.err
    assert not Path("x.svg").exists()


def test_a_very_large_picture_is_written_only_when_confirmed(
    run: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradscope.commands.render.LARGE", 2_000)

    asked = run("render", "--all", "mean.json")
    part = run("render", "--all", "--around", "0", "--hops", "0", "mean.json")
    confirmed = run("render", "--all", "--yes", "mean.json")

    assert asked.code == 2
    assert "the picture would have up to 5 boxes, 2.44 KiB to 5.37 KiB: add --yes" in asked.err
    assert (part.code, confirmed.code) == (0, 0)
