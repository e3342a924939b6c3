"""A script at the root of a clone of gradscope: all that it does is in its trace."""

from __future__ import annotations

import sys
from pathlib import Path

import gradscope
from gradscope.trace.schema import GraphTask
from tests.record.running import House

WORK = """
import atexit, sys, threading, time, torch
x = torch.ones(3, requires_grad=True)
def backwards(count):
    for _ in range(count):
        (x * 2).sum().backward()
backwards(5)
"""
ENDS = {
    "it ends": ("", 5, 0),
    "it raises": ("raise ValueError('no')", 5, 1),
    "it exits": ("sys.exit(3)", 5, 3),
    "it registers a backward": ("atexit.register(backwards, 4)", 9, 0),
    "it registers before and after": (
        "import late\natexit.register(backwards, 4); late.work(backwards); sys.exit(3)",
        12,
        3,
    ),
    "a thread goes on": (
        "threading.Timer(0.3, backwards, [6]).start()",
        11,
        0,
    ),
    "a thread goes on for ever": (
        """
threading.Thread(target=backwards, args=(10**9,), daemon=True).start()
time.sleep(0.5)
atexit.register(backwards, 2)
sys.exit(0)
""",
        None,
        0,
    ),
}


def test_at_the_root_of_a_clone_everything_arrives_however_the_script_ends(house: House) -> None:
    (house.folder / "gradscope").symlink_to(Path(gradscope.__file__).parent)
    house.write("import atexit\ndef work(backwards): atexit.register(backwards, 3)", "late.py")
    for title, (ends, tasks, code) in ENDS.items():
        house.write(WORK + ends)

        ran = house.run(
            sys.executable, "-m", "gradscope", "trace", "-q", "--on", "gradscope", "script.py",
            env={"PYTHONPATH": str(house.folder)},
        )  # fmt: skip

        trace = house.recorded()
        arrived = len(trace.table(GraphTask))
        assert ran.code == code, (title, ran.err)
        assert arrived == tasks or (tasks is None and arrived > 7), title
        assert trace.notes == (), title
        assert house.violations() == [], title


def test_a_recording_nobody_stops_is_written_at_the_end(house: House) -> None:
    house.write("""
import gradscope, gradscope.runtime as torch
gradscope.record("trace.json").start()
x = torch.ones(3, requires_grad=True)
for _ in range(7):
    (x * 2).sum().backward()
""")

    ran = house.python("script.py")

    assert (ran.code, ran.err) == (0, "")
    assert len(house.recorded().table(GraphTask)) == 7
    assert house.recorded().notes == ()
    assert house.violations() == []
