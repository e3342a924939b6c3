"""`gradscope law`: two runs of a program, the first difference, and what it follows from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from gradscope.commands.debugging.laws.held import EVERY, Held
from tests.cli.conftest import Line, Ran

PROGRAM = """\
import {module}
import torch

torch.manual_seed(0)
weight = torch.ones(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(2):
    x = torch.tensor([{value} for _ in range(4)])
    optimizer.zero_grad()
    (weight * x).square().sum().backward()
    optimizer.step()
"""


def write(module: str, value: str) -> None:
    Path("train.py").write_text(PROGRAM.format(module=module, value=value), encoding="utf-8")


def law(run: Line, *options: str) -> tuple[int, str]:
    ran = run("law", "--on", "gradscope", "--json", *options, "determinism", "train.py")
    return ran.code, ran.out


@pytest.mark.slow
def test_a_program_that_does_the_same_each_time_has_no_difference(run: Line) -> None:
    write("math", "math.pi")

    code, out = law(run)

    assert code == 0
    assert "no difference in 2 steps" in out
    found = orjson.loads(out)
    assert "not compared" in str(found)


@pytest.mark.slow
def test_random_numbers_that_nobody_seeded_are_the_cause_with_their_line(run: Line) -> None:
    write("random", "random.random()")

    code, out = law(run)

    assert code == 1
    assert "two runs differ, first in the value of x" in out
    assert "random numbers of Python" in out
    assert "random.random at train.py:8" in out


def test_an_unknown_law_and_an_option_after_the_law_are_refused(run: Line) -> None:
    unknown = run("law", "gravity", "train.py")
    late = run("law", "determinism", "--no-cause", "train.py")

    assert (unknown.code, late.code) == (2, 2)
    assert "unknown law 'gravity'" in unknown.err
    assert "options go before the law" in late.err


def test_traces_are_compared_by_the_same_law(run: Line) -> None:
    same = run("diff", "--law", "determinism", "train.json", "train.json")
    other = run("diff", "--law", "determinism", "train.json", "mean.json")

    assert (same.code, other.code) == (0, 1)
    assert "two runs differ, first in" in other.out


PARTS = """\
import sys
import torch

torch.manual_seed(0)
layer = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
x, number = torch.randn(8, 4), int(sys.argv[1])
for part in x.chunk(number):
    (layer(part).square().mean() / float(sys.argv[2])).backward()
optimizer.step()
"""


@pytest.mark.slow
def test_runs_with_further_arguments_show_gradients_of_parts(run: Line) -> None:
    Path("train.py").write_text(PARTS, encoding="utf-8")

    def accumulate(parts: str) -> Ran:
        said = "law", "--on", "gradscope", "--whole", "1 1", "--parts", parts
        return run(*said, "accumulate", "train.py")

    divided, added = accumulate("4 4"), accumulate("4 1")
    failed = accumulate("none 1")

    assert (divided.code, added.code) == (0, 1)
    assert "same gradients as whole batches, in 1 step" in divided.out
    assert "the gradients of the parts are 4 times those of the whole batch" in added.out
    assert failed.code == 2
    assert "ValueError" in failed.err


RESUMED = """\
import sys
import torch

begin, end, lost = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.manual_seed(0)
layer = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
if begin:
    state = torch.load("half.pt")
    layer.load_state_dict(state["layer"])
    if lost != "optimizer":
        optimizer.load_state_dict(state["optimizer"])
for step in range(begin, end):
    optimizer.zero_grad()
    layer(torch.full((8, 4), step + 1.0)).square().mean().backward()
    optimizer.step()
torch.save({"layer": layer.state_dict(), "optimizer": optimizer.state_dict()}, "half.pt")
"""


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["", "optimizer"])
def test_a_program_is_run_whole_then_stopped_and_resumed(run: Line, lost: str) -> None:
    Path("train.py").write_text(RESUMED, encoding="utf-8")

    said = "--whole", "0 4 ''", "--save", "0 2 ''", "--resume", f"2 4 '{lost}'"
    ran = run("law", "--on", "gradscope", *said, "resume", "train.py")

    assert ran.code == bool(lost)
    named = "not restored: optimizer state" if lost else "does what the whole run did, in 2 steps"
    assert named in ran.out


def test_a_law_without_the_arguments_of_its_runs_is_refused(run: Line) -> None:
    ran = run("law", "--whole", "", "accumulate", "train.py")

    assert ran.code == 2
    assert "--parts is missing" in ran.err


def test_gradients_of_two_traces_are_compared(run: Line) -> None:
    ran = run("diff", "--law", "accumulate", "train.json", "train.json")

    assert ran.code == 0
    assert "no gradient was recorded" in ran.out


SHOWN = {
    "random": "import random, os, uuid, numpy as np; "
    "print(random.random(), os.urandom(4), uuid.uuid4(), np.random.rand(), "
    "np.random.default_rng().random(), random.SystemRandom().random())",
    "hash": "print(hash('a'), list({'a', 'b', 'c'}))",
    "time": "import time, datetime; print(time.time(), datetime.datetime.now())",
    "addresses": "print(id(object()), hash(object()))",
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_held_is_the_same_in_two_processes(name: str) -> None:
    held = next(each for each in EVERY if each.name == name)
    if not held.works:
        pytest.skip("this system cannot hold it")

    printed = [printed_by(SHOWN[name], held) for _ in range(2)]
    free = [printed_by(SHOWN[name], None) for _ in range(2)]

    assert printed[0] == printed[1]
    assert free[0] != free[1]


def printed_by(program: str, held: Held | None) -> str:
    begin = (
        "from gradscope.commands.debugging.laws.held import EVERY; "
        f"held = next(each for each in EVERY if each.name == {held.name!r}); "
        "held.begin and held.begin(lambda what: None); "
        if held is not None and held.begin is not None
        else ""
    )
    variables = dict(held.variables) if held is not None else {}
    return subprocess.run(
        [sys.executable, "-c", begin + program],
        env={"PYTHONPATH": ":".join(filter(None, sys.path)), **variables},
        preexec_fn=None if held is None else held.prepare,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
