"""Devices of tensors, gradients and nodes, once a program uses others than the CPU.

# Note [Devices off the fast path]
Simulated devices cost nothing unless used: the first tensor on one sets `ThreadState.devices`, and
from then on every call takes the general path (calls/long_way.py), which checks devices. A tensor's
device is that of its storage; tensors without storage are on the CPU. A node's device is that of
the gradients it receives, stored in its `Extra`; other nodes run on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.devices.devices import CPU, device, stream_of
from gradscope.runtime.core.errors.engine.devices import several_devices
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.runtime.core.tensors.memory.storage import Storage
from gradscope.runtime.core.tensors.wrapping import fresh

if TYPE_CHECKING:
    from gradscope.runtime.core.graph.node import Node
    from gradscope.runtime.core.rows.operation import Operation


@layout_only
def wrapped_on(array: Any, where: device | None) -> Any:
    """A detached tensor with an array on a device."""
    made = fresh(array)
    if where is not None and where is not CPU:
        made._storage = Storage(made._array, where)
    return made


@layout_only
def place(made: Any, where: device) -> Any:
    """Put a new tensor on a device."""
    if where is CPU and made._storage is None:
        return made
    if not ThreadState.devices:
        ThreadState.use_devices()
    made._storage = Storage(made._array, None if where is CPU else where)
    if probe.here is not None:
        probe.here.placed(made, where)
    return made


def mark(node: Node, tensor: Any) -> None:
    """Let a node run on the device of the tensor whose gradient it receives."""
    storage = tensor._storage
    if storage is not None and storage.device is not None:
        node.extra().device = storage.device


def common(op: Operation, values: Sequence[Any]) -> device | None:
    """The common device of all tensors of a call; None for the CPU.

    Numbers and CPU tensors without dims are valid for every device. Inside a derivative's formula
    other CPU tensors are, too: they are constants of the formula. `copy_` works across devices.
    """
    if op.name == "copy_":
        return _device_written_to(*values[:2])
    found, plain = None, None
    for p, value in zip(op.plan.parameters, values, strict=True):
        if not p.tensor or value is None:
            continue
        for tensor in value if isinstance(value, list) else (value,):
            storage = tensor._storage
            where = None if storage is None else storage.device
            if where is None:
                if plain is None and tensor._array.ndim and not p.not_promoted:
                    plain = tensor
            elif found is None:
                found = where
            elif found != where:
                _refuse(found, where)
    if found is not None and plain is not None and not local.state.formula:
        _refuse(found, CPU)
    return found


def _device_written_to(target: Any, source: Any) -> device | None:
    """The device of the target of a copy, after waiting for the source."""
    where = None if target._storage is None else target._storage.device
    if source._storage is not None and source._storage.device not in (None, where):
        read(source)
    return where


def _refuse(first: device, second: device) -> None:
    raise several_devices(first, second)


def on_device(
    op: Operation, values: Sequence[Any], arrays: Sequence[Any], begin: int, where: device
) -> Any:
    """Run an operation as a kernel of a device."""
    stream_of(where).launch()
    if where.type == "meta":
        op = without_numbers(op)
    state = local.state
    before, state.device = state.device, where
    try:
        made = op.full(*values, *arrays, begin)
    finally:
        state.device = before
    for one in made if isinstance(made, tuple | list) else (made,):
        if one is not None and (one._storage is None or one._storage.device is None):
            place(one, where)
    return made


def read(tensor: Any) -> None:
    """Wait until a value that leaves its device is computed."""
    storage = tensor._storage
    if storage is None or storage.device is None:
        return
    if storage.device.type == "meta":
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data!\nUse torch.nn.Module.to_empty() to give the "
            "parameters of a module memory on another device."
        )
    stream_of(storage.device).synchronize()


DEPENDS_ON_NUMBERS = frozenset(
    {"bincount", "histc", "index", "masked_select", "nonzero", "unique_dim", "_unique", "_unique2"}
)
"""Operations whose result shapes depend on values."""


@cache
def without_numbers(op: Operation) -> Operation:
    """The operation on tensors without data.

    Result shapes come from the kernel, run on uninitialized memory. An in-place write writes
    nothing.
    """
    if op.base_name in DEPENDS_ON_NUMBERS:
        kernel: Any = _Refused(op.base_name, op.kernel)
    elif op.plan.kind == "inplace":
        kernel = _untouched
    else:
        return op
    twin = copy(op)
    scope = {**op.full.__globals__, "kernel": kernel}
    twin.full = scope["unbuilt_full"].function(scope)
    return twin


def _untouched(target: Any, *rest: Any, **options: Any) -> Any:
    return target


class _Refused:
    """A kernel that cannot determine the size of its result."""

    def __init__(self, name: str, kernel: Any) -> None:
        self._name = name
        self._kernel = kernel

    def __call__(self, *arrays: Any, **options: Any) -> Any:
        if self._name == "index" and not _picks_by_truth(arrays):
            return self._kernel(*arrays, **options)
        raise NotImplementedError(
            f"The register_meta function for torch.{self._name}() raises unimplemented by default, "
            "as a correct data-independent implementation does not exist."
        )


def _picks_by_truth(arrays: Sequence[Any]) -> bool:
    """Whether one of the indices is a mask."""
    flat = [a for each in arrays for a in (each if isinstance(each, list | tuple) else [each])]
    known = [getattr(each, "_array", each) for each in flat[1:]]
    return any(getattr(each, "dtype", None) == np.bool_ for each in known)
