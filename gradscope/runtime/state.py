"""What each thread of the runtime is in the middle of: grad mode, modes, the running backward."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any, ClassVar

import numpy as np


class ThreadState:
    """One thread's switches and counters.

    `special` is True while something needs more than the short road of a call: saved-tensor hooks,
    anomaly mode, a function mode, inference mode. The short road tests this one flag.
    """

    subclassed: ClassVar[bool] = False
    anomaly_mode: ClassVar[tuple[bool, bool]] = (False, True)
    """Whether anomaly mode is on and looks for NaN: for all threads, those to come too."""
    all: ClassVar[weakref.WeakSet[ThreadState]] = weakref.WeakSet()

    __slots__ = (
        "__weakref__",
        "anomaly",
        "check_nan",
        "checkpoint_valid",
        "context",
        "disabled_saved_hooks",
        "function_modes",
        "grad_enabled",
        "inference",
        "keeper",
        "next_sequence_nr",
        "node",
        "node_creation_hooks",
        "overrides_disabled",
        "queue",
        "reentrant_depth",
        "saved_hooks",
        "special",
        "task",
        "thread_id",
    )

    def __init__(self) -> None:
        self.grad_enabled = True
        self.inference = False
        self.anomaly, self.check_nan = ThreadState.anomaly_mode
        self.context = 0  # a watcher's number for where this thread is
        self.checkpoint_valid = True  # no node on this thread runs only for some gradients
        self.saved_hooks: list[tuple[Any, Any]] = []
        self.disabled_saved_hooks: str | None = None
        self.keeper: Any = None  # who copies saved tensors before they are written to
        self.function_modes: list[Any] = []
        self.overrides_disabled = False
        self.node_creation_hooks: list[Any] = []
        self.next_sequence_nr = itertools.count().__next__
        self.thread_id = threading.get_ident()
        self.task: Any = None
        self.node: Any = None
        self.queue: Any = None
        self.reentrant_depth = 0
        np.seterr(
            all="ignore"
        )  # a NaN is a value, here as in PyTorch; each thread has its own setting
        ThreadState.all.add(self)
        self.refresh()

    def refresh(self) -> None:
        """Recompute `special` after one of the switches it stands for has changed."""
        self.special = bool(
            ThreadState.subclassed
            or self.anomaly
            or self.inference
            or self.saved_hooks
            or self.function_modes
            or self.node_creation_hooks
        )


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


local = _Local()
"""`local.state` is the calling thread's state."""
