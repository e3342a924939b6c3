"""A signal handler of the program runs between operations, wherever the signal finds them."""

from __future__ import annotations

import pytest

from tests.record.running import House

STORM = """
import signal, sys, threading, time
{imports}
x = torch.ones(20, 20, requires_grad=True)
handled, wrong = [0], []
inside = [False]
def handler(number, frame):
    if inside[0]:
        return
    inside[0] = True
    handled[0] += 1
    if not torch.is_grad_enabled():
        wrong.append("grad mode is off")
    y = torch.ones(3, requires_grad=True)
    (y * 2).sum().backward()
    if y.grad is None or y.grad.tolist() != [2, 2, 2]:
        wrong.append("gradient")
    inside[0] = False
signal.signal(signal.SIGUSR1, handler)
assert signal.getsignal(signal.SIGUSR1) is handler
go = True
main = threading.main_thread().ident
def storm():
    while go:
        signal.pthread_kill(main, signal.SIGUSR1)
        time.sleep(0.0007)
thread = threading.Thread(target=storm, daemon=True)
thread.start()
end = time.monotonic() + 2.5
while time.monotonic() < end:
    z = x
    for _ in range(5):
        z = (z @ x * 0.01 + x).tanh()
    z.sum().backward()
    x.data.mul_(0.999)
    x.grad = None
go = False
thread.join()
print(handled[0] > 5, wrong[:3], sys.gettrace())
"""
TRACED, PLAIN = "import torch", "import gradscope.runtime as torch"


def test_a_handler_that_runs_backward_in_the_middle_leaves_a_trace_that_keeps_its_rules(
    house: House,
) -> None:
    house.write(STORM.format(imports=TRACED))

    ran = house.trace("script.py")

    assert (ran.code, ran.err, ran.out) == (0, "", "True [] None\n")
    assert house.violations() == []
    assert house.recorded().notes == ()


def test_without_a_recording_it_finds_the_program_between_operations_too(house: House) -> None:
    house.write(STORM.format(imports=PLAIN))

    assert house.python("script.py").out == "True [] None\n"


ALARM = """
import signal, sys, time
{imports}
class TooLate(Exception): pass
def handler(number, frame):
    raise TooLate(frame.f_code.co_name)
signal.signal(signal.SIGALRM, handler)
x = torch.ones(3, requires_grad=True)
class Waits(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 1
    @staticmethod
    def backward(ctx, grad):
        time.sleep(30)
for wait in ("loop", "sleep", "backward", "hook"):
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        if wait == "loop":
            while True: x * 2
        if wait == "sleep": time.sleep(30)
        if wait == "backward": Waits.apply(x).sum().backward()
        y = x * 2
        y.register_hook(lambda grad: time.sleep(30))
        y.sum().backward()
    except TooLate as error:
        print(wait, error, time.monotonic() - start < 5)
(x * 2).sum().backward()
print(x.grad, sys.gettrace(), torch.is_grad_enabled())
"""


def test_what_a_handler_raises_comes_out_of_the_line_that_was_interrupted(house: House) -> None:
    said = (
        "loop <module> True\nsleep <module> True\nbackward backward True\nhook <lambda> True\n"
        "tensor([2., 2., 2.]) None True\n"
    )
    house.write(ALARM.format(imports=TRACED))
    assert house.trace("script.py").out == said
    assert house.violations() == []

    house.write(ALARM.format(imports=PLAIN))
    assert house.python("script.py").out == said


def test_a_debuggers_trace_function_is_there_again_afterwards(house: House) -> None:
    house.write(
        "import sys\nseen = [0]\ndef traced(frame, event, arg):\n    seen[0] += 1\n"
        "sys.settrace(traced)\n"
        + STORM.format(imports=PLAIN).replace("sys.gettrace())", "sys.gettrace() is traced)")
    )

    assert house.python("script.py").out == "True [] True\n"


@pytest.mark.parametrize("starts", ["settrace", "setprofile"])
def test_a_signal_that_finds_a_debuggers_function_waits_for_what_that_traces(
    house: House, starts: str
) -> None:
    house.write(f"""
import signal, sys
import gradscope.runtime as torch
class Once:
    sent = False
    def __call__(self, frame, event, arg):
        if not self.sent and "gradscope" in frame.f_code.co_filename:
            self.sent = True
            signal.raise_signal(signal.SIGUSR1)
        return self
def handler(number, frame): print(frame.f_code.co_name)
def work(): return (x * 2).sum()
signal.signal(signal.SIGUSR1, handler)
x = torch.ones(3)
sys.{starts}(Once())
work()
""")

    assert house.python("script.py").out == "work\n"


def test_handlers_are_what_the_program_set(house: House) -> None:
    house.write("""
import signal
def early(number, frame): print("early")
def late(number, frame): print("late")
signal.signal(signal.SIGUSR1, early)
import gradscope.runtime
signal.raise_signal(signal.SIGUSR1)
print(signal.getsignal(signal.SIGUSR1) is early, signal.signal(signal.SIGUSR1, late) is early)
signal.raise_signal(signal.SIGUSR1)
print(signal.signal(signal.SIGUSR1, signal.SIG_IGN) is late, signal.getsignal(signal.SIGUSR1))
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
try:
    signal.signal(signal.SIGUSR1, "no handler")
except TypeError as error:
    print(error)
""")

    assert house.python("script.py").out.splitlines() == [
        "early",
        "True True",
        "late",
        "True 1",
        "True",
        "signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object",
    ]
