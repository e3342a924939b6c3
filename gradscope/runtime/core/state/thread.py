"""State of each thread of the runtime: grad mode, modes, the running backward."""

from __future__ import annotations

import itertools
import threading
from copy import copy
from typing import Any, ClassVar

import numpy as np

from gradscope.runtime.core.state.weak_sets import Alive


class ThreadState:
    """One thread's switches and counters.

    `special` is True while something needs more than the fast path of calls: saved-tensor hooks,
    anomaly mode, inference mode, a dual level. The fast path tests only this flag.
    """

    anomaly_mode: ClassVar[tuple[bool, bool]] = (False, True)
    """Whether anomaly mode is on and checks for NaN, in all threads."""
    devices: ClassVar[bool] = False  # whether any tensor is not on the CPU
    with_tangents: ClassVar[Any] = None  # runs calls while a dual level is open
    routes: ClassVar[Any] = None  # checks every call's keys, see dispatch/operators/built_in.py
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
        self.grad_wanted = True  # grad mode as users see it in inference mode, without effect there
        self.inference = False
        self.anomaly, self.check_nan = ThreadState.anomaly_mode
        self.autocast: Any = None  # casts arguments, see amp/casting.py
        self.fw_grad_enabled = True
        self.context = 0  # a watcher's number for this thread's context
        self.checkpoint_valid = True  # no node here runs for some gradients only
        self.saved_hooks: list[tuple[Any, Any]] = []
        self.disabled_saved_hooks: str | None = None
        self.keeper: Any = None  # copies saved tensors before writes
        self.function_modes: list[Any] = []
        self.dispatch_modes: list[Any] = []
        self.dispatched: Any = None  # arguments of the call that goes to a mode
        self.below_autograd = False  # whether a dispatch mode is handling a call
        self.keys_included: frozenset[Any] = frozenset()  # dispatch keys that calls meet, too
        self.keys_excluded: frozenset[Any] = frozenset()  # and that they do not meet
        self.path = ""  # the dispatch keys that the present call has passed
        self.overrides_disabled = 0  # see tensors/tensor/overriding.py
        self.view_replay = False  # whether views are always replayed for a new history
        self.node_creation_hooks: list[Any] = []
        self.sequence = itertools.count()  # numbers of nodes; `next` is atomic
        self.multithreading = True  # whether devices' nodes run in their own threads
        self.device: Any = None  # device of the running kernel, if not the CPU
        self.transforms = 0  # number of torch.func transforms that are calling functions
        self.formula = False  # whether a derivative's formula runs on tensors
        self.thread_id = threading.get_ident()
        self.task: Any = None
        self.node: Any = None
        self.queue: Any = None
        self.reentrant_depth = 0
        self.borrowing = False  # whether it uses the queue of a waiting thread
        np.seterr(all="ignore")  # NaN is a value, here as in PyTorch; the setting is per thread
        ThreadState.all.add(self)
        self.refresh()

    @classmethod
    def use_devices(cls) -> None:
        """From now on, calls check the devices of tensors (Note [Devices off the fast path])."""
        cls.devices = True
        for state in list(cls.all):
            state.refresh()

    @classmethod
    def use_routes(cls, routes: Any) -> None:
        """From now on, pass every call to this function; None: to none."""
        cls.routes = routes
        for state in list(cls.all):
            state.refresh()

    def carried(self) -> tuple[Any, ...]:
        """The state that a backward carries to the threads that run its nodes."""
        return tuple(copy(getattr(self, name)) for name in CARRIED)

    def carry(self, values: tuple[Any, ...]) -> None:
        """Take over the modes and hooks of another thread."""
        for name, value in zip(CARRIED, values, strict=True):
            setattr(self, name, copy(value))  # each thread changes its own copy
        self.refresh()

    def modes(self) -> tuple[Any, ...]:
        """The switches themselves, to restore the same list objects that callers use."""
        return tuple(getattr(self, name) for name in CARRIED)

    def put_back(self, modes: tuple[Any, ...]) -> None:
        for name, value in zip(CARRIED, modes, strict=True):
            setattr(self, name, value)
        self.refresh()

    def refresh(self) -> None:
        """Recompute `special` after one of its switches has changed."""
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
"""Switches that go with a backward from the calling thread to those that run it."""


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


local = _Local()
"""`local.state` is the calling thread's state."""
