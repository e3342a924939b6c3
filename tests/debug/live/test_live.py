"""A program that is stopped where it is: what can be asked there, and what becomes of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

import gradscope.runtime as torch_of_ours
from gradscope.debug.live import trial
from gradscope.debug.live.api import record
from gradscope.errors import ExitCode
from gradscope.trace.load_save import load

HOUSE = Path(__file__).parents[3]
ENGINES = [
    pytest.param("gradscope", id="gradscope"),
    pytest.param("torch", id="torch", marks=pytest.mark.torch),
]
SCRIPT = """\
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2, bias=False)

    def forward(self, x):
        return self.inner(x) * 3


torch.manual_seed(0)
net = nn.Sequential(Scaled(), nn.Tanh())
with torch.no_grad():
    net[0].inner.weight.fill_(0.5)
w = torch.ones(2, requires_grad=True)
x = torch.tensor([[1.0, 2.0]])
loss = (net(x) * w).sum()
loss.backward()
with torch.no_grad():
    w -= 0.5 * w.grad
bad = torch.zeros(2, requires_grad=True)
(bad.sqrt() * 0).sum().backward()
print("ended", w.grad.tolist())
"""


def live(
    folder: Path,
    engine: str,
    *options: str,
    then: tuple[str, ...],
    script: str = SCRIPT,
    runs: str = "train.py",
) -> subprocess.CompletedProcess[str]:
    """What a script says that is stopped at these, where this is done then."""
    if engine == "torch":
        pytest.importorskip("torch")
    (folder / "train.py").write_text(script)
    typed = [word for text in then for word in ("-x", text)]
    return subprocess.run(
        [sys.executable, "-m", "gradscope", "trace", "--on", engine, *options, *typed, runs],
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        check=False,
        timeout=120,
    )


def stops(ran: subprocess.CompletedProcess[str]) -> list[str]:
    """Where it stopped."""
    said = [line.removeprefix("gradscope: ") for line in ran.stderr.splitlines()]
    return [
        line
        for line in said
        if " at train.py:" in line and "(" in line and not line.startswith(("GS", "  ", "1 child"))
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_kind_of_breakpoint_stops_where_it_says(engine: str, tmp_path: Path) -> None:
    texts = ("op tanh", "module 0.inner", "line train.py:11", "node Tanh*", "grad w if norm > 1",
             "write w", "nan", "backward nth 2")  # fmt: skip
    options = [word for text in texts for word in ("--break", text)]

    ran = live(tmp_path, engine, *options, then=("c",) * 20)

    assert "ended" in ran.stdout
    assert ran.returncode == 0
    found = [
        (line.partition(" at ")[0], line.rpartition("(")[2].rstrip(")")) for line in stops(ran)
    ]
    assert found == [
        ("linear has returned", "breakpoint 2: module 0.inner; breakpoint 3: line train.py:11"),
        ("tanh has returned", "breakpoint 1: op tanh"),
        ("AccumulateGrad has run", "breakpoint 5: grad w if norm > 1"),
        ("TanhBackward0 is about to run", "breakpoint 4: node Tanh*"),
        ("MulBackward0 is about to run", "breakpoint 3: line train.py:11"),
        ("MmBackward0 is about to run", "breakpoint 2: module 0.inner"),
        ("TBackward0 is about to run", "breakpoint 2: module 0.inner"),
        ("AccumulateGrad is about to run", "breakpoint 2: module 0.inner"),
        ("sub_ has returned", "breakpoint 6: write w"),
        ("a backward is about to begin", "breakpoint 8: backward nth 2"),
        ("SqrtBackward0 has run", "breakpoint 7: nan"),
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_tensors_are_there_in_the_frame_of_the_forward_line(
    engine: str, tmp_path: Path
) -> None:
    then = ("py gs.node.name(), gs.grads[0].shape", "py gs.saved['result'].shape", "py gs.queue",
            "py x.tolist()", "py 1 / 0", "py y = 2", "py y + 1", "replace 0 gs.grads[0] * 0",
            "c")  # fmt: skip

    ran = live(tmp_path, engine, "--break", "TanhBackward0", then=then)

    said = ran.stderr
    assert "('TanhBackward0', torch.Size([1, 2]))" in said
    assert "\ntorch.Size([1, 2])" in said
    assert "[[1.0, 2.0]]" in said
    assert "ZeroDivisionError: division by zero" in said
    assert "\n3\n" in said


def _after(ran: subprocess.CompletedProcess[str], text: str) -> str:
    return ran.stderr.partition(text)[2]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_replaced_gradient_goes_on_and_the_trace_says_so(engine: str, tmp_path: Path) -> None:
    script = SCRIPT.replace('print("ended"', 'print(net[0].inner.weight.grad.tolist(), "ended"')

    as_is = live(tmp_path, engine, "--break", "error", then=(), script=script)
    skipped = live(tmp_path, engine, "--break", "TanhBackward0", then=("skip", "c"), script=script)

    assert "gradient 0 becomes zeros when the program goes on" in skipped.stderr + skipped.stdout
    assert as_is.stdout.split(" ended")[0] != "[[0.0, 0.0], [0.0, 0.0]]"
    assert skipped.stdout.split(" ended")[0] == "[[0.0, 0.0], [0.0, 0.0]]"
    info = subprocess.run(
        [sys.executable, "-m", "gradscope", "debug", "trace.json", "-x", "goto mark 'what if'"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "gradients 0 passed to TanhBackward0 were replaced" in info.stdout


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_tried_comes_to_what_replacing_does_and_leaves_no_trace(
    engine: str, tmp_path: Path
) -> None:
    shown = "print(net[0].inner.weight.grad.norm().item(), 'ended'"
    script = SCRIPT.replace('print("ended"', shown)
    then = ("try 0 gs.grads[0] * 7", "try 0 3", "try 0 1 / 0", "c")

    tried = live(tmp_path, engine, "--break", "TanhBackward0", then=then, script=script)
    events = load(tmp_path / "trace.json").event_count
    then = ("replace 0 gs.grads[0] * 7", "c")
    replaced = live(tmp_path, engine, "--break", "TanhBackward0", then=then, script=script)

    found = re.search(r"inner\.weight: norm (\S+) becomes (\S+), largest", tried.stderr)
    assert found is not None, tried.stderr
    assert float(found[1]) == pytest.approx(float(tried.stdout.split()[0]), rel=1e-3)
    assert float(found[2]) == pytest.approx(float(replaced.stdout.split()[0]), rel=1e-3)
    assert float(found[1]) != float(found[2])
    assert "a gradient is a tensor or None, not int" in tried.stderr
    assert "error: ZeroDivisionError" in tried.stderr
    assert events == load(tmp_path / "trace.json").event_count


@pytest.mark.parametrize("engine", ENGINES)
def test_what_the_debugger_looks_at_is_not_in_the_trace(engine: str, tmp_path: Path) -> None:
    then = ("py gs.made[0] + 1", "values", "c") * 4
    looked = live(tmp_path, engine, "--break", "nan", "-o", "looked.json", then=then)
    plain = live(tmp_path, engine, "--level", "values", then=(), script=SCRIPT)

    ran = subprocess.run(
        [sys.executable, "-m", "gradscope", "diff", "trace.json", "looked.json"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "breakpoint 1: nan" in looked.stderr
    assert plain.returncode == 0
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("engine", ENGINES)
def test_a_line_is_come_to_that_calls_what_is_elsewhere(engine: str, tmp_path: Path) -> None:
    options = ("--break", "train.py:20", "--break", "train.py:21", "--break", "train.py:2")

    ran = live(tmp_path, engine, *options, then=("c",) * 9)

    assert [line.partition(" (")[0] for line in stops(ran)] == [
        "linear has returned at train.py:11",
        "a backward is about to begin at train.py:21",
        "SumBackward0 is about to run at train.py:21",
        "TanhBackward0 is about to run at train.py:21",
    ]
    assert "breakpoint 3 (train.py:2) was never reached: no operation" in ran.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gradient_of_another_shape_is_refused(engine: str, tmp_path: Path) -> None:
    then = ("replace 0 torch.zeros(7)", "c")

    ran = live(tmp_path, engine, "--break", "TanhBackward0", then=then)

    assert "gradient 0 has shape (1, 2) and torch.float32, not (7,) and torch.float32" in ran.stderr
    assert ran.returncode == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_moves_go_back_through_the_trace_and_on_through_the_program(
    engine: str, tmp_path: Path
) -> None:
    then = ("next", "back", "back 3", "c", "next", "out", "detach")

    ran = live(tmp_path, engine, "--break-in", "backward", then=then)

    assert ran.stdout.startswith("ended")
    names = [line.partition(" at ")[0] for line in ran.stderr.splitlines() if line.endswith(":21")]
    assert names[:2] == ["gradscope: SumBackward0 is about to run",
                         "gradscope: MulBackward0 is about to run"]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_the_program_ends_where_it_is_told_to_and_its_trace_is_whole(
    engine: str, tmp_path: Path
) -> None:
    for where in ("op tanh", "TanhBackward0"):
        ran = live(tmp_path, engine, "--break", where, then=("nonsense", "break no such", "quit"))

        assert ran.returncode == ExitCode.STOPPED
        assert "'nonsense' is no command" in ran.stderr
        assert "Traceback" not in ran.stderr
        assert ran.stdout == ""
        shown = subprocess.run(
            [sys.executable, "-m", "gradscope", "info", "trace.json"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert shown.returncode == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_script_that_dies_is_looked_at_where_it_did(engine: str, tmp_path: Path) -> None:
    script = (
        SCRIPT + "def dies(much):\n    h = w * much\n    return h @ torch.ones(5)\n\n\ndies(7)\n"
    )

    ran = live(tmp_path, engine, "--pm", then=("py much", "where", "c"), script=script)

    assert ran.returncode == 1
    assert "RuntimeError" in ran.stderr
    assert "the program crashed at train.py:29: RuntimeError" in ran.stderr
    assert "\n7\n" in _after(ran, "(gradscope) py much")


@pytest.mark.parametrize("engine", ENGINES)
def test_other_threads_are_stopped_and_children_are_not(engine: str, tmp_path: Path) -> None:
    script = SCRIPT + (
        "import os, threading\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    (w * 2).cos().sum().backward()\n"
        "    os._exit(0)\n"
        "print('child', os.waitpid(pid, 0)[1])\n"
        "thread = threading.Thread(target=lambda: (w * 2).cos().sin().sum().backward())\n"
        "thread.start(); thread.join()\n"
    )

    ran = live(tmp_path, engine, "--break", "op cos", "--break", "CosBackward0",
               then=("c", "quit"), script=script)  # fmt: skip

    assert "child 0" in ran.stdout
    assert [line.partition(" at ")[0] for line in stops(ran)] == [
        "cos has returned", "CosBackward0 is about to run",
    ]  # fmt: skip
    assert load(tmp_path / "trace.json").meta["exit"] == "stopped in the debugger"


HOOKED = """\
import torch

w = torch.ones(3, requires_grad=True)
h = w * 2
h.register_hook(lambda grad: print("hook"))
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(2):
    h.sum().backward(retain_graph=True)
    optimizer.zero_grad()
    w * 3
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_hooks_stop_before_they_are_called_and_acts_right_behind(
    engine: str, tmp_path: Path
) -> None:
    breaks = "--break", "hook *lambda*", "--break", "act zero_grad"

    ran = live(tmp_path, engine, *breaks, then=("c", "state") * 6, script=HOOKED)

    at = [line.partition(" (")[0] for line in stops(ran)]
    assert (
        at
        == ["<lambda> is about to be called at train.py:8", "mul has returned at train.py:10"] * 2
    )
    assert ran.stdout == "hook\nhook\n"
    assert ran.stderr.count("zero_grad") > 2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_fork_and_an_exit_while_it_stands_are_the_programs_own(
    engine: str, tmp_path: Path
) -> None:
    then = ("py import os", "py child = os.fork()", "py print('in', child == 0)", "c")
    forked = live(tmp_path, engine, "--break", "TanhBackward0", then=then)
    left = live(tmp_path, engine, "--break", "TanhBackward0", then=("py exit(3)", "c"))

    assert forked.stdout.count("ended") == 2
    assert forked.stderr.count("in False") == 1
    assert "in True" not in forked.stderr
    assert (left.returncode, left.stdout) == (3, "")
    assert load(tmp_path / "trace.json").event_count


@pytest.mark.parametrize("engine", ENGINES)
def test_what_only_the_trace_tells_stops_behind_it(engine: str, tmp_path: Path) -> None:
    script = SCRIPT + "import time\nfor _ in range(8):\n    time.sleep(0.1)\n    w * 2\n"

    ran = live(tmp_path, engine, "--break", "act zero_grad", "--break", "node if waited > 1ns",
               then=("c",) * 40, script=script)  # fmt: skip

    assert "(it was recorded before this place)" in ran.stderr
    assert ran.returncode == 0


def test_what_cannot_be_stopped_at_is_said_before_the_script_runs(tmp_path: Path) -> None:
    for options, said in (
        (("--break", "noodle Mul"), "there is no kind of breakpoint called 'noodle'"),
        (("--break", "node Mul if"), "nothing follows 'if'"),
        (("--break-in", "sideways"), "--break-in takes forward or backward"),
        (("--break", "nan", "--screen"), "--screen needs an interactive terminal"),
    ):
        ran = live(tmp_path, "gradscope", *options, then=("c",))
        assert ran.returncode == ExitCode.MISUSED
        assert said in ran.stderr
    ran = live(tmp_path, "gradscope", then=("c",))
    assert "add --break, --break-in or --pm" in ran.stderr


@pytest.mark.torch
def test_the_session_in_the_docs_is_what_a_program_gives(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    page = (HOUSE / "docs/guide/debugger.md").read_text()
    shown = re.search(r"\$ gradscope trace -q --break nan samples/\S+\n\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    asked = re.findall(r"^\(gradscope\) (.*)$", shown[1], re.MULTILINE)
    (tmp_path / "samples").mkdir()
    sample = "samples/nan_in_backward.py"
    (tmp_path / sample).write_text((HOUSE / sample).read_text())

    ran = live(tmp_path, "torch", "-q", "--break", "nan", then=tuple(asked), script="", runs=sample)

    def timeless(text: str) -> str:
        return re.sub(r"moment \d+ of \d+, at [\d.]+ m?s:", "moment … of …, at …:", text)

    assert timeless(ran.stderr) == timeless(shown[1])


def test_that_not_all_leaves_were_looked_for_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trial, "FAR", 4)
    monkeypatch.setattr(sys, "stdin", StringIO("try 0 gs.grads[0] * 2\nc\n"))
    path = tmp_path / "t.json"
    with record(path, on="gradscope", break_on="MulBackward0 nth 1"):
        w, v = (torch_of_ours.ones(2, requires_grad=True) for _ in "wv")
        (w.exp() * v).sum().backward()

    said = capsys.readouterr().err
    assert "only leaves within 4 nodes were checked; there are more nodes" in said


THREADS = """\
import threading, torch
results = {}
def work(n):
    w = torch.full((4,), n / 8).requires_grad_()
    for _ in range(6):
        h = (w * 2).tanh()
        h.register_hook(lambda grad: grad * 1.5)
        h.sum().backward()
    results[n] = w.grad.tolist()
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for thread in threads:
    thread.start()
work(9)
for thread in threads:
    thread.join()
print(sorted(results.items()))
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_several_threads_are_stopped_one_at_a_time_and_compute_the_same(
    engine: str, tmp_path: Path
) -> None:
    plain = live(tmp_path, engine, then=(), script=THREADS)
    breaks = ("--break", "hook *", "--break", "TanhBackward0")

    stopped = live(tmp_path, engine, *breaks, then=("c",) * 20, script=THREADS)

    assert plain.stdout == stopped.stdout != ""
    assert "Traceback" not in stopped.stderr
    assert len(stops(stopped)) > 20
