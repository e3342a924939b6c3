"""Anomaly mode: remember where every node was made, and look for NaN in what it returns."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradscope.runtime.autograd.node import Node
from gradscope.runtime.state import ThreadState, local


def remember(node: Node, state: ThreadState) -> None:
    """Keep the stack of the forward call that makes `node`, and the node being run, if any."""
    extra = node.extra()
    frame = sys._getframe(2)
    extra.stack = "".join(traceback.format_stack(frame))
    extra.parent = state.node


def check_outputs(node: Node, outputs: Sequence[Any], *, raw: bool) -> None:
    """Raise at the first NaN a node returns, after telling where the node was made."""
    if not local.state.check_nan:
        return
    for index, grad in enumerate(outputs):
        array = grad if raw or grad is None else grad._array
        if array is None or not np.isnan(np.min(array) if array.size else 0.0):
            continue
        tell(node)
        raise RuntimeError(f"Function '{node.name()}' returned nan values in its {index}th output.")


def tell(node: Node) -> None:
    """Warn with the forward stack of a node, then of the nodes whose backward made it."""
    extra = node._extra
    if extra is None or extra.stack is None:
        warnings.warn(
            f"Error detected in {node.name()}. No forward pass information available. Enable "
            "detect anomaly during forward pass for more information.",
            UserWarning,
            stacklevel=2,
        )
        return
    warnings.warn(
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
        f"{extra.stack}",
        UserWarning,
        stacklevel=2,
    )
    parent = extra.parent
    while parent is not None and parent._extra is not None and parent._extra.stack is not None:
        warnings.warn(
            f"\n\nPrevious calculation was induced by {parent.name()}. Traceback of forward call "
            f"that induced the previous calculation:\n{parent._extra.stack}",
            UserWarning,
            stacklevel=2,
        )
        parent = parent._extra.parent


class detect_anomaly:  # noqa: N801  (PyTorch's name)
    """Context manager: find the operation whose backward makes a NaN."""

    def __init__(self, check_nan: bool = True) -> None:
        self.wanted = (True, check_nan)

    def __enter__(self) -> None:
        state = local.state
        self.before = (state.anomaly, state.check_nan)
        state.anomaly, state.check_nan = self.wanted
        state.refresh()

    def __exit__(self, *error: object) -> None:
        state = local.state
        state.anomaly, state.check_nan = self.before
        state.refresh()


class set_detect_anomaly(detect_anomaly):  # noqa: N801  (PyTorch's name)
    """The same, as a switch that takes effect at once; a context manager that switches back."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.wanted = (mode, check_nan)
        detect_anomaly.__enter__(self)

    def __enter__(self) -> None:
        pass


def is_anomaly_enabled() -> bool:
    return local.state.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    return local.state.check_nan
