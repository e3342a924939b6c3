"""Gates in front of public functions: overriding classes and modes see a call before it runs.

# Note [Gates]
Hardly any program overrides functions, so a call must not check for it. At first there are no
gates. They are installed, for good, when the first class with its own `__torch_function__` is
defined or the first mode is entered. Each public function of the runtime then gets other code,
which looks for overriding classes and modes, and otherwise calls a copy of the original function.
The function objects stay the same.

A gate is for calls from outside: calls between the runtime's own parts (a composite calls its
parts, a formula its words) skip it. Parts that are written with public functions (modules,
optimizers, `Tensor.__iter__`) count as outside, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from inspect import CO_VARARGS, Parameter, signature
from sys import _getframe
from threading import RLock
from types import CodeType, FunctionType
from typing import Any

from gradscope.runtime.core.dispatch.modes.factories_for_modes import outlying
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.forking import renewed
from gradscope.runtime.core.state.frames import file_name, is_inside, past_stand_ins
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.tensor.overriding import ALL, SKIP, handle, overriders, skipped


@dataclass(eq=False, slots=True)
class Public:
    """One public function, and how its calls are presented to overriding classes and modes."""

    function: FunctionType
    name: str  # its name by `resolve_name`
    label: str  # its name in errors
    given: Any  # the function that overriding classes and modes receive
    python: bool = False  # written in Python in PyTorch, which differs in a few details
    gives_way: bool = False  # an operator: Python tries the other operand next
    of_property: bool = False
    aten: str = ""  # its name for dispatch modes, if it is no operation

    @property
    def counts_plain(self) -> bool:
        """Whether PyTorch counts plain tensors among the types of a call."""
        return self.python or self.of_property or (".Tensor." in self.label and self._is_unary())

    def _is_unary(self) -> bool:
        op = getattr(self.function, "op", None)
        if op is not None:
            return len(op.plan.parameters) == 1
        code = self.function.__code__
        return code.co_argcount == 1 and not (code.co_flags & CO_VARARGS or code.co_kwonlyargcount)


class Gate:
    """The check in front of a public function."""

    __slots__ = ("counts_plain", "implementation", "public")

    def __init__(self, public: Public, implementation: Callable[..., Any]) -> None:
        self.public = public
        self.implementation = (
            outlying(public.aten, implementation) if public.aten else implementation
        )
        self.counts_plain = public.counts_plain

    @layout_only
    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = self.wanted(args, kwargs)
        if found is None:
            return self.implementation(*args, **kwargs)
        return self.handled(found, args, kwargs)

    @layout_only
    def wanted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
        """The arguments whose classes override this call; None if no mode wants it either."""
        state = local.state
        if state.overrides_disabled < ALL:
            found = [] if state.overrides_disabled else overriders((*args, *kwargs.values()))
            if found or state.function_modes:
                frame = past_stand_ins(_getframe(3))
                if frame is None or not is_inside(frame):
                    return found
        elif state.overrides_disabled >= SKIP:
            skipped()
        return None

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The arguments as PyTorch passes them: for Python functions with all defaults, by name."""
        if not self.public.python or self.public.gives_way:
            return args, kwargs
        bound = signature(self.implementation).bind(*args, **kwargs)
        bound.apply_defaults()
        named = {p.name: p for p in bound.signature.parameters.values()}
        places = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        first: list[Any] = []
        rest: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            parameter = named[name]
            if parameter.kind is Parameter.VAR_POSITIONAL:
                first += value
            elif parameter.kind in places and parameter.default is Parameter.empty:
                first.append(value)
            elif parameter.kind is Parameter.VAR_KEYWORD:
                rest.update(value)
            else:
                rest[name] = value
        return tuple(first), rest

    def handled(self, found: Iterable[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        public = self.public
        types = [type(each) for each in found]
        if self.counts_plain:
            types = [type(each) for each in overriders((*args, *kwargs.values()), plain=True)]
        args, kwargs = self._given(args, kwargs)
        try:
            return handle(public, found, tuple(types), args, kwargs)
        except TypeError:
            if public.gives_way:
                return NotImplemented
            raise


_STAND_IN = """
def around():
    {around}
    def stand_in(*args, **kwargs):
        before = "what stands before"
        return before(args, kwargs)
        {within}
    return stand_in
"""


@cache
def _stand_in(count: int) -> CodeType:
    """The code in front of a function that has this number of closure variables.

    It uses none of them, but must have them: Python reads them for the function's locals.
    """
    names = [f"free_{i}" for i in range(count)]
    around, within = " = ".join([*names, "None"]), ", ".join(names) or "pass"
    scope: dict[str, Any] = {}
    exec(_STAND_IN.format(around=around, within=within), scope)  # noqa: S102  generated text
    code: CodeType = scope["around"]().__code__
    return code


_known: list[Public] = []
_are_up = False
_lock = renewed(RLock())


def known(collect: Callable[[], list[Public]]) -> list[Public]:
    """All public functions, collected on first use."""
    with _lock:
        if not _known:
            _known.extend(collect())
        return _known


def put_up(publics: Iterable[Public]) -> None:
    """Install a gate in front of each of these functions, unless installed already."""
    global _are_up  # noqa: PLW0603
    with _lock:
        if _are_up:
            return
        _are_up = True
        for public in publics:
            put_before(public.function, partial(Gate, public), file_name(public.label))


def are_up() -> bool:
    return _are_up


def behind(function: FunctionType) -> FunctionType:
    """The function behind a gate; the function itself if it has none."""
    if any(isinstance(each, Gate) for each in function.__code__.co_consts):
        return function.__wrapped__  # type: ignore[attr-defined]
    return function


def put_before(
    function: FunctionType, before: Callable[[FunctionType], Callable[..., Any]], file: str
) -> None:
    """Replace a function's code, in place: it calls `before(function)`.

    What `before` returns is called with the arguments of each call, a tuple and a dict, and may
    call the original.
    """
    moved = _as_it_is(function)
    unbuilt = function.__globals__.get("unbuilt_short")
    if unbuilt is not None:
        unbuilt.replace(function, moved)
    asked = before(moved)
    free = function.__code__.co_freevars
    code = _stand_in(len(free))
    function.__code__ = code.replace(
        co_consts=tuple(asked if each == "what stands before" else each for each in code.co_consts),
        co_filename=file,
        co_freevars=free,
        co_name=function.__name__,
        co_qualname=function.__qualname__,
    )
    function.__defaults__ = function.__kwdefaults__ = None
    function.__wrapped__ = moved  # type: ignore[attr-defined]  # where its signature is found


def _as_it_is(function: FunctionType) -> FunctionType:
    """A copy of the function that keeps its present code."""
    made = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    made.__dict__.update(function.__dict__)
    return made
