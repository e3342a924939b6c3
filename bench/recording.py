"""The same chain recorded at level `engine`, against itself unwatched."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import gradscope.runtime as torch
from bench.chains import CHAINS, OPERATIONS, repeated
from bench.measure import report, seconds
from gradscope.record.recorder import record

ROUNDS = 21
STEPS = 20  # of one recording, so that windows are written as they are in a real run


def main() -> None:
    """Print what recording costs while it runs, and with opening and closing the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        for name, chain in CHAINS.items():
            run = chain(torch)
            _measure(f"{OPERATIONS} × {name}", run, path)


def _measure(what: str, run: object, path: Path) -> None:
    assert callable(run)
    for _ in range(5):
        run()
    plain: list[float] = []
    loop: list[float] = []
    whole: list[float] = []
    for _ in range(ROUNDS):
        plain.append(seconds(repeated(run)) / 5)
        begin = perf_counter()
        with record(path):
            inner = perf_counter()
            for _ in range(STEPS):
                run()
            loop.append((perf_counter() - inner) / STEPS)
        whole.append((perf_counter() - begin) / STEPS)
    base = median(plain)
    size = path.stat().st_size / STEPS / OPERATIONS
    print(f"  {what}: {base * 1e3:.2f} ms unwatched, {size:.0f} bytes a call in the file")
    report("while it runs", median(loop) / base, 1.3, "×")
    report("with opening and closing the trace", median(whole) / base, 1.3, "×")
