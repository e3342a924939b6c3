"""Calls a node once more, and says what it returns for the same values.

# Note [A node that is called again]
A node that PyTorch generates is a function of what it receives and saves: it writes to neither and
draws no random numbers. So it can be called again without a change of the program, if nothing sees
it: a mode, a profiler, or a kernel that the program has registered in Python. On other devices it
would take memory and wait, so only nodes on the CPU are called again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from gradscope.watch.unseen import unseen

GENERATED = frozenset(name for name in dir(torch._C._functions) if name[-1:].isdigit())
"""Names of nodes that PyTorch generates, as TanhBackward0."""

OF_OTHER_DEVICES = ("/Meta", "/CUDA", "/MPS")
"""Ends of the names of kernels that PyTorch itself has registered in Python."""


def called_again(node: Any, grads: Sequence[Any]) -> tuple[Any, ...]:
    """What a node returns for these gradients; empty: it is not called again."""
    on_cpu = all(each is None or each.device.type == "cpu" for each in grads)
    if type(node).__name__ not in GENERATED or not on_cpu or _is_seen():
        return ()
    try:
        with unseen(), torch.no_grad():
            made = node(*grads)
    except RuntimeError:  # so will the program's own call
        return ()
    return made if isinstance(made, tuple) else (made,)


def _is_seen() -> bool:
    """Whether code of the program may see calls of kernels."""
    return (
        torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.maybe_current_level() is not None
        or torch.autograd._profiler_enabled()
        or _has_kernels(len(torch.library._impls))
    )


@cache
def _has_kernels(many: int) -> bool:  # noqa: ARG001 -- the result is kept until it changes
    """Whether the program has registered kernels; `many`: number of kernels in Python."""
    return any(
        name.startswith("aten/") and not name.endswith(OF_OTHER_DEVICES)
        for name in torch.library._impls
    )
