"""Steps without calls of operations: all parameters at once, if nothing can notice the difference.

An optimizer's `_update` defines in operations how one parameter is updated. If no mode is on,
gradients are off and the tensors are ordinary, kernels do the same for all parameters at once: same
arithmetic, same order, same number of increments of version counters. A watcher gets the writes
reported as one fused operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.custom.function import CustomOperation
from gradscope.runtime.core.kernels.arrays import stepping
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.state.array_calls import layout_only, optimizer_step
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.views.in_place import count_write
from gradscope.runtime.nn.parameter import Parameter
from gradscope.runtime.optim.options import Group

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
ORDINARY = (Tensor, Parameter)


def stepped(
    optimizer: Any,
    params: Sequence[Any],
    grads: Sequence[Any],
    states: Sequence[dict[str, Any]],
    group: Group,
) -> bool:
    """Update these parameters on the fast path; False if that is impossible."""
    state = local.state
    if (
        state.special
        or state.grad_enabled
        or state.keeper is not None
        or state.function_modes
        or group.get("capturable")
        or any(isinstance(group[name], Tensor) for name in ("lr", "weight_decay"))
    ):
        return False
    kinds = optimizer.quick.states(group)
    kept = [[own.get(kind) for own in states] for kind in kinds]
    lists = _arrays([params, grads, *kept])
    if lists is None or len({id(param) for param in params}) != len(params):
        return False
    here = probe.here
    begin = 0 if here is None else here.clock()
    written = all_at_once(optimizer, group, states, (params, kept), lists)
    if here is not None:
        written += [own["step"] for own in states if "step" in own]
        fused = fused_operation(type(optimizer).__name__)
        here.fused(fused, [*params, *grads], written, begin, state)
    return True


@optimizer_step
def all_at_once(
    optimizer: Any,
    group: Group,
    states: Sequence[dict[str, Any]],
    tensors: tuple[Sequence[Any], Sequence[Sequence[Any]]],
    lists: list[list[Any]],
) -> list[Any]:
    """Update parameters, whose arrays are in `lists`. Returns what was written, in order.

    `tensors` are these parameters and their states.
    """
    for options, places in optimizer.quick.options(group, states):
        if places is None:
            optimizer.quick.kernel(options, lists)
        else:
            optimizer.quick.kernel(options, [[row[i] for i in places] for row in lists])
    params, kept = tensors
    written: list[Any] = []
    for nr, writer in optimizer.quick.writes(group):
        operation = REGISTRY[writer]
        row = params if nr == 0 else kept[nr - 2]
        for tensor in row:
            count_write(tensor, operation)
        written += row
    return written


@cache
def fused_operation(optimizer: str) -> CustomOperation:
    """How a step is reported to a watcher: as one operation that writes to many tensors."""
    return CustomOperation(f"_fused_{optimizer.lower()}_")


@layout_only
def _arrays(rows: Sequence[Sequence[Any]]) -> list[list[Any]] | None:
    """The arrays, if all are ordinary tensors of one dtype, each column of one shape."""
    first = rows[0][0]._array.dtype
    if first not in FLOATS:
        return None
    shapes = [tensor._array.shape for tensor in rows[0]]
    lists = []
    for row in rows:
        arrays = []
        for tensor, shape in zip(row, shapes, strict=True):
            if tensor.__class__ not in ORDINARY:
                return None
            array = tensor._array
            if array.dtype is not first or array.shape != shape or not array.flags.c_contiguous:
                return None
            versions = tensor._versions
            if versions is not None and not versions.tracks:
                return None
            arrays.append(array)
        lists.append(arrays)
    return lists


@layout_only
def _counted(states: Sequence[dict[str, Any]]) -> dict[float, list[int]]:
    """Increment all step counts. Returns the positions of parameters by their count."""
    operation = REGISTRY["add_"]
    counts: dict[float, list[int]] = {}
    for place, own in enumerate(states):
        step = own["step"]
        array = step._array
        taken = float(array) + 1
        array[...] = taken
        count_write(step, operation)
        counts.setdefault(taken, []).append(place)
    return counts


def _groups(counts: dict[float, list[int]]) -> list[tuple[float, list[int] | None]]:
    if len(counts) == 1:
        return [(step, None) for step in counts]
    return list(counts.items())


class QuickSGD:
    """Kernels of SGD."""

    kernel = staticmethod(stepping.sgd)

    def states(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def options(self, group: Group, states: Any) -> list[tuple[Any, Any]]:
        names = stepping.SGDOptions._fields
        return [(stepping.SGDOptions(*(group[name] for name in names)), None)]

    def writes(self, group: Group) -> list[tuple[int, str]]:
        """Which lists are written to, by which operation, in order."""
        moving = [(2, "mul_"), (2, "add_.alpha")] if group["momentum"] != 0 else []
        return [*moving, (0, "add_.alpha")]


class QuickAdam:
    """Kernels of Adam."""

    kernel = staticmethod(stepping.adam)

    def states(self, group: Group) -> tuple[str, ...]:
        kept = ("exp_avg", "exp_avg_sq")
        return (*kept, "max_exp_avg_sq") if group["amsgrad"] else kept

    def options(self, group: Group, states: Any) -> list[tuple[Any, Any]]:
        beta1, beta2 = group["betas"]
        lr, decay = group["lr"], group["weight_decay"]
        own = group["decoupled_weight_decay"]
        made = []
        for step, places in _groups(_counted(states)):
            options = stepping.AdamOptions(
                shrink=1 - lr * decay if own and decay != 0 else 1,
                weight_decay=0 if own else decay,
                mean_weight=1 - beta1,
                beta2=beta2,
                square_weight=1 - beta2,
                correction=(1 - beta2**step) ** 0.5,
                eps=group["eps"],
                size=lr / (1 - beta1**step),
                maximize=group["maximize"],
            )
            made.append((options, places))
        return made

    def writes(self, group: Group) -> list[tuple[int, str]]:
        decayed = group["decoupled_weight_decay"] and group["weight_decay"] != 0
        return [
            *([(0, "mul_")] if decayed else []),
            (2, "lerp_.Scalar"),
            (3, "mul_"),
            (3, "addcmul_"),
            *([(4, "copy_")] if group["amsgrad"] else []),
            (0, "addcdiv_"),
        ]


class QuickRMSprop:
    """Kernels of RMSprop."""

    kernel = staticmethod(stepping.rmsprop)

    def states(self, group: Group) -> tuple[str, ...]:
        moving = ("momentum_buffer",) if group["momentum"] > 0 else ()
        return ("square_avg", *moving, *(("grad_avg",) if group["centered"] else ()))

    def options(self, group: Group, states: Any) -> list[tuple[Any, Any]]:
        _counted(states)
        names = stepping.RMSpropOptions._fields
        return [(stepping.RMSpropOptions(*(group[name] for name in names)), None)]

    def writes(self, group: Group) -> list[tuple[int, str]]:
        names = self.states(group)
        made = [(2, "mul_"), (2, "addcmul_")]
        if group["centered"]:
            made.append((1 + len(names), "lerp_.Scalar"))
        if group["momentum"] > 0:
            return [*made, (3, "mul_"), (3, "addcdiv_"), (0, "add_.alpha")]
        return [*made, (0, "addcdiv_")]
