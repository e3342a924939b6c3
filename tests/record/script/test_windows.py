"""A recording where what Windows lacks is taken away. This shows what gradscope itself asks for."""

from __future__ import annotations

import pytest

from gradscope.trace.schema import Node
from tests.record.running import House

pytestmark = pytest.mark.torch

WITHOUT = """
import asyncio, builtins, concurrent.futures, ctypes, multiprocessing.util, os, signal, subprocess
import sys, tempfile
import torch, torch._dynamo
import _signal
from gradscope.cli import main

LACKS = {
    os: "fchmod fork getpgid getpgrp getuid killpg posix_spawn pread pwrite register_at_fork "
    "sched_getaffinity set_blocking setpgid sysconf uname O_NOFOLLOW O_CLOEXEC WNOHANG",
    signal: "pthread_kill pthread_sigmask setitimer siginterrupt sigpending sigwait SIGALRM SIGHUP "
    "SIGCHLD SIGKILL SIGPROF SIGQUIT SIGUSR1 SIGUSR2 SIGVTALRM SIG_BLOCK SIG_SETMASK",
    _signal: "pthread_kill siginterrupt",
}
for module, names in LACKS.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

class CDLL(ctypes.CDLL):
    def __init__(self, name=None, *given, **more):
        if name is None:
            raise TypeError("bad argument type for built-in operation")
        super().__init__(name, *given, **more)

def imported(name, scope=None, *given, own=builtins.__import__):
    if name in {"fcntl", "grp", "pwd", "resource", "termios"}:
        if str((scope or {}).get("__name__")).startswith("gradscope"):
            raise ModuleNotFoundError(name)
    return own(name, scope, *given)

ctypes.CDLL, builtins.__import__, sys.platform = CDLL, imported, "win32"
sys.argv = ["gradscope", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("level", ["graph", "engine", "values", "full"])
def test_a_program_is_recorded_where_windows_has_less(house: House, level: str) -> None:
    (house.folder / "windows.py").write_text(WITHOUT)
    house.write("""
import torch
layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
layer(torch.ones(1, 3)).sum().backward()
optimizer.step()
print(layer.bias.grad)
""")

    ran = house.python("windows.py", "trace", "--on", "torch", "--level", level, "script.py")

    assert (ran.code, ran.out) == (0, "tensor([1., 1.])\n")
    assert "fault" not in ran.err, ran.err
    assert "machine code" in house.recorded().meta["no_machine_code"]
    names = {node.name for node in house.recorded().rows(Node)}
    assert names == {"AccumulateGrad", "AddmmBackward0", "SumBackward0", "TBackward0"}
    assert house.violations() == []
