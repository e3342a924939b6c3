"""However a recorded script ends, what was recorded can be read, and keeps every rule."""

from __future__ import annotations

import signal
import subprocess
import time

import pytest

from gradscope.trace.schema import Error, GraphTask, Mark, NodeBegin, Span, Step, Thread
from tests.record.running import GRADSCOPE, LONG, House, Ran

TRAINS = """
import torch
weight = torch.ones(8, 8, requires_grad=True)
hooked = [0]
def hook(grad):
    hooked[0] += 1
    return grad * 1.0
print("ready", flush=True)
while True:
    x = weight
    for i in range(30):
        x = (x * 0.9 + weight).tanh()
        if i % 10 == 0:
            x.register_hook(hook)
    x.sum().backward(retain_graph=True)
    (gradient,) = torch.autograd.grad(x.mean(), weight, create_graph=True)
    gradient.sum().backward()
    with torch.no_grad():
        weight -= 0.01 * weight.grad
        weight.grad = None
"""

MOMENTS = (0.0, 0.007, 0.05, 0.13, 0.31)


def started(house: House, *options: str, script: str = TRAINS) -> subprocess.Popen[str]:
    """`gradscope trace` in the middle of the script."""
    house.write(script)
    process = house.start(GRADSCOPE, "trace", "-q", *options, "script.py")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def signalled(house: House, number: signal.Signals, after: float, *options: str) -> Ran:
    process = started(house, *options)
    time.sleep(after)
    process.send_signal(number)
    out, err = process.communicate(timeout=LONG)
    return Ran(process.returncode, out, err)


# Killed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", MOMENTS)
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_killed_anywhere_every_whole_window_is_recovered(
    house: House, name: str, after: float
) -> None:
    ran = signalled(house, signal.SIGKILL, after, "-o", name)

    trace = house.recorded(name)
    assert ran.code == -signal.SIGKILL
    assert trace.truncated
    assert trace.notes[0].startswith(f"truncated: {trace.event_count} events recovered, ")
    assert trace.meta["script"] == "script.py"
    assert house.violations(name) == []


def test_of_a_killed_recording_the_tool_says_what_was_lost(house: House) -> None:
    signalled(house, signal.SIGKILL, 0.5)
    lost = house.recorded().notes[0]

    info = house.gradscope("info", "--plain", "trace.json")
    checked = house.gradscope("check", "--plain", "trace.json")
    inspected = house.gradscope("inspect", "--plain", "trace.json")

    assert f"note {lost}" in " ".join(info.out.split())
    assert checked == Ran(0, "the trace follows all rules of the trace format\n", "")
    assert f"The trace is incomplete: {lost}" in " ".join(inspected.out.split())


@pytest.mark.slow
def test_of_a_slow_script_no_more_than_a_second_is_lost(house: House) -> None:
    process = started(
        house,
        script="import time, torch\nx = torch.ones(1, requires_grad=True)\n"
        "print('ready', flush=True)\nwhile True:\n    (x * 2).backward()\n    time.sleep(0.1)\n",
    )
    time.sleep(3)
    process.kill()
    process.communicate(timeout=LONG)

    assert len(house.recorded().table(GraphTask)) >= 15
    assert house.violations() == []


@pytest.mark.parametrize(
    ("number", "after"),
    [(signal.SIGHUP, 0.1), *((signal.SIGTERM, moment) for moment in MOMENTS)],
)
def test_asked_to_terminate_the_trace_is_finished_first(
    house: House, number: signal.Signals, after: float
) -> None:
    ran = signalled(house, number, after)

    trace = house.recorded()
    assert ran == Ran(-number, "", "")
    assert trace.notes == ()
    assert (trace.meta["exit"], trace.meta["exit_code"]) == (
        f"terminated by {number.name}",
        128 + number,
    )
    assert house.violations() == []


WAITS = """
import ctypes
import torch
torch.ones(2, requires_grad=True).sum().backward()
lock = ctypes.CDLL(None).pthread_mutex_lock
mutex = ctypes.create_string_buffer(64)
lock(mutex)
print("ready", flush=True)
lock(mutex)
"""


def test_a_program_can_be_terminated_in_a_wait_without_end(house: House) -> None:
    """As in a call that waits for another rank: Python's handlers never run again."""
    process = started(house, script=WAITS)
    process.send_signal(signal.SIGTERM)

    assert process.wait(LONG) == -signal.SIGTERM
    assert house.recorded().meta["exit"] == "terminated by SIGTERM"
    assert len(house.recorded().table(GraphTask)) == 1
    assert house.violations() == []


def test_timers_that_a_program_leaves_running_do_not_end_its_trace(house: House) -> None:
    """They end with the program, which has no handler for them any more when it is over."""
    house.write("""
import signal, torch
def handler(number, frame):
    raise TimeoutError
signal.signal(signal.SIGVTALRM, handler)
signal.signal(signal.SIGALRM, signal.SIG_IGN)
torch.ones(2, requires_grad=True).sum().backward()
signal.setitimer(signal.ITIMER_VIRTUAL, 0.002, 0.002)
raise SystemExit(3)
""")

    ran = house.trace("script.py")

    assert ran == Ran(3, "", "")
    assert house.recorded().meta["exit"] == "exit code 3"
    assert house.violations() == []


# Interrupted ---------------------------------------------------------------------------------


@pytest.mark.parametrize("after", MOMENTS)
def test_ctrl_c_at_any_moment_leaves_a_whole_trace(house: House, after: float) -> None:
    ran = signalled(house, signal.SIGINT, after)

    trace = house.recorded()
    lines = ran.err.splitlines()
    assert (ran.code, lines[0], lines[-1]) == (
        -signal.SIGINT,
        "Traceback (most recent call last):",
        "KeyboardInterrupt",
    )
    assert "gradscope" not in ran.err
    assert f'File "{house.folder}/script.py", line' in lines[1]
    assert trace.notes == ()
    assert trace.meta["exit"] == "interrupted (KeyboardInterrupt)"
    assert house.violations() == []


@pytest.mark.parametrize("after", [0.1, 0.3])
def test_ctrl_c_interrupts_a_long_backward(house: House, after: float) -> None:
    script = """
import torch
x = torch.eye(250, requires_grad=True)
y = x
for i in range(3000):
    y = y @ x
print("ready", flush=True)
y.sum().backward()
print("never")
"""
    process = started(house, script=script)
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LONG)

    trace = house.recorded()
    assert (process.returncode, out) == (-signal.SIGINT, "")
    said = [line for line in err.splitlines() if set(line) - set(" ~^")]  # newer Pythons underline
    assert said[-3:] == [
        f'  File "{house.folder}/script.py", line 8, in <module>',
        "    y.sum().backward()",
        "KeyboardInterrupt",
    ]
    assert [task.error for task in trace.rows(GraphTask)] == ["KeyboardInterrupt"]
    assert 0 < len(trace.table(NodeBegin)) < 3000
    assert house.violations() == []


def test_ctrl_c_interrupts_what_a_hook_waits_for(house: House) -> None:
    script = """
import time, torch
x = torch.ones(4, requires_grad=True)
y = x * 2
def hook(grad):
    print("ready", flush=True)
    time.sleep(60)
y.register_hook(hook)
try:
    y.sum().backward()
except KeyboardInterrupt:
    print("caught")
(x * 2).sum().backward()
"""
    process = started(house, script=script)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=5)

    tasks = [task.error for task in house.recorded().rows(GraphTask)]
    assert (process.returncode, out, err) == (0, "caught\n", "")
    assert tasks == ["KeyboardInterrupt", ""]
    assert house.violations() == []


def test_a_script_may_handle_its_signals_itself(house: House) -> None:
    script = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(17))
print("ready", flush=True)
for _ in range(600): time.sleep(0.1)  # Python 3.14 may miss that a signal came before the sleep
"""
    process = started(house, script=script)
    process.terminate()
    process.communicate(timeout=LONG)

    assert process.returncode == 17
    assert house.recorded().meta["exit"] == "exit code 17"


# Raised in the middle ------------------------------------------------------------------------

INSIDE = """
import sys, torch
class Breaks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, grad): {in_function}
def hook(grad): {in_hook}
x = torch.ones(3, requires_grad=True)
y = Breaks.apply(x * 3)
y.register_hook(hook)
y.sum().backward()
"""


@pytest.mark.parametrize("place", ["in_function", "in_hook"])
@pytest.mark.parametrize(
    ("statement", "code", "error", "last"),
    [
        ("raise ValueError('no')", 1, "ValueError: no", "ValueError: no"),
        ("sys.exit(4)", 4, "SystemExit: 4", ""),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt", "KeyboardInterrupt"),
        ("return [1]()", 1, "TypeError: 'list' object is not callable", None),
    ],
)
def test_what_is_raised_inside_a_backward(
    house: House, place: str, statement: str, code: int, error: str, last: str | None
) -> None:
    places = {"in_function": "return grad", "in_hook": "return grad", place: statement}
    house.write(INSIDE.format(**places))

    ran = house.trace("script.py")

    trace = house.recorded()
    assert ran.code == code
    assert "gradscope" not in ran.err
    assert (ran.err.splitlines() or [""])[-1] == (error if last is None else last)
    assert [task.error for task in trace.rows(GraphTask)] == [error]
    assert len(list(trace.events(Error))) == 1
    assert trace.notes == ()
    assert house.violations() == []


def test_recursion_without_end(house: House) -> None:
    house.write(
        "import torch\nx = torch.ones(2, requires_grad=True)\n"
        "def forward(y): return forward(y * 1.5) + y\n"
        "def hook(grad):\n    with torch.enable_grad():\n        (x * grad).sum().backward()\n"
        "    return hook(grad)\n"
        "try:\n    forward(x)\nexcept RecursionError:\n    print('forward')\n"
        "y = x * 2\ny.register_hook(hook)\n"
        "try:\n    y.sum().backward()\nexcept RecursionError:\n    print('backward')\n"
    )

    ran = house.trace("script.py")

    assert ran == Ran(0, "forward\nbackward\n", "")
    assert house.recorded().notes == ()
    assert house.violations() == []


# Several processes and threads ---------------------------------------------------------------

FORKS = """
import os, torch
x = torch.ones(2, requires_grad=True)
def hook(grad):
    global child
    child = os.fork()
y = x * 2
y.register_hook(hook)
y.sum().backward()
for i in range(600):
    (x * 2).sum().backward()
print("child" if child == 0 else "parent", x.grad.sum().item(), flush=True)
if child == 0:
    {ends}
else:
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize(
    ("name", "ends", "code"),
    [
        ("trace.json", "pass", 0),
        ("trace.json.gz", "pass", 0),
        ("trace.json", "raise SystemExit(6)", 6),
        ("trace.json.gz", "os._exit(7)", 7),
        ("trace.json", "os.kill(os.getpid(), 9)", -9),
        ("trace.json", "os.kill(os.getpid(), 15)", -15),
    ],
)
def test_a_forked_child_leaves_the_trace_alone(
    house: House, name: str, ends: str, code: int
) -> None:
    house.write(FORKS.format(ends=ends))

    ran = house.gradscope("trace", "-o", name, "script.py")

    trace = house.recorded(name)
    assert ran.code == 0
    assert sorted(ran.out.splitlines()) == [str(code), "child 2404.0", "parent 2404.0"]
    assert ran.err.count("gradscope: ") == 4  # what is in it, its cost, its child, what is next
    assert "gradscope: 1 child process ran unrecorded (1 by fork at script.py:6): " in ran.err
    assert len(trace.table(GraphTask)) == 601
    assert trace.notes == ()
    assert house.violations(name) == []


def test_threads_are_recorded_to_their_end(house: House) -> None:
    house.write(
        "import threading, time, torch\nx = torch.ones(2, requires_grad=True)\n"
        "def work():\n    for i in range(200):\n        (x * 2).sum().backward()\n"
        "        time.sleep(0.001)\n"
        "for i in range(3):\n    threading.Thread(target=work, name=f'worker {i}').start()\n"
    )

    house.trace("script.py")

    trace = house.recorded()
    assert len(trace.table(GraphTask)) == 600
    assert {thread.name for thread in trace.rows(Thread)} >= {"worker 0", "worker 1", "worker 2"}
    assert house.violations() == []


def test_a_daemon_that_never_ends(house: House) -> None:
    house.write(
        "import threading, time, torch\nx = torch.ones(2, requires_grad=True)\n"
        "def work():\n    while True:\n        (x * 2).sum().backward()\n"
        "threading.Thread(target=work, daemon=True).start()\ntime.sleep(0.3)\nprint('end')\n"
    )

    ran = house.trace("script.py")

    assert ran == Ran(0, "end\n", "")
    assert house.recorded().notes == ()
    assert house.violations() == []


def test_recordings_begin_pause_and_end_while_threads_compute(house: House) -> None:
    house.write("""
import threading, time, gradscope, gradscope.runtime as torch
from gradscope.trace.spec import check
with gradscope.record() as recording:  # two busy threads would slow down every import
    torch.ones(2, requires_grad=True).exp().sum().backward()
check(recording.trace())
go = True
def work():
    x = torch.ones(3, requires_grad=True)
    while go:
        y = (x * 2 + 1).tanh().reshape(3)
        y.sum().backward()
        time.sleep(0.0002)  # else they leave the others 5 ms in 15, and that asks for it often
threads = [threading.Thread(target=work) for _ in range(2)]
for each in threads: each.start()
recordings = []
for i in range(8):
    with gradscope.record(steps=(1, 2)) as recording:
        for step in range(5):
            gradscope.step(step)
            torch.ones(2, requires_grad=True).exp().sum().backward()
    recordings.append(recording)
go = False
for each in threads: each.join()
print([each for recording in recordings for each in check(recording.trace())])
""")

    assert house.python("script.py") == Ran(0, "[]\n", "")


# Scripts that know they may be recorded ------------------------------------------------------

KNOWS = """
import gradscope, torch
x = torch.ones(2, requires_grad=True)
for i in range(3):
    gradscope.step(10 + i)
    with gradscope.span("forward"):
        y = (x * 2).sum()
    gradscope.mark("half way", "so far")
    with gradscope.span("backward"):
        y.backward()
"""


def test_a_script_may_name_its_spans_marks_and_steps(house: House) -> None:
    house.write(KNOWS)

    ran = house.trace("script.py")

    trace = house.recorded()
    steps = [step.number for step in trace.rows(Step)][-3:]
    spans = [span.name for span in trace.rows(Span) if span.name in {"forward", "backward"}]
    assert ran == Ran(0, "", "")
    assert steps == [10, 11, 12]
    assert spans == ["forward", "backward"] * 3
    assert [(mark.name, mark.note) for mark in trace.rows(Mark)] == [("half way", "so far")] * 3
    assert house.violations() == []


def test_what_it_names_is_nothing_to_a_script_that_is_not_recorded(house: House) -> None:
    house.write(KNOWS.replace(", torch", ", gradscope.runtime as torch"))

    assert house.python("script.py") == Ran(0, "", "")


def test_a_script_that_records_itself_does_so_and_the_trace_of_the_command_ends(
    house: House,
) -> None:
    house.write(
        "import gradscope, torch\nx = torch.ones(2, requires_grad=True)\n(x * 2).sum().backward()\n"
        "with gradscope.record('own.json'):\n    (x * 2).sum().backward()\n"
        "    (x * 2).sum().backward()\n"
        "from gradscope.trace.schema import GraphTask\n"
        "print(len(gradscope.load('own.json').table(GraphTask)))\n"
    )

    ran = house.trace("script.py")

    assert (ran.code, ran.out) == (0, "2\n")
    assert "script.py started its own recording (gradscope.record), so this trace" in ran.err
    assert len(house.recorded().table(GraphTask)) == 1
    assert house.violations() == []


def test_its_own_trace_of_the_same_name_goes_to_another_file_which_is_said_at_its_line(
    house: House,
) -> None:
    house.write("import gradscope, torch\nwith gradscope.record('trace.json'):\n    pass\n")

    ran = house.trace("script.py")

    assert ran.code == 0
    assert (
        "script.py:2: UserWarning: another recording of this process is writing 'trace.json'"
        in ran.err
    )


# Too little room -----------------------------------------------------------------------------

STEPS = """
import gradscope, torch
x = torch.ones(2, requires_grad=True)
for i in range(10):
    gradscope.step(i)
    with torch.no_grad():
        x *= 0.5
    (x * 2).sum().backward()
print(x.grad)
"""


@pytest.mark.parametrize(
    ("steps", "count"), [("3:5", 3), ("7:", 3), (":4", 5), ("8", 1), ("90", 0)]
)
def test_only_some_steps(house: House, steps: str, count: int) -> None:
    house.write(STEPS)

    ran = house.trace("--steps", steps, "script.py")

    trace = house.recorded()
    assert ran == Ran(0, "tensor([20., 20.])\n", "")
    assert len(trace.table(GraphTask)) == count
    assert trace.notes == ()
    assert house.violations() == []


def test_after_so_many_events_the_other_steps_are_left_out(house: House) -> None:
    house.write(STEPS)

    ran = house.trace("--max-events", "50", "script.py")

    trace = house.recorded()
    assert ran == Ran(0, "tensor([20., 20.])\n", "")
    assert 30 < trace.event_count < 100
    assert [note.partition(":")[0] for note in trace.notes] == ["dropped"]
    assert house.violations() == []


def test_a_full_disk_ends_the_recording_and_not_the_script(house: House) -> None:
    house.write(TRAINS.replace("while True:", "for step in range(120):") + "print('end')")

    ran = house.run("sh", "-c", f"ulimit -f 64; exec {GRADSCOPE} trace --on gradscope script.py")

    assert (ran.code, ran.out) == (0, "ready\nend\n")
    assert "cannot write" in ran.err
    assert "File too large" in ran.err
    assert "Traceback" not in ran.err
    assert (house.folder / "trace.json").stat().st_size <= 64 * 1024
    assert house.recorded().truncated
    assert (
        house.recorded()
        .notes[0]
        .endswith("; writing stopped there ('File too large'), everything after it is missing")
    )
    assert house.violations() == []
