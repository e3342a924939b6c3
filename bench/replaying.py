"""Captured steps: replayed against PyTorch's eager ones, and what the guards of a replay cost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from bench.chains import CHAINS
from bench.measure import chosen, each_number_of_threads, in_turn, report, report_ratio, seconds
from bench.models import GPT, MODELS, RESNET

LIMITS = {
    "MLP 784-256-10, batch 64": 0.5,
    "LSTM of 128, T=50, batch 16": 0.8,
    GPT: 0.9,
    RESNET: 0.9,
}
CHAIN_LIMIT = 0.15
PATIENCE = 120
"""Seconds that PyTorch's compiler has for one step, measured and all."""
BEFORE = 4
"""Calls until a step is replayed: watched, recorded, proved, and one for the memory."""


def main() -> None:
    """Print the ratio of each step, and the first calls' times over an eager one's."""
    import torch

    import gradscope.runtime as ours

    for threads in each_number_of_threads(torch, ours):
        for name, chain in CHAINS.items():
            if chosen.wants(name):
                _compare(f"1,000 × {name}, replayed", chain, CHAIN_LIMIT, 31, threads)
        for name, limit in LIMITS.items():
            if not chosen.wants(name):
                continue
            model = MODELS[name]
            _compare(f"{name}, replayed", model.step, limit, model.rounds, threads)
            _compiled(name, threads)


def _compiled(name: str, threads: int) -> None:
    """PyTorch's own compiler beside it: its step over an eager one, and how long it compiles."""
    command = [sys.executable, "-m", __name__, name, str(threads)]
    try:
        told = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        print(f"  {name}, torch.compile of PyTorch: not done after {PATIENCE} s", flush=True)
        return
    if told.returncode:
        print(f"  {name}, torch.compile of PyTorch: fails ({_last(told.stderr)})")
    else:
        print(f"  {name}, torch.compile of PyTorch: {told.stdout.strip()}", flush=True)


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:100]


def _by_pytorch(name: str, threads: int) -> None:
    """Print what a step compiled by PyTorch takes over an eager one, and its first calls."""
    import torch

    torch.set_num_threads(threads)
    model = MODELS[name]
    compiled = torch.compile(model.step(torch))
    begin = perf_counter()
    for _ in range(3):
        compiled()
    took = perf_counter() - begin
    comparison = in_turn(
        compiled, model.step(torch), rounds=model.rounds, warmups=3, threads=threads
    )
    print(f"{comparison.ratio:.2f} × its eager step; the first 3 calls take {took:.1f} s")


def _compare(
    name: str, make: Callable[[Any], Any], limit: float, rounds: int, threads: int
) -> None:
    import torch

    import gradscope.runtime as ours

    step = make(ours)
    step()  # what is compiled at the first step is compiled
    eager = min(seconds(step) for _ in range(3))
    captured = ours.compile(step)
    first = sum(seconds(captured) for _ in range(BEFORE))
    if not captured.plans:
        print(f"  {name}: {captured.stops[0]}")
        return
    while not captured.plans[0].fusing_tried:
        captured()
    times = in_turn(captured, make(torch), rounds=rounds, threads=threads)
    report_ratio(name, "PyTorch", times, limit)
    report(f"{name}: its first {BEFORE} calls over eager ones", first / BEFORE / eager, 60, "×")


if __name__ == "__main__":
    _by_pytorch(sys.argv[1], int(sys.argv[2]))
