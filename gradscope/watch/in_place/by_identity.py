"""Handles objects of the program by identity, without calling their methods.

A class may define `__eq__`, `__hash__`, `__bool__` or `__getattr__`: they may be slow, wrong, or
raise, and only the program may call them. Nothing here calls any of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Iterator

Value = TypeVar("Value")


class ByIdentity(Generic[Value]):
    """A mapping from objects to values, as long as the objects are alive."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[ref[Any], Value]] = {}

    def __setitem__(self, key: Any, value: Value) -> None:
        number, held = id(key), self._held
        known = held.get(number)
        weak = ref(key, lambda _: held.pop(number, None)) if known is None else known[0]
        held[number] = weak, value

    def __contains__(self, key: Any) -> bool:
        return id(key) in self._held

    def get(self, key: Any) -> Value | None:
        """The value of this object; None: it has none."""
        known = self._held.get(id(key))
        return None if known is None else known[1]

    def pop(self, key: Any) -> Value | None:
        """Remove an object. Returns its value; None: it had none."""
        known = self._held.pop(id(key), None)
        return None if known is None else known[1]

    def alive(self) -> list[Any]:
        """The objects that are alive."""
        found = [weak() for weak, _ in list(self._held.values())]
        return [each for each in found if each is not None]


def attributes(thing: Any) -> dict[str, Any]:
    """The attributes stored in an object itself, not in its class."""
    try:
        found = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def is_a(thing: Any, kinds: Any) -> bool:
    """Whether it is an instance of one of these classes. `isinstance` would also ask the object."""
    return issubclass(type(thing), kinds)


class CallableWrapper:
    """An object of gradscope that wraps a callable of the program, its `hook`."""

    __slots__ = ()
    hook: Any


def held_in(container: Any) -> list[Any]:
    """The items of a list, tuple, dict, set or deque; for a dict, its values."""
    if is_a(container, dict):
        return list(dict.values(container))
    kinds = list, tuple, deque, set, frozenset
    kind: Any = next((each for each in kinds if is_a(container, each)), None)
    return [] if kind is None else list(kind.__iter__(container))


def registered(module: Any, kind: str) -> dict[str, Any]:
    """The entries of `_parameters`, `_buffers` or `_modules` of a module.

    A scripted module keeps them in an object that has few methods of a dict.
    """
    return dict(attributes(module).get(kind, {}).items())


def modules_in(module: Any) -> Iterator[tuple[str, Any]]:
    """A module and all its submodules with their paths, in PyTorch's order, each once."""
    seen: set[int] = set()
    waiting = [("", module)]
    while waiting:
        path, each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield path, each
        below = list(registered(each, "_modules").items())
        waiting += [(f"{path}.{name}" if path else name, child) for name, child in reversed(below)]


def parameters_in(module: Any) -> dict[str, Any]:
    """The parameters of a module by name, in the order of `named_parameters`."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for path, each in modules_in(module):
        for name, parameter in registered(each, "_parameters").items():
            if parameter is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                found[f"{path}.{name}" if path else name] = parameter
    return found
