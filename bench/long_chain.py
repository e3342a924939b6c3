"""A chain of a million nodes: built, run backward, freed."""

from __future__ import annotations

import gc
import resource
from time import perf_counter

import gradscope.runtime as torch
from bench.measure import report

SHORT, LONG = 100_000, 1_000_000


def main() -> None:
    """Print how the time grows from a hundred thousand nodes to a million, and bytes per node."""
    _times(1_000)
    short = _times(SHORT)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    long = _times(LONG)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for what, a, b in zip(("built", "run backward", "freed"), short, long, strict=True):
        print(
            f"  {what}: {a / SHORT * 1e9:.0f} ns a node of {SHORT:,}, "
            f"{b / LONG * 1e9:.0f} of {LONG:,}"
        )
    report("a node of a million takes, against one of a hundred thousand",
           sum(long) / LONG / (sum(short) / SHORT), 1.5, "×")  # fmt: skip
    print(f"  memory: about {(after - before) * 1024 / LONG:.0f} bytes a node, with its result")


def _times(nodes: int) -> tuple[float, float, float]:
    gc.collect()
    x = torch.ones(1, requires_grad=True)
    y = torch.ones(1)
    begin = perf_counter()
    out = x
    for _ in range(nodes):
        out = out + y
    built = perf_counter()
    out.backward(torch.ones(1), retain_graph=True)
    ran = perf_counter()
    del out
    freed = perf_counter()
    return built - begin, ran - built, freed - ran
