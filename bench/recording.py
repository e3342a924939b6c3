"""The same chain recorded at level `engine`, against itself unwatched."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from time import perf_counter

from bench.chains import CHAINS, OPERATIONS, repeated
from bench.measure import report

PROCESSES = 7
ROUNDS = 150
STEPS = 2  # of one round


def main() -> None:
    """Print what recording costs while it runs.

    A process records once, as programs do: switching to watched code and back again and again would
    undo what the interpreter has learned of the code, and slow down both. The speed of a shared
    machine changes within a second, so each round is measured against plain Python around it.
    """
    for name in CHAINS:
        medians, means, sizes = [], [], []
        for _ in range(PROCESSES):
            command = [sys.executable, "-m", __name__, name]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            ratio, mean_ratio, size = map(float, told.split())
            medians.append(ratio)
            means.append(mean_ratio)
            sizes.append(size)
        print(f"  {OPERATIONS} × {name}: {median(sizes):.0f} bytes a call in the file")
        report("an ordinary round", median(medians), 1.3, "×")
        report("all rounds, those that write to the file too", median(means), 1.3, "×")


def measure(run: Callable[[], object]) -> tuple[float, float, float]:
    """How many times as long a watched round takes: median, mean; and bytes per call."""
    from gradscope.record.recorder import record

    _rounds(run, 30)
    plain = _rounds(run, ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with record(path):
            _rounds(run, 60)  # by then the recorder has compiled what pays in a long run
            watched = _rounds(run, ROUNDS)
        size = path.stat().st_size / ((ROUNDS + 60) * STEPS * OPERATIONS)
    return median(watched) / median(plain), _mean(watched) / _mean(plain), size


def _mean(times: list[float]) -> float:
    """The mean, less what somebody else's work did to the slowest few."""
    return mean(sorted(times)[: -len(times) // 50])


def _rounds(run: Callable[[], object], count: int) -> list[float]:
    steps = repeated(run, STEPS)
    times = []
    before = _yardstick()
    for _ in range(count):
        begin = perf_counter()
        steps()
        time = perf_counter() - begin
        after = _yardstick()
        times.append(time / (before + after))
        before = after
    return times


def _yardstick() -> float:
    begin = perf_counter()
    table: dict[int, int] = {}
    total = 0
    for i in range(30_000):
        total += i
        table[i & 63] = total
    return perf_counter() - begin


if __name__ == "__main__":
    import gradscope.runtime

    print(*measure(CHAINS[sys.argv[1]](gradscope.runtime)))
