"""What watching PyTorch costs, in microseconds of CPU time: per step, and per node of its graph.

CPU time counts what threads of gradscope do beside the program, too, and depends less on what else
the machine is doing. A step of n operations takes a + b·n longer when it is watched. Both are
fitted to the medians of steps of several sizes. The first steps of a recording are not measured:
they also search the program for kept graphs, six times in all. The results go to bench/costs.json,
which docs/versions.md shows.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np

from bench.measure import report
from bench.watching import recorded

SIZES = (4, 64, 256, 1024)
WARM_UP = 16
ROUNDS = 5
LEVELS = ("graph", "engine", "values", "full")
GOALS = {"graph": (15, 0.6), "engine": (60, 1.5), "values": (80, 2.5)}
"""Microseconds per step and per node, with machine code."""

RESULTS = Path(__file__).parent / "costs.json"


def main() -> None:
    """Measure each level with machine code and without, and write the results."""
    found: dict[str, dict[str, list[float]]] = {}
    for native in (True, False):
        way = "machine code" if native else "public hooks"
        for level in LEVELS:
            with tempfile.NamedTemporaryFile() as file:
                command = [sys.executable, "-m", __name__, level, str(int(native)), file.name]
                subprocess.run(command, check=True)
                a_step, a_node = json.loads(Path(file.name).read_text(encoding="utf-8"))
            found.setdefault(way, {})[level] = [round(a_step, 1), round(a_node, 2)]
            goals = GOALS.get(level) if native else None
            if goals is None:
                print(f"    {level}, {way}: {a_step:.1f} µs a step, {a_node:.2f} µs a node")
            else:
                report(f"  {level}, {way}, a step", a_step, goals[0], "µs")
                report(f"  {level}, {way}, a node", a_node, goals[1], "µs")
    RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def measured(level: str, *, native: bool) -> tuple[float, float]:
    """Microseconds that a step and a node take longer at a level."""
    import torch

    torch.set_num_threads(1)
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)

    def step(size: int) -> None:
        optimizer.zero_grad()
        x = weight
        for _ in range(size):
            x = x * 1.0
        x.sum().backward()
        optimizer.step()

    more: dict[int, list[float]] = {size: [] for size in SIZES}
    for size in SIZES:
        steps = max(8, 2048 // size)

        def one(size: int = size) -> None:
            step(size)

        for _ in range(ROUNDS):
            plain = seconds(one, steps)
            with recorded(level, native=native) as finish:
                seconds(one, WARM_UP, finish)
                watched = seconds(one, steps, finish)
            plain = (plain + seconds(one, steps)) / 2
            more[size].append(1e6 * (watched - plain) / steps)
    sizes, costs = np.array(SIZES, float), np.array([median(more[size]) for size in SIZES])
    a_node, a_step = np.polyfit(sizes, costs, 1, w=1 / np.sqrt(sizes))
    if a_step < 0:  # a line through the origin, with the same weights
        a_step, a_node = 0.0, costs.sum() / sizes.sum()
    return float(a_step), float(a_node)


def seconds(step: Callable[[], None], steps: int, finish: Callable[[], object] = int) -> float:
    """CPU time of these steps and of writing what was noted of them."""
    gc.collect()
    begin = process_time()
    for _ in range(steps):
        step()
    finish()
    return process_time() - begin


if __name__ == "__main__":
    _, at, natively, into = sys.argv
    Path(into).write_text(json.dumps(measured(at, native=natively == "1")), encoding="utf-8")
