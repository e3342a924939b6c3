"""A chain of 1,000 small operations, forward and backward, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.measure import chosen, each_number_of_threads, in_turn, report_ratio

OPERATIONS = 1_000
LIMIT = 0.8


def tanh_chain(torch: Any, operations: int = OPERATIONS) -> Callable[[], object]:
    """x = tanh(x @ W) + x, on 8×8 float32: matrix products, a fused derivative, a shared weight."""
    torch.manual_seed(0)
    start, weight = torch.randn(8, 8), torch.randn(8, 8, requires_grad=True)

    def run() -> None:
        x = start
        for _ in range(operations // 3):
            x = torch.tanh(x @ weight) + x
        x.sum().backward()

    return run


def arithmetic_chain(torch: Any, operations: int = OPERATIONS) -> Callable[[], object]:
    """a = tanh(a * y + x) * 0.5: elementwise only, and a number among the operands."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 8, requires_grad=True), torch.randn(8, 8)

    def run() -> None:
        a = x
        for _ in range(operations // 4):
            a = torch.tanh(a * y + x) * 0.5
        a.sum().backward()

    return run


CHAINS = {"tanh(x @ W) + x": tanh_chain, "tanh(a * y + x) * 0.5": arithmetic_chain}


def repeated(run: Callable[[], object], times: int = 5) -> Callable[[], None]:
    """Several runs as one, so that what a round begins with (cold caches) weighs little."""

    def several() -> None:
        for _ in range(times):
            run()

    return several


def main() -> None:
    """Print the ratio for both chains."""
    try:
        import torch
    except ImportError:
        print("  PyTorch is not installed: nothing to compare with")
        return
    import gradscope.runtime as ours

    for threads in each_number_of_threads(torch, ours):
        for name, chain in CHAINS.items():
            if not chosen.wants(name):
                continue
            pair = repeated(chain(ours)), repeated(chain(torch))
            comparison = in_turn(*pair, rounds=41, warmups=3, threads=threads)
            report_ratio(f"5 × {OPERATIONS} × {name}", "PyTorch", comparison, LIMIT)
