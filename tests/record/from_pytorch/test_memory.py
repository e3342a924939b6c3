"""What a watched program grows by from its first step on, beside what it does unwatched."""

from __future__ import annotations

import sys

import pytest

from tests.record.running import House

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform != "linux", reason="it asks Linux how much memory it had"),
]

SCRIPT = """
import torch

def peak():
    # that of this program alone: `ru_maxrss` begins with that of who started it
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1])

torch.set_num_threads(1)
w = [torch.ones(1, 1 << 20, requires_grad=True) for _ in range(4)]
optimizer = torch.optim.SGD(w, lr=0.001)
x = torch.ones(4, 1 << 20)
(w[0][:, :8] * 2).sum().backward()
before = peak()
for _ in range(6):
    y = x
    for each in w:
        y = torch.tanh(y * each + 1).exp() * 0.1
    y.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print(peak() - before)
"""
RETURNED = {"MALLOC_MMAP_THRESHOLD_": "65536"}
"""Large arrays are given back to the system as they die, so that no old one hides a new one."""


def test_a_large_program_grows_by_at_most_a_twentieth_more_at_level_engine(house: House) -> None:
    house.write(SCRIPT)

    unwatched = house.python("script.py", env=RETURNED)
    watched = house.python(
        "-m", "gradscope", "trace", "-q", "--on", "torch", "script.py", env=RETURNED
    )

    plain, traced = int(unwatched.out), int(watched.out)
    assert plain > 150_000  # kB
    assert traced <= 1.05 * plain
