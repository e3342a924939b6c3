"""How a call passes the keys: which it has, and the kernels in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradscope.runtime.core import probe
from gradscope.runtime.core.dispatch.operators.keys import (
    AUTOGRAD_KEYS,
    DispatchKey,
    DispatchKeySet,
    key_of,
    keyset,
)
from gradscope.runtime.core.dispatch.operators.operator import FALLTHROUGH, Operator
from gradscope.runtime.core.dispatch.operators.schema import bind
from gradscope.runtime.core.state.asking_modes import asked
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.views.inference import is_inference

NAMES = {"cpu": "CPU", "sim": "Sim", "meta": "Meta"}
NOTHING = DispatchKeySet()


def tensors_in(values: Any) -> Iterator[Any]:
    """All tensors among arguments, in order."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)


def keys_of_tensor(tensor: Any) -> DispatchKeySet:
    """The keys that a tensor adds to a call."""
    backend = NAMES[tensor.device.type]
    if is_inference(tensor):
        return keyset(backend)
    return keyset(backend, f"Autograd{backend}", "ADInplaceOrView")


def keys_of_call(values: Any, state: ThreadState) -> DispatchKeySet:
    """The keys of a call: those of its tensors and included ones, without excluded ones."""
    keys: frozenset[DispatchKey] = frozenset()
    for tensor in tensors_in(values):
        if "wrapped_number" not in tensor.__dict__:
            keys |= keys_of_tensor(tensor).keys
    if not keys:
        keys = keyset("CPU", "BackendSelect").keys
    if state.dispatch_modes:
        keys |= keyset("Python").keys
    return DispatchKeySet((keys | state.keys_included) - excluded(state))


def excluded(state: ThreadState) -> frozenset[DispatchKey]:
    """The keys that calls on this thread skip now."""
    if state.below_autograd:
        return state.keys_excluded | AUTOGRAD_KEYS.keys
    return state.keys_excluded


def call(operator: Operator, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call an operator from the top."""
    args, kwargs = bind(operator.schema, args, kwargs)
    state = local.state
    before, here = state.path, probe.here
    begin = 0 if here is None else here.clock()
    state.path = ""
    try:
        result = run(operator, keys_of_call((*args, *kwargs.values()), state), args, kwargs)
    finally:
        state.path = before
    if here is not None and here is probe.here and not tells_itself(operator):
        _tell(here, operator, (*args, *kwargs.values()), result, begin)
    return result


class UsersOperation:
    """How a call of a user's operator is reported to a watcher. Inner calls are reported, too."""

    number = -1

    def __init__(self, name: str, *, made_inside: bool) -> None:
        self.name = name
        self.made_inside = made_inside  # whether inner calls created its nodes


def tells_itself(operator: Operator) -> bool:
    """Whether its kernels report the call themselves: generated and built-in ones."""
    kernels = operator.kernels.values()
    built_in = operator.name.startswith("aten::")
    return built_in or any(hasattr(kernel.function, "formula") for kernel in kernels)


def _tell(here: Any, operator: Operator, given: Any, result: Any, begin: int) -> None:
    inputs = list(tensors_in(given))
    made = [t for t in tensors_in((result,)) if not any(t is each for each in inputs)]
    inside = any(t.requires_grad for t in made)
    here.op(
        UsersOperation(operator.name, made_inside=inside), inputs, made, None, begin, local.state
    )


def run(operator: Operator, keys: DispatchKeySet, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run the kernel of the first of these keys that has one. It may continue from there."""
    state = local.state
    left = keys
    while left:
        key = left.highestPriorityTypeId()
        assert key is not None
        if key.name == "Python" and state.dispatch_modes:
            return _asked(operator, args, kwargs, state)
        kernel = operator.kernel(key)
        if kernel is None:
            raise _no_kernel(operator, key)
        if kernel is not FALLTHROUGH:
            state.path = f"{state.path} {key.name}".strip()
            return kernel.run(operator, left, args, kwargs)
        left = left.remove(key)
    raise _no_kernel(operator, key_of("CPU"))


def _asked(operator: Operator, args: Any, kwargs: Any, state: ThreadState) -> Any:
    """Call the innermost mode."""
    state.path = f"{state.path} Python".strip()
    return asked(operator.overload, args, kwargs, state)


def _no_kernel(operator: Operator, key: DispatchKey) -> NotImplementedError:
    there = [k.name for k in DispatchKey.order if operator.kernel(k) is not None]
    return NotImplementedError(
        f"Could not run '{operator.name}' with arguments from the '{key}' backend. This could be "
        "because the operator doesn't exist for this backend, or was omitted during the "
        "selective/custom build process (if using custom build). If you are a Facebook employee "
        "using PyTorch on mobile, please visit https://fburl.com/ptmfixes for possible "
        f"resolutions. '{operator.name}' is only available for these backends: "
        f"[{', '.join(there)}].\n\n{operator.table()}"
    )


@contextmanager
def included(*keys: str | DispatchKey) -> Iterator[None]:
    """Include these keys in all calls of this thread inside the block."""
    state = local.state
    before = state.keys_included, state.keys_excluded
    wanted = {key_of(key) for key in keys}
    state.keys_included, state.keys_excluded = before[0] | wanted, before[1] - wanted
    try:
        yield
    finally:
        state.keys_included, state.keys_excluded = before


@contextmanager
def left_out(*keys: str | DispatchKey) -> Iterator[None]:
    """Exclude these keys from all calls of this thread inside the block."""
    state = local.state
    before = state.keys_excluded
    state.keys_excluded = before | {key_of(key) for key in keys}
    try:
        yield
    finally:
        state.keys_excluded = before
