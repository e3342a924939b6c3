"""What a script leaves behind is taken down by Python, as after a script that runs alone."""

from __future__ import annotations

import sys

import pytest

from tests.record.running import House, Ran

HELPER = """
class Left:
    def __init__(self, name): self.name = name
    def __del__(self): print(self.name, "goes")
of_helper = Left("the helper's")
def keeps(): return of_helper
"""

LEAVES = """
import atexit, os, sys, threading, time, weakref
from helper import Left, keeps
of_main = Left("a global")
def keeps_too(): return of_main
def suspended():
    try: yield
    finally: print("a generator ends")
generator = suspended()
next(generator)
file = open("left.txt", "w")
file.write("not closed")
weakref.finalize(Left, lambda: print("finalized", sys.excepthook.__name__, last()))
last = lambda: getattr(sys, "last_value", None)
atexit.register(print, "at exit")
class Written:
    def __init__(self, file): self.file = file
    def write(self, text): return self.file.write(text.upper())
    def flush(self): self.file.write("flushed\\n"); self.file.flush()
sys.stdout = Written(sys.stdout)
exec("def hook(kind, error, traceback): print(kind, error)", of_hook := {})
sys.excepthook = of_hook["hook"]
os.mkdir("elsewhere")
os.chdir("elsewhere")
class Writes:
    folder = os.getcwd
    def __del__(self): print("in", self.folder()[-9:])
writes = Writes()
def work():
    of_function = Left("a local")
"""

ENDS = {
    "its last line": "pass",
    "sys.exit": "sys.exit(3)",
    "an exception": "raise ValueError('end')",
    "a thread": "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
    "a daemon": "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "a fork": "sys.stdout.flush(); os.fork() == 0 or os.wait()",
}


def told(ran: Ran) -> tuple[list[str], list[str]]:
    """What a script has printed, and what was said when it was taken down, in whatever order."""
    lines = ran.out.splitlines()
    return [each for each in lines if each.isupper()], sorted(e for e in lines if not e.isupper())


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("command", [("script.py",), ("-m", "script")], ids=["file", "module"])
def test_globals_are_finalised_as_alone(house: House, command: tuple[str, ...], end: str) -> None:
    house.write(HELPER, "helper.py")
    house.write(f"{LEAVES}    {end}\nwork()\nprint('end')")
    left = house.folder / "left.txt"

    alone, of_alone = house.python(*command), left.read_text()
    (house.folder / "elsewhere").rmdir()
    traced = house.trace(*command)

    assert (traced.code, traced.err) == (alone.code, alone.err)
    assert told(traced) == told(alone)
    assert left.read_text() == of_alone
    assert "a global goes" in alone.out
    assert "not closed" in of_alone


def test_what_a_script_prints_comes_before_its_traceback(house: House) -> None:
    house.write("print('printed')\nraise ValueError('raised')")
    python, gradscope = sys.executable, f"{sys.executable} -m gradscope trace --on gradscope -q"

    alone, traced = (
        house.run("/bin/sh", "-c", f"{command} script.py 2>&1") for command in (python, gradscope)
    )

    assert traced == alone
    assert alone.out.startswith("printed\nTraceback")
