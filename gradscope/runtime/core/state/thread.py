"""What each thread of the runtime is in the middle of: grad mode, modes, the running backward."""

from __future__ import annotations

import itertools
import threading
from copy import copy
from typing import Any, ClassVar

import numpy as np

from gradscope.runtime.core.state.weak_sets import Alive


class ThreadState:
    """One thread's switches and counters.

    `special` is True while something needs more than the short road of a call: saved-tensor hooks,
    anomaly mode, inference mode, a dual level. The short road tests this one flag.
    """

    anomaly_mode: ClassVar[tuple[bool, bool]] = (False, True)
    """Whether anomaly mode is on and looks for NaN: for all threads, those to come too."""
    devices: ClassVar[bool] = False  # whether there are tensors elsewhere than on the CPU
    with_tangents: ClassVar[Any] = None  # who runs calls while a dual level is open, on any thread
    routes: ClassVar[Any] = (
        None  # who looks at every call's keys, see dispatch/operators/built_in.py
    )
    all: ClassVar[Alive[ThreadState]] = Alive()

    __slots__ = (
        "__weakref__",
        "anomaly",
        "autocast",
        "below_autograd",
        "borrowing",
        "check_nan",
        "checkpoint_valid",
        "context",
        "device",
        "disabled_saved_hooks",
        "dispatch_modes",
        "dispatched",
        "formula",
        "function_modes",
        "fw_grad_enabled",
        "grad_enabled",
        "grad_wanted",
        "inference",
        "keeper",
        "keys_excluded",
        "keys_included",
        "multithreading",
        "node",
        "node_creation_hooks",
        "overrides_disabled",
        "path",
        "queue",
        "reentrant_depth",
        "saved_hooks",
        "sequence",
        "special",
        "task",
        "thread_id",
        "transforms",
        "view_replay",
    )

    def __init__(self) -> None:
        self.grad_enabled = True
        self.grad_wanted = True  # grad mode as users see it in inference mode, where it has no say
        self.inference = False
        self.anomaly, self.check_nan = ThreadState.anomaly_mode
        self.autocast: Any = None  # who casts what operations are given, see amp/casting.py
        self.fw_grad_enabled = True
        self.context = 0  # a watcher's number for where this thread is
        self.checkpoint_valid = True  # no node on this thread runs only for some gradients
        self.saved_hooks: list[tuple[Any, Any]] = []
        self.disabled_saved_hooks: str | None = None
        self.keeper: Any = None  # who copies saved tensors before they are written to
        self.function_modes: list[Any] = []
        self.dispatch_modes: list[Any] = []
        self.dispatched: Any = None  # what the call that is on its way to a mode was given
        self.below_autograd = False  # whether a dispatch mode is handling a call
        self.keys_included: frozenset[Any] = frozenset()  # dispatch keys that calls meet, too
        self.keys_excluded: frozenset[Any] = frozenset()  # and that they do not meet
        self.path = ""  # the dispatch keys that the call under way has passed
        self.overrides_disabled = 0  # see tensors/tensor/overriding.py
        self.view_replay = False  # whether every view's history is made anew by calling it again
        self.node_creation_hooks: list[Any] = []
        self.sequence = itertools.count()  # the numbers of nodes; `next` of it is atomic
        self.multithreading = True  # whether other devices' nodes run in their own threads
        self.device: Any = None  # that of the kernel being run, if it is not the CPU
        self.transforms = 0  # how many of torch.func are calling their functions
        self.formula = False  # whether a derivative's formula runs on tensors
        self.thread_id = threading.get_ident()
        self.task: Any = None
        self.node: Any = None
        self.queue: Any = None
        self.reentrant_depth = 0
        self.borrowing = False  # whether the queue is that of another thread, which waits
        np.seterr(
            all="ignore"
        )  # a NaN is a value, here as in PyTorch; each thread has its own setting
        ThreadState.all.add(self)
        self.refresh()

    @classmethod
    def use_devices(cls) -> None:
        """From now on, calls look where their tensors are (Note [Devices off the short road])."""
        cls.devices = True
        for state in list(cls.all):
            state.refresh()

    @classmethod
    def use_routes(cls, routes: Any) -> None:
        """From now on, every call is shown to this function; None: to nobody."""
        cls.routes = routes
        for state in list(cls.all):
            state.refresh()

    def carried(self) -> tuple[Any, ...]:
        """What a backward takes along to the threads that run its nodes."""
        return tuple(copy(getattr(self, name)) for name in CARRIED)

    def carry(self, values: tuple[Any, ...]) -> None:
        """Have the modes and hooks that another thread had."""
        for name, value in zip(CARRIED, values, strict=True):
            setattr(self, name, copy(value))  # threads change theirs each for itself
        self.refresh()

    def modes(self) -> tuple[Any, ...]:
        """The switches themselves: to put back the very lists that code further up works on."""
        return tuple(getattr(self, name) for name in CARRIED)

    def put_back(self, modes: tuple[Any, ...]) -> None:
        for name, value in zip(CARRIED, modes, strict=True):
            setattr(self, name, value)
        self.refresh()

    def refresh(self) -> None:
        """Recompute `special` after one of the switches it stands for has changed."""
        self.special = bool(
            ThreadState.devices
            or ThreadState.routes is not None
            or (ThreadState.with_tangents is not None and self.fw_grad_enabled)
            or self.anomaly
            or self.autocast is not None
            or self.inference
            or self.saved_hooks
            or self.dispatch_modes
            or self.node_creation_hooks
        )


CARRIED = (
    "below_autograd",
    "checkpoint_valid",
    "dispatch_modes",
    "disabled_saved_hooks",
    "function_modes",
    "fw_grad_enabled",
    "inference",
    "keeper",
    "keys_excluded",
    "keys_included",
    "multithreading",
    "node_creation_hooks",
    "overrides_disabled",
    "saved_hooks",
)
"""The switches that go with a backward from the thread that called it to those that run it."""


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


local = _Local()
"""`local.state` is the calling thread's state."""
