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
WARM = 60
STEPS = 2  # of one round


def main() -> None:
    """Print what `gradscope trace` costs a program while it runs.

    A process is recorded or it is not, as programs are. The speed of a shared machine changes
    within a second, so each round is measured against plain Python around it.
    """
    for name in CHAINS:
        found = []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            for _ in range(PROCESSES):
                plain = _told(sys.executable, "-m", __name__, name)
                watched = _told(
                    sys.executable, "-m", "gradscope", "trace", "-q", "--on", "gradscope",
                    "-o", str(path), "-m", __name__, name,
                )  # fmt: skip
                found.append([watched[i] / plain[i] for i in range(2)])
            size = path.stat().st_size / ((ROUNDS + WARM) * STEPS * OPERATIONS)
        print(f"  {OPERATIONS} × {name}: {size:.0f} bytes a call in the file")
        report("an ordinary round", median(each[0] for each in found), 1.3, "×")
        report("all rounds, as a mean", median(each[1] for each in found), 1.3, "×")


def _told(*command: str) -> tuple[float, float]:
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    ordinary, mean_of_all = map(float, told.split())
    return ordinary, mean_of_all


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

    run = CHAINS[sys.argv[1]](gradscope.runtime)
    _rounds(run, WARM)  # by then the recorder has compiled what pays in a long run
    times = _rounds(run, ROUNDS)
    print(median(times), _mean(times))
