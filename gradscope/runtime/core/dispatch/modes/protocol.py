"""`__torch_dispatch__`: modes that see operations below autograd.

# Note [Below autograd]
While a mode is on, a call takes the general path, whose kernel is replaced by a stand-in that calls
the innermost mode with the given tensors. So the path creates the node, counts the write and shares
the storage of a view, as always, around the mode's result. Inside a mode nothing is recorded, and
an overload runs on arrays, or goes to the next outer mode. A backward runs on tensors, so that
modes see the operations of its formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cache
from typing import Any

import numpy as np

from gradscope.runtime.core.calls.long_way import arrays_of, tensors_of
from gradscope.runtime.core.dispatch.modes.aten import BY_NAME, OpOverload, aten
from gradscope.runtime.core.dtypes.dtypes import dtype, from_numpy
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.rows.traits import COMPARES
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.asking_modes import asked
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.runtime.core.tensors import placement
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.views.views import share
from gradscope.runtime.core.tensors.wrapping import wrap


@cache
def observed(op: Operation) -> Operation:
    """The same operation with a kernel that calls the innermost mode."""
    twin = copy(op)
    scope = {**op.full.__globals__, "kernel": _StandIn(op)}
    twin.full = scope["unbuilt_full"].function(scope)
    return twin


class _StandIn:
    """Called with arrays, as a kernel is. The mode receives the tensors."""

    def __init__(self, op: Operation) -> None:
        self.op = op

    def __call__(self, *arrays: Any, **options: Any) -> Any:
        state = local.state
        values, state.dispatched = state.dispatched, None
        result = _asked_or_run(self.op, values, state)
        if self.op.plan.outputs == 1:
            return _array(result)
        return tuple(None if each is None else _array(each) for each in result)


def _asked_or_run(op: Operation, values: Sequence[Any], state: ThreadState) -> Any:
    """The result of the innermost mode, or of the kernel that a user has registered."""
    if state.dispatch_modes:
        return ask(op, values, state)
    from gradscope.runtime.core.dispatch.operators.built_in import run_lowered

    return run_lowered(op, values, state)


def _array(result: Any) -> Any:
    if not isinstance(result, Tensor):
        raise RuntimeError(f"Unable to cast {result!r} to Tensor")
    return result._array


def ask(op: Operation, values: Sequence[Any], state: ThreadState) -> Any:
    """The result of the innermost mode for an operation with these values."""
    args, kwargs = presented(op, values)
    func = aten.overload_of(op)
    if COMPARES in op.traits and len(args) == 2 and not isinstance(args[1], Tensor):
        func = func.overloadpacket.Scalar
    return asked(func, args, kwargs, state)


def presented(op: Operation, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Values as PyTorch passes them to a mode: numbers as such, without trailing defaults."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    kept = 0
    lists = aten.overload_of(op)._overloadname.endswith("_IntList")
    for p, value in zip(op.plan.parameters, values, strict=True):
        given = value
        if isinstance(given, Tensor) and "wrapped_number" in given.__dict__:
            given = given.__dict__["wrapped_number"]
        if isinstance(given, np.dtype):
            given = from_numpy(given)
        elif isinstance(given, tuple):
            given = list(given)
        elif lists and p.name == "dim" and isinstance(given, int):
            given = [given]
        usual = p.has_default and not isinstance(given, Tensor) and given == p.default
        if p.keyword_only or p.name in BY_NAME:
            if not usual:
                kwargs[p.name] = given
            continue
        args.append(given)
        kept = kept if usual else len(args)
    return tuple(args[:kept]), kwargs


def run(op: Operation, values: list[Any]) -> Any:
    """Call an overload: from the top outside of modes, otherwise below the calling mode."""
    state = local.state
    if not state.below_autograd:
        return op.call_with(*values)
    values = tensors_of(op, values)
    if state.dispatch_modes:
        return ask(op, values, state)
    if ThreadState.routes is not None:
        from gradscope.runtime.core.dispatch.operators.built_in import is_lowered, run_lowered

        if is_lowered(op, values, state):
            return run_lowered(op, values, state)
    return computed(op, values)


def computed(op: Operation, values: list[Any]) -> Any:
    """Run the operation on arrays. Its results are detached tensors."""
    where = placement.common(op, values) if ThreadState.devices else None
    arrays = iter(arrays_of(op, values))
    given = [
        (p, next(arrays) if p.tensor else _for_kernel(value))
        for p, value in zip(op.plan.parameters, values, strict=True)
    ]
    result = op.kernel(
        *[value for p, value in given if not p.keyword_only],
        **{p.name: value for p, value in given if p.keyword_only},
    )
    if op.plan.kind == "inplace":
        target = values[0]
        if result is not target._array:
            np.copyto(target._array, result, casting="unsafe")
        return target
    if op.plan.outputs == 1:
        return _made(op, values, result, where)
    return tuple(None if each is None else _made(op, values, each, where) for each in result)


def _for_kernel(value: Any) -> Any:
    """An option in the kernels' form: PyTorch passes lists of numbers, and its own dtypes."""
    if isinstance(value, dtype):
        return value.numpy
    if isinstance(value, list) and all(isinstance(each, int) for each in value):
        return tuple(value)
    return value


def _made(op: Operation, values: Sequence[Any], array: Any, where: Any) -> Any:
    made = wrap(array) if where is None else placement.wrapped_on(array, where)
    if op.plan.kind == "view" and made._array.base is not None:
        share(made, values[0])
    return made


def given_to_modes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], act: Any) -> Any:
    """Call the modes for something that is not a row. `act` does it below all modes."""
    state = local.state
    return asked(Outlying(name, act), args, kwargs, state)


class Outlying(OpOverload):
    """An overload without a row."""

    def __init__(self, name: str, act: Any) -> None:
        from gradscope.runtime.core.dispatch.modes.aten import OpOverloadPacket

        base, _, overload = name.partition(".")
        self.overloadpacket = OpOverloadPacket(base)
        self._overloadname = overload
        self.rows = []
        self.__name__ = self.__qualname__ = name
        self._act = act

    @property
    def is_view(self) -> bool:
        return False

    def name(self) -> str:
        base, _, overload = self.__name__.partition(".")
        return f"aten::{base}" if overload == "default" else f"aten::{self.__name__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = local.state
        if state.dispatch_modes:
            return asked(self, args, kwargs, state)
        return self._act(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpOverload) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash(self.__name__)


upward.given_to_modes = given_to_modes
upward.observed = observed
