"""How often a process has to ask the system for the memory that it has freed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

ROUNDS = """
import resource
import gradscope.runtime as torch

def step():
    return [torch.ones(1 << 18) for _ in range(8)]  # 256 pages each

step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages(**environment: str) -> int:
    """How many pages the system gave to twenty rounds of eight arrays."""
    ours = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    ours.pop("GLIBC_TUNABLES", None)
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS],
        env={**ours, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc is told")
def test_what_a_step_has_freed_the_next_one_takes() -> None:
    assert pages() < 20 * 256


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc is told")
def test_what_a_user_has_told_malloc_holds() -> None:
    assert pages(MALLOC_TRIM_THRESHOLD_="65536", MALLOC_MMAP_THRESHOLD_="65536") > 20 * 8 * 200
