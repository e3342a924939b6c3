"""`--stop-on`: where a script ends, what it still does, and what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradscope.commands.options.stop_on import Waited
from gradscope.debug.live import ends as live_ends
from gradscope.debug.live.ends import StopOnFinding
from tests.record.running import House, Ran

ENGINES = pytest.mark.parametrize(
    "engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)]
)
TRAINING = """
import atexit, sys, torch
atexit.register(print, "at exit")
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
try:
    for step in range(100):
        optimizer.zero_grad()
        x = torch.ones(8, 4) * (step != 3)
        loss = (net(x) - net.bias).norm(dim=1).sqrt().mean()
        loss.backward()
        done = step
        optimizer.step()
finally:
    print("finally", done)
"""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def run(house: House, *arguments: str, engine: str = "gradscope") -> Ran:
    return house.gradscope("trace", "--on", engine, *arguments, "script.py")


@ENGINES
def test_a_script_ends_at_the_first_birth_with_its_line(house: House, engine: str) -> None:
    house.write(TRAINING)

    ran = run(house, "--stop-on", "nan", engine=engine)

    assert (ran.code, ran.out) == (4, "finally 2\nat exit\n")
    first, second, third, *more = ran.err.splitlines()
    assert first == "gradscope: recording at level values, which --stop-on nan needs"
    assert second == "gradscope: --stop-on nan found:"
    assert third.startswith("error GS201 Inf first produced in the backward of SqrtBackward0")
    assert "    script.py:10 (step 3): loss = (net(x) - net.bias).norm(dim=1).sqrt().mean()" in more
    assert "NaN (produced from an Inf) in the backward of LinalgVectorNorm" in " ".join(
        ran.err.split()
    )
    assert "Traceback" not in ran.err
    assert house.recorded().meta["exit"] == "stopped by --stop-on"
    assert house.violations() == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--stop-on", "inf"], 4),
        (["--stop-on", "rule:non-finite-birth", "-q"], 4),
        (["--stop-on", "rule:exception", "--stop-on", "nan", "--level", "full"], 4),
        (["--stop-on", "rule:exception"], 0),
    ],
)
def test_what_a_script_is_ended_for_can_be_chosen(
    house: House, arguments: list[str], code: int
) -> None:
    house.write(TRAINING)

    ran = run(house, *arguments)

    assert ran.code == code
    assert ("found:" in ran.err) == (code == 4)


def test_infs_of_masks_end_no_script(house: House) -> None:
    house.write("""
import torch
scores = torch.ones(3, requires_grad=True)
for _ in range(50):
    masked = scores.masked_fill(torch.tensor([True, False, False]), float("-inf"))
    (masked + torch.tensor([0, float("-inf"), 0])).softmax(0).pow(2).sum().backward()
print("done")
""")

    ran = run(house, "--stop-on", "nan", "--stop-on", "inf")

    assert (ran.code, ran.out) == (0, "done\n")


LATE = """
import torch
net = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
mask = torch.full((16, 16), float("-inf")).triu(1)
try:
    for step in range(200):
        optimizer.zero_grad()
        x = torch.ones(8, 16, 16)
        for _ in range(12):
            x = ((x @ net(x).transpose(1, 2)) * 0.1 + mask).softmax(-1) @ x
        loss = x.square().mean()
        loss = loss + (loss * 0).log() * 0 if step == 90 else loss
        loss.backward()
        done = step
        optimizer.step()
finally:
    print("finally", done)
"""


@ENGINES
def test_a_nan_is_found_at_once_among_the_infs_of_masks(house: House, engine: str) -> None:
    house.write(LATE)

    ran = run(house, "--stop-on", "nan", engine=engine)

    assert (ran.code, ran.out) == (4, "finally 89\n")


def test_a_script_without_a_backward_ends_too(house: House) -> None:
    house.write("""
import time, torch
x = torch.zeros(3)
(x / x).sum()
for _ in range(100):
    time.sleep(0.1)
print("not reached")
""")

    ran = run(house, "--stop-on", "nan", "-q")

    assert (ran.code, ran.out) == (4, "")
    assert "NaN first produced in the forward call div (script.py:4)" in ran.err


def test_what_comes_last_is_found_when_the_script_has_ended(house: House) -> None:
    house.write("import torch\nx = torch.zeros(3)\n(x / x).sum()\nprint('done')")

    ran = run(house, "--stop-on", "nan", "-q")

    assert (ran.code, ran.out) == (4, "done\n")
    assert "script.py:3: (x / x).sum()" in ran.err


@pytest.mark.parametrize("traced", ["", "sys.settrace(lambda *_: None)"])
def test_a_script_that_catches_it_goes_on_and_that_is_said(house: House, traced: str) -> None:
    """With a trace function of its own it is ended by a signal."""
    house.write(f"""
import sys, time, torch
x = torch.zeros(3, requires_grad=True)
{traced}
try:
    for _ in range(200):
        x.sqrt().sum().backward()
        time.sleep(0.01)
except BaseException as error:
    print(type(error).__mro__[1].__name__)
sys.exit(7)
""")

    ran = run(house, "--stop-on", "inf", "-q")

    assert (ran.code, ran.out) == (7, "SystemExit\n")
    assert "--stop-on inf found; the script went on and ended with 7:" in ran.err


def test_where_one_is_asked_and_where_it_just_ends_go_together(house: House) -> None:
    house.write(TRAINING)

    ran = run(house, "--break", "line script.py:13 nth 2", "-x", "py step", "--stop-on", "nan")

    assert ran.code == 4, ran.err
    assert "(gradscope) py step" in ran.err
    assert "going on without stopping" in ran.err
    assert "--stop-on nan found" in ran.err


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("zero", "--stop-on takes nan, inf or rule:SLUG, not 'zero'"),
        ("rule:zero", "there is no rule 'zero'; near it: "),
    ],
)
def test_what_cannot_be_waited_for_is_refused(house: House, what: str, message: str) -> None:
    house.write("print('not run')")

    ran = run(house, "--stop-on", what)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


class Fake:
    """A recording and its session, in which `bad` tensors had NaN, and `infinite` ones Inf."""

    def __init__(self) -> None:
        self.bad = self.infinite = 0
        self.looks = 0
        self.session: Any = self
        self.task_ended: Any = lambda: None
        self.not_finite = lambda: (self.bad + self.infinite, self.bad)

    def events(self) -> int:
        return 10_000

    def as_if_over(self) -> Any:
        self.looks += 1
        return self


def test_nothing_is_looked_through_before_something_was_not_finite() -> None:
    fake, stopped = Fake(), []
    ends = StopOnFinding(lambda trace: True, "inf")
    ends.watch(fake, lambda: stopped.append(fake.bad))

    for fake.bad in (0, 0, 5, 6):
        fake.task_ended()

    assert not ends.off_duty()
    assert (fake.looks, stopped, ends.found) == (1, [5], True)


def test_looks_that_find_nothing_take_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, now = Fake(), [0.0]
    monkeypatch.setattr(live_ends, "perf_counter", lambda: now[0])

    def judge(trace: Any) -> bool:
        now[0] += 0.3
        return False

    ends = StopOnFinding(judge)
    ends.watch(fake, lambda: None)
    for _ in range(100):
        now[0] += 0.1
        fake.task_ended()

    assert 0.3 * (fake.looks - 1) <= 0.5 + 0.1 * now[0]  # the first one also imports
    assert fake.looks > 4
    ends.off_duty()


def test_a_slow_first_look_does_not_delay_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, now, costs = Fake(), [0.0], [20.0, *[0.01] * 1_000]
    monkeypatch.setattr(live_ends, "perf_counter", lambda: now[0])

    def judge(trace: Any) -> bool:
        now[0] += costs[fake.looks - 1]
        return False

    ends = StopOnFinding(judge)
    ends.watch(fake, lambda: None)
    for _ in range(50):
        now[0] += 1.0
        fake.task_ended()

    assert fake.looks > 40
    ends.off_duty()


def test_infs_are_no_hint_of_a_nan_and_a_nan_is_looked_at_whatever_that_costs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake, now = Fake(), [0.0]
    monkeypatch.setattr(live_ends, "perf_counter", lambda: now[0])

    def judge(trace: Any) -> bool:
        now[0] += 100.0
        return False

    ends = StopOnFinding(judge, "nan")
    ends.watch(fake, lambda: None)
    for fake.infinite in range(50):
        fake.task_ended()
    assert fake.looks == 0
    for fake.bad in (1, 2, 3, 4, 5, 6, 7):
        fake.task_ended()
    assert fake.looks == 3  # at 1, 3 and 7: a few may be harmless
    fake.bad = 1_000
    fake.task_ended()
    assert fake.looks == 4
    ends.off_duty()


@pytest.mark.parametrize(
    ("names", "hint"),
    [(["nan"], "nan"), (["nan", "inf"], "inf"), (["nan", "rule:graph-kept"], "")],
)
def test_what_hints_at_what_is_waited_for(names: list[str], hint: str) -> None:
    assert Waited(names).ends()._hint == hint


def test_a_fault_of_ours_is_said_once_and_ends_the_looking(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = Fake()
    ends = StopOnFinding(lambda trace: {}["rule"])
    ends.watch(fake, lambda: None)

    fake.task_ended()
    fake.task_ended()
    ends.off_duty()

    assert fake.looks == 1
    assert capsys.readouterr().err == (
        "gradscope: --stop-on was disabled by an internal error: KeyError('rule')\n"
    )
