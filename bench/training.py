"""A training step of ordinary models: against PyTorch, in memory, and recorded."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from bench.measure import chosen, each_number_of_threads, in_turn, report, report_ratio
from bench.models import GPT, MODELS, RESNET, Model

MEMORY_LIMIT = 1.0
RECORDING_LIMITS = {"engine": 1.10, "values": 1.25}
RECORDED = (RESNET, GPT)
PROCESSES = 3


def main() -> None:
    """Print each model's ratio, its memory's, and what recording adds."""
    import torch

    import gradscope.runtime as ours

    for threads in each_number_of_threads(torch, ours):
        for name, model in MODELS.items():
            if not chosen.wants(name):
                continue
            times = in_turn(
                model.step(ours), model.step(torch), rounds=model.rounds, warmups=5, threads=threads
            )
            report_ratio(name, "PyTorch", times, model.limit)
    for name in filter(chosen.wants, MODELS):
        mine, theirs = (float(_told(engine, name, "memory")) for engine in ENGINES)
        report(f"{name}: peak of a step {mine:.1f} MB", mine / theirs, MEMORY_LIMIT, "×")
    for name in filter(chosen.wants, RECORDED):
        for level, limit in RECORDING_LIMITS.items():
            report(f"{name}: recorded at level {level}", _recorded(name, level), limit, "×")


ENGINES = ("gradscope.runtime", "torch")


def _told(engine: str, name: str, what: str, *before: str) -> str:
    command = [sys.executable, *before, "-m", __name__, engine, name, what]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _recorded(name: str, level: str) -> float:
    """A recorded process' time for a step, over that of one that is not."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "trace.json")
        words = ("-m", "gradscope", "trace", "-q", "--on", "gradscope")
        words = (*words, "--level", level, "-o", path)
        for _ in range(PROCESSES):
            plain = float(_told(ENGINES[0], name, "time"))
            found.append(float(_told(ENGINES[0], name, "time", *words)) / plain)
    return median(found)


# -- what the processes do that are measured -----------------------------------------------------


def _time(model: Model, engine: Any) -> float:
    """The median of a step's times."""
    step = model.step(engine)
    for _ in range(10):
        step()
    times = []
    for _ in range(2 * model.rounds):
        begin = perf_counter()
        step()
        times.append(perf_counter() - begin)
    return median(times)


def _memory(model: Model, engine: Any) -> float:
    """By how much a process grows that makes a model and trains it, in MB; code does not count."""
    warm = model.step(engine)
    for _ in range(3):  # momentum, and what is compiled for it, comes with the second step
        warm()
    del warm
    gc.collect()
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest mark so far
    step = model.step(engine)
    for _ in range(3):
        step()
    return (_status("VmHWM") - before) / 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    import importlib

    module = importlib.import_module(sys.argv[1])
    module.set_num_threads(1)
    print({"time": _time, "memory": _memory}[sys.argv[3]](MODELS[sys.argv[2]], module))
