from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradscope
import gradscope.runtime as torch
from gradscope.callbacks.checks import Checks, problems, size_of
from gradscope.callbacks.golden import Golden
from gradscope.errors import UnknownNameError, UsageError
from gradscope.trace.trace import Trace


def recorded(program: str, level: str = "engine") -> Trace:
    recording = gradscope.record(level=level, on="gradscope")
    with recording:
        exec(compile(program, "program.py", "exec"), {"torch": torch})
    return recording.trace()


DOUBLES = """
x = torch.ones(3, requires_grad=True)
y = x.exp() * 2
y.sum().backward()
"""


def graph_of(program: str, golden: Golden, level: str = "engine") -> list[str]:
    checks = Checks.of((), {"same_graph": golden.path.name})
    return list(problems(recorded(program, level), checks, golden))


@pytest.mark.parametrize(
    ("text", "bytes"),
    [("2MB", 2_000_000), ("2 MiB", 2 << 20), ("1.5kb", 1500), ("7", 7), (4096, 4096), ("1B", 1)],
)
def test_sizes_are_read_as_people_write_them(text: str | int, bytes: int) -> None:
    assert size_of(text) == bytes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_saved": "2 parsecs"}, "max_saved expects bytes"),
        ({"nan": True}, "mark.gradscope accepts no_nan, .*; not nan"),
        ({"rules": ["nothing"]}, "there is no rule 'nothing'"),
    ],
)
def test_a_mark_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, UnknownNameError), match=message):
        Checks.of((), options)


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({}, "values"),
        ({"no_nan": True}, "values"),
        ({"max_saved": 1}, "engine"),
        ({"all_params_reached": True}, "engine"),
        ({"rules": "exception"}, "engine"),
        ({"rules": ["all"], "level": "full"}, "full"),
    ],
)
def test_the_level_is_the_lowest_that_tells(options: dict[str, Any], level: str) -> None:
    assert Checks.of((), options).lowest_level() == level


def test_gradients_that_autograd_grad_returns_reach_their_parameters() -> None:
    program = """
net = torch.nn.Linear(2, 2)
loss = net(torch.ones(1, 2)).sum()
torch.autograd.grad(loss, [net.weight])
"""
    (told,) = problems(recorded(program), Checks.of((), {"all_params_reached": True}), None)

    assert told.endswith("no backward reached 1 of 2 parameters: bias")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: "\n# moved\n" + text.replace("x.exp() * 2", "2 * torch.exp(x)"),
    ],
)
def test_lines_that_change_leave_a_graph_the_same(
    change: Callable[[str], str], tmp_path: Path
) -> None:
    path = tmp_path / "goldens" / "golden.json"

    assert graph_of(DOUBLES, Golden(path, update=True)) == []
    assert graph_of(change(DOUBLES), Golden(path), "values") == []


def test_another_graph_is_told_in_the_words_of_diff_until_it_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "golden.json"
    graph_of(DOUBLES, Golden(path, update=True))
    other = DOUBLES.replace("x.exp()", "x.exp().sin()")

    (told,) = graph_of(other, Golden(path))
    graph_of(other, Golden(path, update=True))

    assert "structure: a node that only the second has" in told
    assert "    SinBackward0 (node " in told
    assert graph_of(other, Golden(path)) == []


def test_what_is_kept_says_neither_where_nor_when(tmp_path: Path) -> None:
    path = tmp_path / "golden.json"

    assert "does not exist; to write it, run" in graph_of(DOUBLES, Golden(path))[0]
    graph_of(DOUBLES, Golden(path, update=True), "values")

    trace = gradscope.load(path)
    assert not {"host", "pid", "cwd", "clock_base"} & trace.meta.keys()
    assert not len(trace.tables["value"])
    assert os.uname().nodename not in path.read_text(encoding="utf-8")
