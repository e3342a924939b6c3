"""After an end that runs nothing more, the trace holds all that was done before it, and says so."""

from __future__ import annotations

import time

from gradscope.trace.schema import GraphTask, Op
from tests.record.running import GRADSCOPE, LONG, House

WORK = """
import os, signal, sys, torch
x = torch.ones(3, requires_grad=True)
for _ in range(700):
    (x * 2).sum().backward()
"""
ENDS = {
    "os._exit(5)": (5, "os._exit(5)", 5),
    "os.abort()": (-6, "os.abort (SIGABRT)", 134),
    "os.kill(os.getpid(), signal.SIGKILL)": (-9, "killed itself (SIGKILL)", 137),
    "os.kill(os.getpid(), signal.SIGUSR1)": (-10, "killed itself (SIGUSR1)", 138),
    "signal.raise_signal(signal.SIGALRM)": (-14, "killed itself (SIGALRM)", 142),
    "os.execv(sys.executable, [sys.executable, '-c', 'raise SystemExit(3)'])": (3, "became", None),
    "os.execlp('sh', 'sh', '-c', 'exit 4')": (4, "became", None),
    "os.execvpe('sh', ['sh', '-c', 'exit $CODE'], {**os.environ, 'CODE': '6'})": (
        6,
        "became",
        None,
    ),
}


def test_all_that_was_done_before_a_sudden_end_is_in_the_trace(house: House) -> None:
    for statement, (code, ending, exit_code) in ENDS.items():
        house.write(WORK + statement)

        ran = house.trace("script.py")

        trace = house.recorded()
        assert ran.code == code, (statement, ran.err)
        assert len(trace.table(GraphTask)) == 700, statement
        assert trace.meta["exit"].startswith(ending), statement
        assert trace.meta.get("exit_code") == exit_code, statement
        assert trace.notes == (), statement
        assert house.violations() == [], statement


def test_of_a_recording_in_a_script_nothing_is_lost_either(house: House) -> None:
    house.write(
        "import gradscope\ngradscope.record('trace.json.gz').start()\n"
        + WORK.replace("import os", "import gradscope.runtime as torch, os").replace(", torch", "")
        + "os._exit(5)"
    )

    ran = house.python("script.py")

    assert (ran.code, ran.err) == (5, "")
    assert len(house.recorded("trace.json.gz").table(GraphTask)) == 700
    assert house.recorded("trace.json.gz").notes == ()
    assert house.violations("trace.json.gz") == []


def test_what_did_not_end_after_all_goes_on_being_recorded(house: House) -> None:
    for name in ("trace.json", "trace.json.gz"):
        house.write(
            WORK
            + """
for attempt in range(3):
    try:
        os.execv("nowhere", ["nowhere"])
    except FileNotFoundError:
        (x * 3).sum().backward()
signal.signal(signal.SIGUSR1, lambda *_: (x * 3).sum().backward())
os.kill(os.getpid(), signal.SIGUSR1)
try:
    os._exit("five")
except TypeError:
    (x * 3).sum().backward()
"""
        )

        ran = house.trace("-o", name, "script.py")

        trace = house.recorded(name)
        assert (ran.code, ran.err) == (0, "")
        assert len(trace.table(GraphTask)) == 705
        assert trace.meta["exit"] == "ok"
        assert trace.notes == ()
        assert house.violations(name) == []


def test_the_functions_are_the_systems_own_when_nothing_is_recorded(house: House) -> None:
    house.write("""
import os, signal, gradscope
before = os._exit, os.abort, os.execv, os.execve, os.kill, signal.raise_signal
with gradscope.record("trace.json"):
    print(os._exit is before[0])
print((os._exit, os.abort, os.execv, os.execve, os.kill, signal.raise_signal) == before)
""")

    assert house.python("script.py").out == "False\nTrue\n"


def test_of_a_program_that_comes_by_seldom_no_more_is_lost_than_the_note_says(house: House) -> None:
    house.write("""
import sys, time, torch
x = torch.ones(1, requires_grad=True)
print("ready", flush=True)
for i in range(100):
    x = x * 2
    time.sleep(0.1)
    print(i, flush=True)
""")
    process = house.start(GRADSCOPE, "trace", "-q", "script.py")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(4)
    process.kill()
    out, _ = process.communicate(timeout=LONG)

    trace = house.recorded()
    done = len(out.splitlines())
    assert trace.meta["written_every"] == 1.0
    assert "; the end of the run, at most about 1 s, may be missing" in trace.notes[0]
    assert done - len(trace.table(Op)) <= 15
    assert house.violations() == []


def test_a_recorded_script_has_the_threads_it_would_have(house: House) -> None:
    house.write("""
import os, threading, time, torch
print(threading.active_count(), len(threading.enumerate()))
for i in range(20):
    child = os.fork()
    if child == 0:
        os._exit(threading.active_count())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")

    assert house.trace("script.py").out == "1 1\n" + "1\n" * 20
