"""Anomaly mode: stores where nodes were created, and checks their results for NaN."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradscope.runtime.core.errors.engine import returned as errors
from gradscope.runtime.core.graph.node import Node
from gradscope.runtime.core.state.frames import PARENT, TRACEBACK
from gradscope.runtime.core.state.thread import ThreadState, local


def check_outputs(node: Node, outputs: Sequence[Any], *, raw: bool) -> None:
    """Raise at the first NaN that a node returns."""
    if not local.state.check_nan:
        return
    for index, grad in enumerate(outputs):
        array = grad if raw or grad is None else grad._array
        if array is not None and np.isnan(array).any():
            raise errors.nan_gradient(node, index)


def tell(node: Node) -> None:
    """Warn with the forward stack of a node, then of the nodes whose backward created it."""
    metadata = _metadata(node)
    if TRACEBACK not in metadata:
        _warn(
            f"Error detected in {node.name()}. No forward pass information available. Enable "
            "detect anomaly during forward pass for more information."
        )
        return
    _warn(
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
        f"{''.join(metadata[TRACEBACK])}"
    )
    parent = metadata.get(PARENT)
    while parent is not None:
        metadata = _metadata(parent)
        if TRACEBACK not in metadata:
            _warn(
                "\n\nPrevious calculation was induced by "
                f"{parent.name()}. No forward pass information available. Enable detect anomaly "
                "during forward pass for more information."
            )
            return
        _warn(
            f"\n\nPrevious calculation was induced by {parent.name()}. Traceback of forward call "
            f"that induced the previous calculation:\n{''.join(metadata[TRACEBACK])}"
        )
        parent = metadata.get(PARENT)


def _metadata(node: Node) -> dict[Any, Any]:
    return {} if node._extra is None else node._extra.metadata


def _warn(text: str) -> None:
    """Warn. If warnings are errors, print instead: the present error has priority."""
    try:
        warnings.warn(text, UserWarning, stacklevel=2)
    except UserWarning:
        sys.stderr.write(f"UserWarning: {text}\n")


class detect_anomaly:  # noqa: N801  (PyTorch's name)
    """Context manager: find the operation whose backward produces a NaN."""

    def __init__(self, check_nan: bool = True) -> None:
        self.before = ThreadState.anomaly_mode
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            UserWarning,
            stacklevel=2,
        )

    def __enter__(self) -> None:
        set_anomaly_enabled(True, self.check_nan)

    def __exit__(self, *error: object) -> None:
        set_anomaly_enabled(*self.before)


class set_detect_anomaly:  # noqa: N801  (PyTorch's name)
    """The same with immediate effect; as a context manager, undone at the end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = ThreadState.anomaly_mode
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        set_anomaly_enabled(*self.before)


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Set anomaly mode, in all threads."""
    for position, (name, value) in enumerate(
        {"enabled": enabled, "check_nan": check_nan}.items(), 1
    ):
        if not isinstance(value, bool):
            raise TypeError(
                f"set_anomaly_enabled(): argument '{name}' (position {position}) must be bool, "
                f"not {type(value).__name__}"
            )
    ThreadState.anomaly_mode = (enabled, check_nan)
    for state in list(ThreadState.all):
        state.anomaly, state.check_nan = enabled, check_nan
        state.refresh()


def is_anomaly_enabled() -> bool:
    return local.state.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    return local.state.check_nan
