"""Gradients of gradients, of a call that has been made."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.runtime import oracle


def first(run: oracle.Run) -> tuple[Any, ...]:
    """Gradients with a graph of their own, and the inputs and seeds they depend on.

    The seeds ask for gradients too, so that derivatives linear in the incoming gradient are seen.
    """
    seeds = [run.engine.wrap(seed).requires_grad_(True) for seed in oracle.seeds_for(run, 2)]
    outputs = [o for o in run.outputs if oracle.is_tensor(o) and o.requires_grad]
    inputs = [x for x in run.inputs if x.requires_grad]
    grad = run.engine.module.autograd.grad
    return grad(outputs, inputs, seeds, create_graph=True, allow_unused=True), inputs, seeds


def second(run: oracle.Run) -> tuple[Any, ...]:
    """First gradients, then the gradients of those."""
    first_grads, inputs, seeds = first(run)
    again = [g for g in first_grads if g is not None and g.requires_grad]
    if not again:
        return first_grads, ()
    rng = np.random.default_rng(3)
    weights = [
        run.engine.wrap(
            np.asarray(rng.uniform(-1, 1, tuple(g.shape))).astype(oracle.array_of(g).dtype)
        )
        for g in again
    ]
    return first_grads, run.engine.module.autograd.grad(
        again, [*inputs, *seeds], weights, allow_unused=True
    )
