"""How built-in operations take part in dispatch.

# Note [Built-in calls]
A call of a built-in operation does the work of all its keys at once: autograd, views and writes,
and the kernel. Only if a kernel is registered for a built-in operation or for all operators, or if
the path of calls is watched, `ThreadState.routes` is set, and calls take the general path, which
passes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core.dispatch.modes.aten import OpOverload, aten
from gradscope.runtime.core.dispatch.operators.key_dispatch import keys_of_call
from gradscope.runtime.core.dispatch.operators.keys import (
    AUTOGRAD_KEYS,
    DispatchKey,
    DispatchKeySet,
    key_of,
)
from gradscope.runtime.core.dispatch.operators.operator import Kernel, Operator, fallbacks
from gradscope.runtime.core.dispatch.operators.schema import parse_schema
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.state.thread import ThreadState, local

_operators: dict[Operation, Operator] = {}
watched: list[object] = []
"""Owners that watch the path of every call."""


def operator_of(op: Operation) -> Operator:
    """The operator of a row of the table."""
    found = _operators.get(op)
    if found is None:
        overload = aten.overload_of(op)
        found = overload.__dict__.get("operator")
        if found is None:
            found = overload.__dict__["operator"] = _made(overload, op)
        _operators[op] = found
    return found


def _made(overload: OpOverload, op: Operation) -> Operator:
    text = str(overload._schema)
    try:
        schema = parse_schema(text)
    except RuntimeError:  # a row's text lists arguments only
        schema = parse_schema(f"{overload.name()}() -> Tensor")
    made = Operator(schema, "built in")
    made.overload = overload
    for name in ("CPU", "Sim", "Meta"):
        made.kernels[key_of(name)] = Kernel(_Below(op), "built in", kind="built in")
        key = key_of(f"Autograd{name}")
        made.kernels[key] = Kernel(_Whole(op), "built in", kind="built in")
    return made


class _Whole:
    """The full path of an operation as a kernel: autograd, views and writes, and what is below."""

    def __init__(self, op: Operation) -> None:
        self.op = op

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from gradscope.runtime.core.calls.long_way import take_road

        op, values = aten.overload_of(self.op)._bound(args, kwargs)
        return take_road(op, tuple(values), above=False)


class _Below:
    """The kernel of an operation alone."""

    def __init__(self, op: Operation) -> None:
        self.op = op

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from gradscope.runtime.core.calls.long_way import tensors_of
        from gradscope.runtime.core.dispatch.modes.protocol import computed

        op, values = aten.overload_of(self.op)._bound(args, kwargs)
        return computed(op, tensors_of(op, values))


def is_built_in(kernel: Kernel | None) -> bool:
    return kernel is None or isinstance(kernel.function, _Whole | _Below)


def routed(
    op: Operation, values: list[Any], arrays: list[Any], begin: int, where: Any, *, above: bool
) -> Any:
    """A call with users' kernels. `above`: those above autograd, too."""
    from gradscope.runtime.core.calls.long_way import down

    state = local.state
    keys = keys_of_call(values, state)
    before = state.path
    try:
        found = _first(operator_of(op), keys) if above else None
        if found is not None:
            return _given(op, *found, keys, values, state)
        passed = [] if above else [before]
        state.path = " ".join([*passed, *_path(op, keys, whole=above)])
        if state.dispatch_modes or lowered(op, keys) is not None:
            from gradscope.runtime.core.dispatch.modes.protocol import observed

            state.dispatched, op = values, observed(op)
        return down(op, values, arrays, begin, where)
    finally:
        state.path = before


def _first(operator: Operator, keys: DispatchKeySet) -> tuple[Kernel, DispatchKey] | None:
    """The first kernel registered by users, from the highest key down to autograd's."""
    for key in reversed(list(keys)):
        kernel = operator.kernel(key)
        if key in AUTOGRAD_KEYS.keys and is_built_in(kernel):
            return None
        mine = kernel is not None and not is_built_in(kernel) and kernel.kind != "fallthrough"
        if mine and (key in AUTOGRAD_KEYS.keys or _above_autograd(key)):
            return kernel, key  # type: ignore[return-value]  # it is not None
    return None


def _above_autograd(key: DispatchKey) -> bool:
    return key.priority > max(k.priority for k in AUTOGRAD_KEYS.keys)


def _given(
    op: Operation,
    kernel: Kernel,
    key: DispatchKey,
    keys: DispatchKeySet,
    values: Sequence[Any],
    state: ThreadState,
) -> Any:
    from gradscope.runtime.core.dispatch.modes.protocol import presented

    left = DispatchKeySet(k for k in keys if k.priority <= key.priority)
    args, kwargs = presented(op, values)
    state.path = key.name
    return kernel.run(operator_of(op), left, args, kwargs)


def lowered(op: Operation, keys: DispatchKeySet) -> Kernel | None:
    """The kernel that a user has registered for the backend of a built-in operation."""
    operator = operator_of(op)
    for key in keys:
        kernel = operator.kernel(key)
        if key.name in ("CPU", "Sim", "Meta") and not is_built_in(kernel):
            return kernel
    return None


def is_lowered(op: Operation, values: Sequence[Any], state: ThreadState) -> bool:
    return lowered(op, keys_of_call(values, state)) is not None


def run_lowered(op: Operation, values: Sequence[Any], state: ThreadState) -> Any:
    """Run that kernel, below autograd."""
    from gradscope.runtime.core.dispatch.modes.protocol import presented
    from gradscope.runtime.core.state.asking_modes import below

    keys = keys_of_call(values, state)
    kernel = lowered(op, keys)
    assert kernel is not None
    args, kwargs = presented(op, values)
    path = state.path
    with below(state):
        try:
            return kernel.run(operator_of(op), keys - AUTOGRAD_KEYS, args, kwargs)
        finally:
            state.path = path


def _path(op: Operation, keys: DispatchKeySet, *, whole: bool) -> list[str]:
    """The keys that a built-in call passes, in order. `whole`: autograd's, too."""
    names = []
    for key in reversed(list(keys)):
        if key in AUTOGRAD_KEYS.keys:
            names += [key.name] if op.node_name and whole else []
        elif key.name == "ADInplaceOrView":
            names += [key.name] if op.plan.kind != "plain" else []
        elif key.name in ("Python", "CPU", "Sim", "Meta"):
            names.append(key.name)
    return names


def refresh() -> None:
    """Update whether calls must pass here."""
    changed = any(
        not is_built_in(kernel)
        for operator in _operators.values()
        for kernel in operator.kernels.values()
    )
    wanted = bool(watched or fallbacks or changed)
    ThreadState.use_routes(routed if wanted else None)


def watch_paths(who: object, *, on: bool) -> None:
    """Watch the path of every call, or stop watching."""
    if on:
        watched.append(who)
    elif who in watched:
        watched.remove(who)
    refresh()
