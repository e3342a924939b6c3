"""Signals that no handler of Python is called for, since the main thread holds the GIL for ever."""

from __future__ import annotations

import platform
import signal
import sys
import time
from pathlib import Path

import pytest

from gradscope.trace.schema import GraphTask
from tests.record.running import GRADSCOPE, LONG, House

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="machine code is needed"
)

HOLDS_THE_GIL = """
import ctypes
lock = ctypes.PyDLL(None).pthread_mutex_lock
mutex = ctypes.create_string_buffer(64)
lock(mutex)
"""

HANGS = f"""
import time
import torch
torch.ones(2, requires_grad=True).sum().backward()
{HOLDS_THE_GIL}
import ctypes, signal

class Action(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), ("mask", ctypes.c_uint8 * 128),
                ("flags", ctypes.c_int), ("restorer", ctypes.c_void_p)]

action, libc = Action(), ctypes.CDLL(None)
while not action.flags & 4:
    time.sleep(0.05)
    libc.sigaction(signal.SIGTERM, None, ctypes.byref(action))
time.sleep(2)  # what was recorded is in the file
print(hex(ctypes.addressof(mutex)), flush=True)
lock(mutex)
"""

UNHEARD = """
import os, signal, time
from gradscope.record.script.unheard import Unheard

heard = []
signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
unheard = Unheard()
unheard.watch(signal.SIGTERM, signal.getsignal)
os.kill(os.getpid(), signal.SIGTERM)
print(heard, flush=True)
"""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_program_that_holds_the_gil_for_ever_can_be_terminated(house: House) -> None:
    house.write(HANGS)
    process = house.start(GRADSCOPE, "trace", "-q", "script.py")
    assert process.stdout is not None
    mutex = process.stdout.readline().strip()
    while mutex not in Path(f"/proc/{process.pid}/syscall").read_text(encoding="utf-8"):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)

    assert process.wait(LONG) == -signal.SIGTERM
    trace = house.recorded()
    assert trace.truncated
    assert len(trace.table(GraphTask)) == 1
    assert house.violations() == []


def test_the_handler_is_called_and_the_process_ends_later(house: House) -> None:
    house.write(f"{UNHEARD}\nunheard.wait(signal.SIGTERM, 1)\n{HOLDS_THE_GIL}\nlock(mutex)\n")

    ran = house.python("script.py")

    assert (ran.code, ran.out, ran.err) == (-signal.SIGTERM, "[15]\n", "")


def test_what_was_forgotten_does_not_end_the_process(house: House) -> None:
    house.write(f"""{UNHEARD}
unheard.wait(signal.SIGTERM, 1)
unheard.forget()
signal.signal(signal.SIGTERM, signal.SIG_DFL)
time.sleep(2)
print("went on")
""")

    ran = house.python("script.py")

    assert (ran.code, ran.out, ran.err) == (0, "[15]\nwent on\n", "")


@pytest.mark.parametrize("handler", ["SIG_DFL", "SIG_IGN"])
def test_a_signal_without_a_handler_is_left_alone(house: House, handler: str) -> None:
    house.write(f"""
import os, signal
from gradscope.record.script.unheard import Unheard
signal.signal(signal.SIGTERM, signal.{handler})
Unheard().watch(signal.SIGTERM, signal.getsignal)
os.kill(os.getpid(), signal.SIGTERM)
print("ignored")
""")

    ran = house.python("script.py")

    expected = (-signal.SIGTERM, "") if handler == "SIG_DFL" else (0, "ignored\n")
    assert (ran.code, ran.out) == expected


def test_a_handler_that_is_set_meanwhile_stays(house: House) -> None:
    """The program may set one between our look at its handler and the change."""
    house.write("""
import os, signal
from gradscope.record.script.unheard import Unheard
signal.signal(signal.SIGTERM, lambda *_: print("ours"))
asked = []

def usual(number):
    if asked:
        signal.signal(number, signal.SIG_IGN)
    asked.append(number)
    return signal.getsignal(number)

Unheard().watch(signal.SIGTERM, usual)
os.kill(os.getpid(), signal.SIGTERM)
print("ignored")
""")

    ran = house.python("script.py")

    assert (ran.code, ran.out, ran.err) == (0, "ignored\n", "")
