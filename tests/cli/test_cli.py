"""The commands as a person meets them: what they print, where, and their exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gradscope
import gradscope.runtime as torch
from gradscope import commands
from gradscope.cli import app
from gradscope.commands import info
from gradscope.render import from_svg
from gradscope.trace.load_save import save
from gradscope.trace.schema import (
    Act,
    Error,
    Event,
    Frame,
    GraphTask,
    Node,
    NodeBegin,
    OptimizerAct,
    Push,
    Stack,
)
from gradscope.trace.trace import Trace
from tests.cli.conftest import Line
from tests.render.hostile import NAMES, named
from tests.shared.by_hand import trace_of
from tests.shared.chains import chain
from tests.shared.example_traces import mean_of_squares_program, nan_in_backward, two_layers

# The whole -----------------------------------------------------------------------------------


def test_the_version_is_that_of_the_package(run: Line) -> None:
    ran = run("--version")

    assert (ran.code, ran.out) == (0, f"gradscope {gradscope.__version__}\n")


def test_help_names_every_command(run: Line) -> None:
    ran = run("--help")

    assert ran.code == 0
    for command in ("render", "timeline", "inspect", "diff", "check", "info", "trace"):
        assert f" {command} " in ran.out


@pytest.mark.parametrize("arguments", [[], ["trace"]])
def test_without_arguments_help_is_shown(run: Line, arguments: list[str]) -> None:
    ran = run(*arguments)

    help = run(*arguments, "--help")
    assert ran.out + ran.err == help.out
    assert ran.code in {0, 2}  # as the installed Click has it


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "No such command 'nonsense'; see gradscope --help"),
        (["info"], "Missing argument 'TRACE'; see gradscope info --help"),
        (["render", "mean.json", "--hops", "many"], "Invalid value for '--hops'"),
        (["render", "mean.json", "--color", "red"], "Invalid value for '--color'"),
        (["timeline", "mean.json", "--width", "20"], "Invalid value for '--width'"),
        (
            ["render", "mean.json", "-f", "gif"],
            "there is no format 'gif'; choose chrome, dot, gexf",
        ),
        (["render", "mean.json", "--step", "3"], "this trace has no step 3: it has no steps"),
        (["render", "mean.json", "--around", "MulBackwards0"], "did you mean MulBackward0#1 … #2"),
        (["render", "mean.json", "--expand", "MulBackwards0"], "did you mean MulBackward0#1 … #2"),
        (["render", "mean.json", "--path-to", "y"], "no node, leaf, module or source line"),
        (
            ["timeline", "mean.json", "--task", "5"],
            "this trace has no backward 5: its backwards are 0 to 0",
        ),
        (["inspect", "mean.json", "--rule", "x"], "there is no rule 'x'; near it: "),
        (
            ["inspect", "--explain", "qqq"],
            "there is no rule 'qqq'; `gradscope inspect --explain all`",
        ),
        (["inspect"], "inspect needs a trace"),
        (["render", "mean.json", "--color", "grad"], "record it with --level values"),
        (["render", "mean.json", "-o", "mean.json"], "mean.json is the trace itself"),
        (["render", "mean.json", "-o", "a.gif"], "a.gif has no known extension"),
    ],
)
def test_a_command_that_makes_no_sense_is_answered_in_one_line(
    run: Line, arguments: list[str], message: str
) -> None:
    ran = run(*arguments)

    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("gradscope: error: ")
    assert message in ran.err
    assert ran.err.count("\n") == 1


COMMANDS = ("render", "timeline", "inspect", "check", "info")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_no_trace_is_answered_in_one_line(run: Line, command: str) -> None:
    Path("empty.json").write_bytes(b"")
    Path("binary.json").write_bytes(bytes(range(256)) * 40)
    Path("other.json").write_text('{"traceEvents": []}', encoding="utf-8")
    Path("directory").mkdir()

    for name in ("missing.json", "empty.json", "binary.json", "other.json", "directory", "a\nb"):
        ran = run(command, name)
        assert (ran.code, ran.out) == (3, ""), name
        assert ran.err.startswith("gradscope: error: cannot ")
        assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_every_view_shows_a_trace_whatever_its_program_names(run: Line, command: str) -> None:
    for number, name in enumerate(NAMES):
        save(named(name), f"{number}.json")
        ran = run(command, f"{number}.json", *(["-f", "dot"] if command == "render" else []))
        assert ran.code in {0, 1}, (name, ran.err)
        assert not set(ran.out + ran.err) & set("\x07\x1b\x7f\x9b\u202e"), name


def test_ctrl_c_ends_a_command_quietly(run: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(info, "load", interrupt)

    ran = run("info", "mean.json")

    assert (ran.code, ran.err) == (130, "")


def test_a_fault_of_our_own_is_one_line_with_its_place(
    run: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise TypeError("oops")

    monkeypatch.setattr(info, "load", fail)

    ran = run("info", "mean.json")

    assert ran.code == 70
    assert "a fault in gradscope: TypeError: oops (test_cli.py:" in ran.err
    assert ran.err.count("\n") == 1


# diff ----------------------------------------------------------------------------------------


def test_diff_says_whether_two_traces_are_alike_by_its_exit_code(run: Line) -> None:
    save(two_layers(steps=2), "shorter.json")

    same, other = run("diff", "train.json", "train.json"), run("diff", "train.json", "shorter.json")

    assert (same.code, same.err) == (0, "")
    assert same.out.splitlines()[-1].startswith("the same in all ")
    assert (other.code, other.err) == (1, "")
    assert "structure: a node that only the first has, in step 2\n" in other.out


def test_diff_writes_its_changes_as_json(run: Line) -> None:
    save(chain(Mul=1, Log=1, Exp=1), "one.json")
    save(chain(Mul=1, Tanh=1, Exp=1), "other.json")

    ran = run("diff", "one.json", "other.json", "--json")
    found = json.loads(ran.out)

    assert (ran.code, ran.err) == (1, "")
    assert found["differs"] is True
    assert found["changes"] == [
        {
            "kind": "replaced", "text": "Log → Tanh, net.py:2", "words": "Log → Tanh", "places": 1,
            "sites": [
                {"file": "net.py", "line": 2, "text": "x = x.log()"},
                {"file": "net.py", "line": 2, "text": "x = x.tanh()"},
            ],
            "nodes": [[1], [1]],
        }
    ]  # fmt: skip
    names = {each["aspect"]: each["differences"] for each in found["aspects"]}
    assert names["names"] == {
        "nodes have a different name": 1, "nodes are created by a line that changed": 1,
    }  # fmt: skip
    assert found["first_differences"][0]["sides"][1]["source"] == "net.py:2: x = x.tanh()"
    same = run("diff", "one.json", "one.json", "--json")
    assert (same.code, json.loads(same.out)["changes"]) == (0, [])


def rate(lr: float) -> Trace:
    """A chain and an optimizer with this learning rate."""
    optimizer = OptimizerAct(id=0, type="SGD", lr=(lr,), weight_decay=(0.0,), momentum=(0.0,))
    rows = sorted(mean_of_squares_program().rows, key=lambda row: not isinstance(row, Event))
    return trace_of(*rows, Act(id=0, kind="optimizer"), optimizer)


def test_another_setting_is_a_difference_though_the_graphs_are_the_same(run: Line) -> None:
    save(rate(0.1), "slow.json")
    save(rate(0.5), "fast.json")

    ran = run("diff", "slow.json", "fast.json")
    assert ran.code == 1
    assert "changed\n  lr 0.1 → 0.5 (SGD)\n" in ran.out
    assert ran.out.rstrip().endswith("aspects that were compared, with different settings")


def test_two_traces_make_one_page_that_compares_them(run: Line) -> None:
    save(two_layers(steps=2), "shorter.json")

    ran = run("view", "train.json", "shorter.json", "--no-open")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("wrote shorter.html: ")
    assert Path("shorter.html").stat().st_size > 100_000


def test_diff_refuses_what_cannot_be_compared_in_one_line(run: Line) -> None:
    save(trace_of(), "empty.json")
    Path("other.json").write_text('{"traceEvents": []}', encoding="utf-8")

    for name, code, said in (
        ("empty.json", 2, "the second trace has no backward, so there is nothing to compare"),
        ("other.json", 3, "cannot "),
        ("missing.json", 3, "cannot "),
    ):
        ran = run("diff", "train.json", name)
        assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
        assert ran.err.startswith(f"gradscope: error: {said}")


def test_diff_takes_tolerances(run: Line) -> None:
    ran = run("diff", "nan.json", "nan.json", "--rtol", "0.1", "--atol", "0.5", "--plain")

    assert ran.code == 0
    assert run("diff", "nan.json", "nan.json", "--rtol", "-1").code == 2


# render --------------------------------------------------------------------------------------


def test_render_draws_an_svg_beside_the_trace(run: Line) -> None:
    ran = run("render", "mean.json")

    assert (ran.code, ran.out, ran.err) == (0, "wrote mean.svg: 5 boxes\n", "")
    assert Path("mean.svg").read_bytes().startswith(b"<?xml")


def test_a_png_that_nothing_here_can_draw_is_an_error_that_leaves_an_svg(
    run: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_svg, "find_spec", lambda _: None)
    monkeypatch.setattr(from_svg.shutil, "which", lambda _: None)

    ran = run("render", "mean.json", "-o", "mean.png")

    assert (ran.code, ran.out) == (2, "")
    assert "needs the package typst (pip install typst)" in ran.err
    assert ran.err.endswith("; wrote mean.svg instead\n")
    assert Path("mean.svg").exists()


def test_render_writes_to_the_standard_output(run: Line) -> None:
    ran = run("render", "mean.json", "-f", "dot", "-o", "-")

    assert ran.code == 0
    assert ran.out.startswith("digraph")


def test_render_as_json_never_takes_the_traces_name(run: Line) -> None:
    ran = run("render", "mean.json", "-f", "json")

    assert ran.out == "wrote mean.graph.json: 5 boxes\n"
    assert json.loads(Path("mean.graph.json").read_bytes())["title"] == "ex.py · backward graph"


def test_what_a_picture_leaves_out_is_said(run: Line) -> None:
    ran = run("render", "train.json", "-f", "dot", "--group", "none", "--limit", "5")

    assert ran.code == 0
    assert ran.err == (
        "gradscope: step 0 of 3; use --step N for another one, --all for all of them\n"
        "gradscope: 6 nodes folded into 2 boxes; --expand NAME opens one, --limit N more of "
        "them, --all every one\n"
    )


def test_the_options_of_render_reach_the_picture(run: Line) -> None:
    run("render", "train.json", "-f", "json", "--around", "AddmmBackward0#3", "--hops", "1",
        "--step", "1", "--saved", "--tensors", "--merge-leaves", "--theme", "dark",
        "--color", "time", "--expand", "layers0")  # fmt: skip

    picture = json.loads(Path("train.graph.json").read_bytes())

    assert picture["title"] == "train.py · step 1 · 1 hop around AddmmBackward0#3"
    assert picture["color_by"] == "time"
    assert {box["title"] for box in picture["boxes"]} == {
        "AddmmBackward0",
        "ReluBackward0",
        "TBackward0",
        "layers0.linear.bias",
    }


def test_a_way_through_the_graph_may_be_all_that_is_drawn(run: Line) -> None:
    for arguments in (["--path-to", "layers0.linear.bias"], ["--critical", "--fold", "layers1"]):
        run("render", "train.json", "-f", "json", "--step", "0", *arguments)
        picture = json.loads(Path("train.graph.json").read_bytes())
        titles = [box["title"] for box in picture["boxes"]]
        assert titles[:3] == ["MeanBackward0", "PowBackward0", "SubBackward0"]
        assert ("layers1 · Block" in titles) == ("--fold" in arguments)
        assert "layers1.linear.bias" not in titles


def test_a_picture_that_cannot_be_written_is_an_error(run: Line) -> None:
    ran = run("render", "mean.json", "-o", "missing/a.dot")

    assert (ran.code, ran.err) == (
        2,
        "gradscope: error: cannot write missing/a.dot: No such file or directory\n",
    )


def test_a_file_that_the_command_did_not_write_is_not_replaced(run: Line, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('mine')")
    (tmp_path / "mean.html").write_text("<!doctype html><html><title>my notes</title></html>")

    for command in (
        ("view", "mean.json", "-o", "train.py", "--no-open"),
        ("render", "mean.json", "-f", "svg", "-o", "train.py"),
        ("view", "mean.json", "--no-open"),
    ):
        ran = run(*command)
        assert ran.code == 2
        assert "exists and was not written by this command; choose another name" in ran.err
    assert (tmp_path / "train.py").read_text() == "print('mine')"


@pytest.mark.parametrize("name", ["a.html", "a.svg", "a.dot", "a.pftrace", "a.graphml"])
def test_a_picture_or_page_is_replaced(run: Line, name: str) -> None:
    for trace in ("mean.json", "train.json"):
        assert run("render", trace, "-o", name).code == 0


# timeline ------------------------------------------------------------------------------------


def test_timeline_shows_the_backwards_of_a_step(run: Line) -> None:
    ran = run("timeline", "train.json", "--step", "2", "--width", "80")

    assert ran.code == 0
    assert ran.out.startswith("steps\n  step  took  forward  backward  other  nodes\n  2 ")
    assert "\n\nbackward 2 at train.py:32  loss.backward()\n13 nodes in " in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_a_plain_timeline_is_ascii(run: Line) -> None:
    assert run("timeline", "train.json", "--plain").out.isascii()


def test_a_pipe_gets_no_colours(run: Line) -> None:
    assert "\x1b" not in run("timeline", "mean.json").out


def test_timeline_lists_events(run: Line) -> None:
    ran = run("timeline", "mean.json", "--events", "--rows", "2")

    assert ran.out.splitlines()[-1] == "showing 2 of 37 events; --rows N for more"
    assert len(run("timeline", "mean.json", "--events", "--all").out.splitlines()) == 37


def test_a_trace_without_events_of_the_engine_says_which_level_has_them(run: Line) -> None:
    save(trace_of(Node(0, "A"), GraphTask(0)), "graph.json")

    ran = run("timeline", "graph.json")

    assert ran.code == 2
    assert "record it with --level engine" in ran.err


# inspect -------------------------------------------------------------------------------------


def test_inspect_exits_with_one_when_it_finds_something(run: Line) -> None:
    ran = run("inspect", "nan.json")

    assert ran.code == 1
    assert ran.err == ""
    assert "error GS201 Inf first produced in the backward of SqrtBackward0 (nan.py:5)" in ran.out


def test_inspect_exits_with_zero_when_it_finds_nothing(run: Line) -> None:
    ran = run("inspect", "mean.json")

    assert ran.code == 0
    assert re.search(r"\d+ rules checked, no problems found", ran.out)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--fail-on", "error"], 1),
        (["--fail-on", "never"], 0),
        (["--ignore", "GS201"], 0),
        (["--rule", "exception"], 0),
        (["--rule", "non-finite-birth"], 1),
        (["--fail-on", "GS201"], 1),
        (["--fail-on", "exception"], 0),
        (["--fail-on", "never", "--fail-on", "non-finite-birth"], 1),
        (["--fail-on", "nothing"], 2),
    ],
)
def test_what_counts_as_failure_can_be_chosen(run: Line, arguments: list[str], code: int) -> None:
    assert run("inspect", "nan.json", *arguments).code == code


def test_inspect_speaks_json(run: Line) -> None:
    ran = run("inspect", "nan.json", "--json")

    assert ran.code == 1
    assert [finding["severity"] for finding in json.loads(ran.out)["findings"]] == ["error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--json", "-f", "sarif"], "--json and --format sarif are two formats; choose one"),
        (["-f", "sarif", "--node", "0"], "--format sarif is for findings"),
        (["-f", "gif"], "there is no format 'gif'; choose text, json, sarif, github"),
        (["--write-known"], "--write-known needs a file: add --known findings.json"),
        (["--fail-on", "GS201"], "GS201: the rule was not checked: record with --level values"),
    ],
)
def test_inspect_says_what_it_cannot_do(run: Line, arguments: list[str], message: str) -> None:
    ran = run("inspect", "mean.json", *arguments)

    assert ran.code == 2
    assert message.replace("GS201", "non-finite-birth") in ran.err


def test_findings_that_are_known_count_no_more(run: Line) -> None:
    known = ("--known", "known.json")

    before = run("inspect", "nan.json", *known)
    written = run("inspect", "nan.json", *known, "--write-known")
    after = run("inspect", "nan.json", *known)
    other = run("inspect", "train.json", *known)

    assert (before.code, written.code, after.code) == (2, 0, 0)
    assert "checked, no new problems found" in after.out
    assert "1 known finding left out" in after.out
    assert "1 known finding was not found; --write-known forgets" in other.out


def test_annotations_name_files_from_the_root_of_the_workspace(
    run: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Frame(0, "train.py", 5, "<module>", "loss.backward()")
    raised = Error(type="ValueError", message="100% bad:\nno", task=0)
    rows = (line, Stack(0, 0), GraphTask(0, stack=0), raised)
    save(trace_of(*rows, meta={"cwd": "/ci/repo/jobs"}), "job.json")
    monkeypatch.setenv("GITHUB_WORKSPACE", "/ci/repo")

    ran = run("inspect", "job.json", "--format", "github")
    sarif = json.loads(run("inspect", "job.json", "--format", "sarif").out)

    assert ran.code == 1
    assert ran.out.startswith("::error file=jobs/train.py,line=5,title=GS301 exception::")
    assert "100%25 bad:" in ran.out
    (result,) = sarif["runs"][0]["results"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "jobs/train.py"


def test_inspect_shows_all_there_is_about_one_thing(run: Line) -> None:
    node = run("inspect", "mean.json", "--node", "AddBackward0", "--width", "100")
    op = run("inspect", "mean.json", "--op", "0")
    tensor = run("inspect", "mean.json", "--tensor", "x", "--json")

    assert (node.code, op.code, tensor.code) == (0, 0, 0)
    assert node.out.startswith("AddBackward0 (node 0)\n")
    assert "backward 0: ran 4th" in node.out
    assert op.out.startswith("add.Tensor (op 0)\n")
    assert json.loads(tensor.out)["answer"] == "x [2, 2] float32 (tensor 0)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--node", "77"], "no node has the id 77: the nodes of this trace are 0 to 4"),
        (["--tensor", "77"], "this trace has no tensor '77': its tensors have the ids 0 to 4"),
        (["--op", "77"], "this trace has no op '77': its ops have the ids 0 to 3"),
        (
            ["--op", "1", "--node", "1"],
            "one question at a time; choose one of --node, --tensor, --op, --why-none",
        ),
    ],
)
def test_a_wrong_id_is_answered_with_what_there_is(
    run: Line, arguments: list[str], message: str
) -> None:
    ran = run("inspect", "mean.json", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


ACROSS_RANKS = {"audit", "merge"}
"""Commands in `across_ranks.py`; each other one has a file of its own name."""


def test_every_command_has_its_file(run: Line) -> None:
    folder = Path(str(commands.__path__[0]))
    files = {file for file in folder.rglob("*.py") if file.parent.name not in ("options", "laws")}
    files = {file for file in files if file.stem != "__init__"}

    assert {command.callback.__module__ for command in app.registered_commands} == {
        ".".join(["gradscope.commands", *file.relative_to(folder).with_suffix("").parts])
        for file in files
    }
    names = {command.callback.__name__ for command in app.registered_commands}
    assert names - ACROSS_RANKS == {file.stem for file in files} - {"across_ranks"}
    assert names >= ACROSS_RANKS
    assert all(f" {name} " in run("--help").out for name in names)


def test_inspect_explains_a_rule_without_a_trace(run: Line) -> None:
    ran = run("inspect", "--explain", "non-finite-birth")

    assert ran.code == 0
    assert ran.out.startswith("GS201 non-finite-birth\n")


# check and info ------------------------------------------------------------------------------


def test_check_finds_nothing_in_a_true_trace(run: Line) -> None:
    ran = run("check", "mean.json")

    assert (ran.code, ran.out) == (0, "the trace follows all rules of the trace format\n")


def test_check_names_what_cannot_be(run: Line) -> None:
    save(trace_of(Node(0, "A"), Push(node=7, task=0), NodeBegin(node=0, task=0)), "false.json")

    ran = run("check", "false.json")

    assert ran.code == 1
    assert "violation" in ran.out.splitlines()[-1]


def test_info_says_what_a_file_holds(run: Line) -> None:
    ran = run("info", "mean.json")

    assert ran.code == 0
    assert "producer  gradscope 0.1.0\n" in ran.out
    assert "  node_begin       5\n" in ran.out


# In a process of its own ---------------------------------------------------------------------


def started(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gradscope", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["render", "--help"],
        ["render", "recorded.json", "-f", "dot", "--hops", "1", "--color", "time", "--limit", "9"],
        ["timeline", "recorded.json"],
        ["inspect", "recorded.json"],
        ["check", "recorded.json"],
        ["info", "recorded.json"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_view_loads_the_runtime_the_recorder_numba_or_pytorch(
    run: Line, arguments: list[str]
) -> None:
    assert isinstance(run, Line)
    x = torch.ones(2, requires_grad=True)
    with gradscope.record("recorded.json"):
        (x * x).mean().backward()
    program = (
        "import sys; from gradscope import cli\n"
        f"code = cli._run({arguments!r})\n"
        "rooms = {'gradscope.runtime', 'gradscope.record', 'gradscope.watch'}\n"
        "heavy = {'torch', 'numba', 'llvmlite', 'networkx', 'scipy', 'pandas'}\n"
        "heavy |= {'pydantic', 'numpy.ma'}\n"
        "loaded = sorted((rooms | heavy) & set(sys.modules))\n"
        "print(code, loaded, file=sys.stderr)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stderr.splitlines()[-1] == "0 []"


def test_a_reader_that_leaves_early_is_no_error(run: Line) -> None:
    assert isinstance(run, Line)
    process = subprocess.Popen(
        [sys.executable, "-m", "gradscope", "timeline", "train.json", "--events", "--all"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stdout
    assert process.stderr
    process.stdout.readline()
    process.stdout.close()

    assert process.wait(timeout=60) in {0, 141}
    assert process.stderr.read() == ""
    process.stderr.close()


def test_colours_are_for_terminals_and_can_be_forbidden(run: Line) -> None:
    assert isinstance(run, Line)
    coloured = started("timeline", "mean.json", FORCE_COLOR="1", COLORTERM="truecolor")
    forbidden = started(
        "timeline", "mean.json", FORCE_COLOR="1", NO_COLOR="1", COLORTERM="truecolor"
    )

    assert "\x1b[38;2;" in coloured.stdout
    assert "38;2;" not in forbidden.stdout


def test_where_blocks_cannot_be_printed_plain_characters_are(run: Line) -> None:
    assert isinstance(run, Line)

    done = started("timeline", "mean.json", PYTHONIOENCODING="ascii")

    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "#" in done.stdout


def test_the_module_runs_as_the_command_does(run: Line) -> None:
    assert isinstance(run, Line)

    assert started("--version").stdout == f"gradscope {gradscope.__version__}\n"


# The tool's own API --------------------------------------------------------------------------


def test_the_api_loads_inspects_and_renders(run: Line) -> None:
    assert isinstance(run, Line)
    trace = gradscope.load("nan.json")

    assert trace == nan_in_backward()
    assert [finding.rule for finding in gradscope.inspect(trace).findings] == ["GS201"]
    assert gradscope.render(trace, "nan.dot").path == Path("nan.dot")


def test_a_room_that_is_called_like_a_function_is_both() -> None:
    from gradscope.render.text import visible

    assert gradscope.render.text.visible is visible
    assert callable(gradscope.render)


def test_what_the_package_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'gradscope' has no attribute 'nonsense'"):
        gradscope.nonsense  # noqa: B018

    assert {"inspect", "load", "record", "render"} <= set(dir(gradscope))


def test_warmup_says_how_long_it_took_and_where_the_kernels_are(
    run: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradscope.runtime.fast.compiling import warmup

    done = warmup.Warmed(compiled=3, there=2, seconds=1.25, folder=Path("kernels"))
    monkeypatch.setattr(warmup, "warm_up", lambda _: done)

    ran = run("warmup")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "compiled 3 kernels in 1.2 s, 2 were already compiled\nkept in kernels\n"
