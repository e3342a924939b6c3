"""Functions that are replaced while a step is recorded.

# Note [Exchanged, not asked]
The fast path of an operation finds its kernel by name in its own globals, and the engine finds the
evaluation of nodes in its module. While one step is recorded these names refer to functions that
also record the call; afterwards they are restored. So an ordinary call has no extra check. Other
threads that run meanwhile use the same functions, which record nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns as clock
from typing import Any

import numpy as np

from gradscope.runtime.core.autograd.engine import backward, engine
from gradscope.runtime.core.calls import long_way
from gradscope.runtime.core.generated.first_call import scopes
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.state.array_calls import ARRAY_CALLS, OPTIMIZER_STEPS
from gradscope.runtime.core.tensors.placement import DEPENDS_ON_NUMBERS
from gradscope.runtime.fast.capture.recording.evaluating import Evaluating
from gradscope.runtime.fast.capture.recording.recording import StepRecording
from gradscope.runtime.fast.capture.recording.trees import SameValue

Scope = dict[str, Any]
Exchange = tuple[Scope, str, Any]
"""A namespace, a name in it, and its value while a step is recorded."""


@contextmanager
def exchanged(recording: StepRecording) -> Iterator[None]:
    """Record inside the block."""
    exchanges = [*_of_roads(recording), *_of_modules(recording)]
    before = [(scope, name, scope[name]) for scope, name, _ in exchanges]
    try:
        for scope, name, meant in exchanges:
            scope[name] = meant
        yield
    finally:
        for scope, name, meant in before:
            scope[name] = meant


def _of_roads(recording: StepRecording) -> Iterator[Exchange]:
    for scope in (each for each in scopes() if "kernel" in each):
        op = scope["op"]
        yield scope, "kernel", _kernel(recording, op, scope["kernel"])
        yield scope, "lie", _noted(recording, scope["lie"], f"{op.name}: layout")
        yield scope, "write", _write(recording, scope["write"])
        yield scope, "number_array", _number(recording, scope["number_array"])


def _of_modules(recording: StepRecording) -> Iterator[Exchange]:
    evaluating = Evaluating(recording)
    yield vars(engine), "evaluate_function", evaluating.evaluate
    yield vars(backward), "_implicit", _implicit(recording)
    for name in ("_cast", "_floating"):
        yield vars(long_way), name, _cast(recording, vars(long_way)[name])
    yield vars(long_way), "wrapped_number", _wrapped(recording)
    for function in ARRAY_CALLS:
        label = function.__name__.strip("_")
        yield function.__globals__, function.__name__, _noted(recording, function, label)
    for function in OPTIMIZER_STEPS:
        yield function.__globals__, function.__name__, _step(recording, function)


def _noted(recording: StepRecording, function: Any, label: str) -> Callable[..., Any]:
    if function is None:
        return function  # type: ignore[return-value]

    def noted(*args: Any, **named: Any) -> Any:
        return recording.run(function, args, named, label=label)

    return noted


def _kernel(recording: StepRecording, op: Operation, kernel: Any) -> Callable[..., Any]:
    """The kernel of an operation, which also records."""
    if op.base_name in DEPENDS_ON_NUMBERS:
        return _kernel_that_looks(recording, op, kernel)

    def noted(*args: Any, **named: Any) -> Any:
        return recording.run(kernel, args, named, label=op.name)

    return noted


def _kernel_that_looks(recording: StepRecording, op: Operation, kernel: Any) -> Callable[..., Any]:
    """The kernel of an operation whose result's size depends on values."""

    def noted(*args: Any, **named: Any) -> Any:
        if recording.listens and (op.base_name != "index" or _by_truth(args)):
            recording.stop(f"{op.base_name}: the size of its result depends on values")
        return recording.run(kernel, args, named, label=op.name)

    return noted


def _by_truth(args: tuple[Any, ...]) -> bool:
    """Whether one of the indices is a mask."""
    flat = [a for each in args[1:] for a in (each if isinstance(each, list | tuple) else [each])]
    arrays = [getattr(each, "_array", each) for each in flat]
    return any(getattr(each, "dtype", None) in (np.bool_, np.uint8) for each in arrays)


def put(target: Any, result: Any) -> None:
    """Write the result of an operation to its target array."""
    if result is not target:
        np.copyto(target, result, casting="unsafe")


def _write(recording: StepRecording, write: Callable[..., Any]) -> Callable[..., Any]:
    def noted(target: Any, result: Any, writer: Any) -> None:
        if recording.listens and result is not target._array:
            given = (recording.tree(target._array), recording.tree(result))
            call = recording.call(put, given, {}, None, "write", kind="write")
            recording.calls.append(call)
        write(target, result, writer)

    return noted


def _number(recording: StepRecording, number_array: Callable[..., Any]) -> Callable[..., Any]:
    def noted(number: Any, dtype: Any, known: Any) -> Any:
        made = number_array(number, dtype, known)
        recording.constant(made)
        return made

    return noted


def _wrapped(recording: StepRecording) -> Callable[..., Any]:
    before = vars(long_way)["wrapped_number"]

    def noted(value: Any) -> Any:
        made = before(value)
        recording.constant(made._array)
        return made

    return noted


def _cast(recording: StepRecording, cast: Callable[..., Any]) -> Callable[..., Any]:
    """The casts of the general path: of one tensor; for a list it calls itself."""

    def noted(value: Any, *dtype: Any) -> Any:
        made = cast(value, *dtype)
        if value is None or isinstance(value, list) or made is value._array:
            return made
        if recording.listens and recording.number(made) is None:
            given = (recording.tree(value._array), recording.tree(made.dtype))
            nr = recording.new(made)
            recording.calls.append(recording.call(as_type, given, {}, nr, "cast"))
        return made

    return noted


def as_type(array: Any, dtype: Any) -> Any:
    return array.astype(dtype)


def _step(recording: StepRecording, step: Callable[..., Any]) -> Callable[..., Any]:
    """A step of an optimizer. Each replay reads its options anew and counts its writes."""

    def noted(optimizer: Any, group: Any, states: Any, tensors: Any, lists: Any) -> Any:
        if not recording.listens:
            return step(optimizer, group, states, tensors, lists)
        constants = [SameValue(value) for value in (optimizer, group, states, tensors)]
        given = (*constants, recording.tree(lists))
        label = f"{type(optimizer).__name__}.step"
        part, recording.part = recording.part, "optimizer"
        call = recording.call(step, given, {}, None, label, kind="step")
        recording.calls.append(call)
        recording.part = part
        params, kept = tensors
        written = [*params, *(t for row in kept for t in row)]
        written += [own["step"] for own in states if "step" in own]
        before = [0 if t._versions is None else t._versions.value for t in written]
        recording.inside += 1
        call.begin = clock()
        try:
            return step(optimizer, group, states, tensors, lists)
        finally:
            call.end = clock()
            recording.inside -= 1
            for tensor, version in zip(written, before, strict=True):
                told = recording.told.get(id(tensor), 0)
                recording.told[id(tensor)] = told + tensor._versions.value - version

    return noted


def _implicit(recording: StepRecording) -> Callable[..., Any]:
    """The implicit initial gradient."""
    before = backward._implicit

    def noted(root: Any) -> Any:
        made = before(root)
        if made is not None:
            recording.constant(made._array)
        return made

    return noted
