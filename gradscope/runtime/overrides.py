"""`torch.overrides`: classes and modes that see calls of functions before they run."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from types import FunctionType
from typing import Any, Self

from gradscope.runtime.core.dispatch.overrides.public import (
    IN_PYTHON,
    members,
    publics,
    put_up_gates,
)
from gradscope.runtime.core.state.frames import stood_for
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.tensor import overriding as override_protocol
from gradscope.runtime.core.tensors.tensor.overriding import (
    ALL,
    SKIP,
    overriders,
    overrides,
    skipped,
)
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]


# -- modes ------------------------------------------------------------------------------------


class TorchFunctionMode:
    """Inside `with mode:`, every call of a function goes to its `__torch_function__` first.

    Calls inside it go to the next outer mode; `with self:` lets the mode see its own calls.
    """

    inner: TorchFunctionMode

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        _push_mode(self)
        return self

    def __exit__(self, *error: object) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        warnings.warn(
            "`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`",
            stacklevel=2,
        )
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls every function unchanged."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _push_mode(mode: Any) -> None:
    put_up_gates()
    local.state.function_modes.append(mode)


def _pop_mode() -> Any:
    return local.state.function_modes.pop()


@contextmanager
def _pop_mode_temporarily() -> Iterator[Any]:
    """Remove the innermost mode until the end of the block."""
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


def _get_current_function_mode() -> Any:
    modes = local.state.function_modes
    return modes[-1] if modes else None


def _get_current_function_mode_stack() -> list[Any]:
    return list(local.state.function_modes)


@contextmanager
def _enable_torch_function() -> Iterator[None]:
    """Enable overriding inside the block."""
    state = local.state
    before, state.overrides_disabled = state.overrides_disabled, 0
    try:
        yield
    finally:
        state.overrides_disabled = before


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Inside a dispatch mode, record calls of the block as if outside of it."""
    from gradscope.runtime.core.state.asking_modes import from_the_top

    with from_the_top():
        yield


# -- functions that can be overridden -----------------------------------------------------------


def _sequence(values: Any) -> Iterable[Any]:
    if not isinstance(values, list | tuple):
        try:
            return list(values)
        except TypeError:
            raise TypeError("expected a sequence") from None
    return values


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether any class or mode wants to see a call with these arguments."""
    state = local.state
    if skipped() or state.overrides_disabled >= ALL:
        return False
    values = _sequence(relevant_args)
    if state.function_modes:
        return any(True for _ in values)
    return not state.overrides_disabled and any(overrides(type(value)) for value in values)


def has_torch_function_unary(obj: Any) -> bool:
    return has_torch_function((obj,))


def has_torch_function_variadic(*args: Any) -> bool:
    return has_torch_function(args)


class _Offered:
    """A user's function, offered to overriding classes and modes."""

    python = True

    def __init__(self, function: Any) -> None:
        self.given = function
        self.label = f"{function.__module__}.{function.__name__}"


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Offer a call of `public_api` to the innermost mode, then to the classes of the arguments."""
    put_up_gates()
    disabled = bool(local.state.overrides_disabled)
    found = [] if disabled else overriders(_flat(relevant_args), plain=True)
    types = tuple(type(value) for value in found)
    return override_protocol.handle(_Offered(public_api), found, types, args, kwargs)


def _flat(values: Iterable[Any]) -> list[Any]:
    """Values, without looking into containers."""
    return [None if isinstance(value, list | tuple) else value for value in values]


def _get_overloaded_args(relevant_args: Iterable[Any]) -> list[Any]:
    disabled = bool(local.state.overrides_disabled)
    return [] if disabled else overriders(_flat(relevant_args), plain=True)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """Make a function overridable; `dispatcher` returns the arguments whose classes are checked."""

    def inner(func: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return inner


def redispatch_function(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Call a function's implementation; calls inside it can be overridden."""
    state = local.state
    before = state.overrides_disabled
    state.overrides_disabled = before + SKIP
    try:
        return func(*args, **(kwargs or {}))
    finally:
        state.overrides_disabled = before


# -- what there is --------------------------------------------------------------------------------


def is_tensor_like(inp: Any) -> bool:
    """Whether a value's class overrides functions, as the tensor class does."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def get_default_nowrap_functions() -> set[Any]:
    """Functions whose results are not converted to the subclass."""
    return override_protocol.unwrapped()


IGNORED = frozenset({
    "arange", "as_strided", "as_tensor", "asarray", "can_cast", "empty", "empty_strided", "eye",
    "fill", "full", "linspace", "logspace", "normal", "ones", "promote_types", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "range",
    "result_type", "scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros",
})  # fmt: skip
"""Functions of the top module that classes cannot override, though modes can."""


def get_ignored_functions() -> set[Any]:
    """Functions that no class can override."""
    import gradscope.runtime as top

    found = _ignored()
    return found | {each for each in vars(top).values() if _stands_for_one_of(each, found)}


def _stands_for_one_of(value: Any, functions: set[Any]) -> bool:
    return isinstance(value, FunctionType) and stood_for(value) in functions


@cache
def _ignored() -> set[Any]:
    import gradscope.runtime as top

    seen = {public.function for public in publics()}
    found = {
        value
        for name, value in ((name, stood_for(value)) for name, value in vars(top).items())
        if callable(value) and not name.startswith("_") and (value not in seen or name in IGNORED)
    }
    hidden = {
        stood_for(getattr(Tensor, n)) for n, v in members().items() if callable(v) and v not in seen
    }
    return found | hidden


@cache
def _names() -> dict[Any, str]:
    return {_shown(public): public.name for public in publics() if public.name}


def _shown(public: Any) -> Any:
    """The key of a public function: itself, or the method of its property."""
    return public.given if public.of_property else public.function


def resolve_name(f: Any) -> str | None:
    """The name of a function: evaluating it returns the function."""
    if hasattr(f, "overloadpacket") or hasattr(f, "_qualified_op_name"):
        return str(f)
    holder = stood_for(getattr(f, "__self__", None))  # of a property's method
    if isinstance(holder, property):
        f = getattr(holder, f.__name__)
    return _names().get(stood_for(f))


@cache
def _overridable() -> dict[Any, list[Any]]:
    import gradscope.runtime as top
    from gradscope.runtime.nn import functional, init

    homes = {
        "torch.nn.functional": functional,
        "torch.nn.init": init,
        "torch.linalg": top.linalg,
        "torch.fft": top.fft,
        "torch.special": top.special,
        "torch.functional": top.functional,
        "torch.Tensor": Tensor,
        "torch": top,
    }
    ignored = get_ignored_functions()
    found: defaultdict[Any, list[Any]] = defaultdict(list)
    for function, name in _names().items():
        home, _, short = name.rpartition(".")
        if function in ignored or (
            home != "torch.Tensor" and short.endswith("_") and short[0] != "_"
        ):
            continue
        if home not in homes:  # a property, counted once, by its getter
            if short == "__get__":
                found[members()[home.rpartition(".")[2]]].append(function)
            continue
        found[homes[home]].append(function)
        if home == "torch.functional" and short in IN_PYTHON:
            found[top].append(function)
    return found


def get_overridable_functions() -> dict[Any, list[Any]]:
    """The functions that can be overridden, by module, class or property."""
    return _overridable()


@cache
def get_testing_overrides() -> dict[Any, Any]:
    """For each overridable function, one with the same parameters that returns -1."""
    found = {function for functions in _overridable().values() for function in functions}
    return {function: _answering(function) for function in found}


def _answering(function: Any) -> Any:
    def answer(*args: Any, **kwargs: Any) -> int:
        return -1

    answer.__wrapped__ = function  # type: ignore[attr-defined]  # whose parameters it has
    return answer


@cache
def _get_tensor_methods() -> set[Any]:
    return set(_overridable()[Tensor])


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether a function is a method of tensors, or `__get__` of one of their properties."""
    return func in _get_tensor_methods() or func.__name__ == "__get__"
