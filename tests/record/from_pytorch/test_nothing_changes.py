"""Whole scripts under `gradscope trace`: what they print, on both streams, and how they end."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from gradscope.trace.schema import GraphTask
from gradscope.trace.schema.tables import Order
from tests.record.running import House

pytestmark = pytest.mark.torch

SCRIPTS = Path(__file__).parents[2] / "shared" / "scripts"

TRACE = (sys.executable, "-m", "gradscope", "trace", "-q", "--on", "torch")

LONG = """
import resource
import sys
import torch

if sys.argv[1:] == ["full"]:  # of room for files
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, 1 << 15))
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = 0
while step < 300 or sys.argv[1:] == ["forever"]:
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    step += 1
    if step in (10, 300):
        print("step", step, flush=True)
"""


def same(house: House, name: str) -> None:
    """Traced and untraced, a script says and does the same."""
    shutil.copy(SCRIPTS / name, house.folder / "script.py")

    unwatched = house.python("script.py")
    watched = house.python("-m", "gradscope", "trace", "-q", "--on", "torch", "script.py")

    assert watched.out.splitlines() == unwatched.out.splitlines()
    assert watched == unwatched
    assert house.violations() == []
    assert Order.OTHERWISE not in house.recorded().table(GraphTask)["order"]


def test_modes_hooks_checkpoints_transforms_anomalies_and_errors_are_as_unwatched(
    house: House,
) -> None:
    """Our looks were counted by a script's own mode; its anomaly mode had lost its warning."""
    same(house, "many_ways.py")

    assert house.recorded().meta["exit"].startswith("RuntimeError: grad can be implicitly created")
    assert "raised_at" not in house.recorded().meta


def test_children_by_fork_and_spawn_and_spawned_loaders_are_as_unwatched(house: House) -> None:
    same(house, "processes.py")


def test_a_script_that_is_killed_leaves_a_trace_up_to_then(house: House) -> None:
    house.write(LONG)
    process = house.start(*TRACE, "script.py", "forever")
    assert process.stdout is not None
    assert process.stdout.readline() == "step 10\n"
    assert process.stdout.readline() == "step 300\n"

    time.sleep(1)  # what is older is in the file: 300 steps take a tenth of that
    process.send_signal(signal.SIGKILL)

    assert process.wait() == -signal.SIGKILL
    trace = house.recorded()
    assert len(trace.table(GraphTask)) > 0
    assert house.violations() == []


def test_a_full_disk_ends_the_recording_and_not_the_script(house: House) -> None:
    house.write(LONG)

    ran = house.run(*TRACE, "script.py", "full")

    assert (ran.code, ran.out) == (0, "step 10\nstep 300\n")
    assert "cannot write" in ran.err
    assert house.recorded().notes[0].startswith("truncated:")
    assert house.violations() == []


def test_a_warning_that_is_shown_once_is_shown_once(house: House) -> None:
    """That of a second loader came again after the first backward."""
    house.write("""
import warnings
import torch

def warn():
    warnings.warn("once", stacklevel=1)

warn()
torch.ones(1, requires_grad=True).sum().backward()
warn()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.ones(1, requires_grad=True).sum().backward()
    warn()
""")

    ran = house.run(*TRACE, "script.py")

    assert (ran.code, ran.err.count("UserWarning: once")) == (0, 1)
