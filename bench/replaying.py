"""Captured steps: replayed against PyTorch's eager ones, and what the guards of a replay cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.chains import arithmetic_chain, tanh_chain
from bench.measure import in_turn, report, report_ratio, seconds
from bench.models import GPT, MODELS, RESNET

LIMITS = {
    "MLP 784-256-10, batch 64": 0.5,
    "LSTM of 128, T=50, batch 16": 0.8,
    GPT: 0.9,
    RESNET: 0.9,
}
CHAIN_LIMIT = 0.15
BEFORE = 4
"""Calls until a step is replayed: watched, recorded, proved, and one for the memory."""


def main() -> None:
    """Print the ratio of each step, and the first calls' times over an eager one's."""
    import torch

    import gradscope.runtime as ours

    torch.set_num_threads(1)
    ours.set_num_threads(1)
    for name, chain in (("tanh(x @ W) + x", tanh_chain), ("tanh(a*y + x) * 0.5", arithmetic_chain)):
        _compare(f"1,000 × {name}, replayed", chain, CHAIN_LIMIT, 31)
    for name, limit in LIMITS.items():
        model = MODELS[name]
        _compare(f"{name}, replayed", model.step, limit, model.rounds)


def _compare(name: str, make: Callable[[Any], Any], limit: float, rounds: int) -> None:
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
    while limit == CHAIN_LIMIT and not captured.plans[0].fusing_tried:
        captured()
    report_ratio(name, "PyTorch", in_turn(captured, make(torch), rounds=rounds), limit)
    report(f"{name}: its first {BEFORE} calls over eager ones", first / BEFORE / eager, 60, "×")
