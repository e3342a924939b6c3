"""Where an interruption finds the script, and how soon."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.record.running import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_an_interruption_comes_between_two_operations_and_only_once(house: House) -> None:
    """Python looks for signals inside of operations far more often than between them."""
    house.write("""
import os, signal, threading, torch
x, calls, sent = torch.ones(2, requires_grad=True), [0], []

def interrupt():
    sent.append(calls[0])
    os.kill(os.getpid(), signal.SIGINT)

late, times = [], 0
for _ in range(3):
    threading.Timer(0.05, interrupt).start()
    try:
        while True:
            y = x * 2 + x
            calls[0] += 1
            y = y.tanh() * x
    except KeyboardInterrupt:
        times += 1
        late.append(calls[0] - sent[-1])
threading.Event().wait(0.3)
for _ in range(3000):
    y = x * 2 + x
print(times, max(late) < 1000, len(sent))
""")

    ran = house.trace("script.py")

    assert (ran.code, ran.out, ran.err) == (0, "3 True 3\n", "")
    assert house.violations() == []


def test_a_signal_that_the_program_sends_itself_comes_at_once(house: House) -> None:
    """It waited for the frame that had sent it, and was lost where the program ended meanwhile."""
    house.write("""
import os, signal, torch
def kill(number):
    os.kill(os.getpid(), number)
for send in (signal.raise_signal, kill):
    try:
        send(signal.SIGINT)
        print("went on")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
torch.ones(1, requires_grad=True).sum().backward()
signal.raise_signal(signal.SIGTERM)
print("went on")
""")

    ran = house.trace("script.py")

    assert (ran.code, ran.out) == (-signal.SIGTERM, "interrupted\ninterrupted\n")
    assert house.recorded().meta["exit"] == "terminated by SIGTERM"
    assert house.violations() == []
