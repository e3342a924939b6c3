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
    """A value for each of these objects, as long as they are alive."""

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
        """The value of this one; None: it has none."""
        known = self._held.get(id(key))
        return None if known is None else known[1]

    def pop(self, key: Any) -> Value | None:
        """The same, and it has none from here on."""
        known = self._held.pop(id(key), None)
        return None if known is None else known[1]

    def alive(self) -> list[Any]:
        """Those that are alive."""
        found = [weak() for weak, _ in list(self._held.values())]
        return [each for each in found if each is not None]


def attributes(thing: Any) -> dict[str, Any]:
    """The attributes of an object that are kept in it; of a class they are not."""
    try:
        found = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def is_a(thing: Any, kinds: Any) -> bool:
    """Whether it is of one of these classes. `isinstance` would ask the object, too."""
    return issubclass(type(thing), kinds)


class CallableWrapper:
    """Something of ours around a callable of the program's, which is its `hook`."""

    __slots__ = ()
    hook: Any


def held_in(container: Any) -> list[Any]:
    """What a list, tuple, dict, set or deque holds, of a dict its values."""
    if is_a(container, dict):
        return list(dict.values(container))
    kinds = list, tuple, deque, set, frozenset
    kind: Any = next((each for each in kinds if is_a(container, each)), None)
    return [] if kind is None else list(kind.__iter__(container))


def modules_in(module: Any) -> Iterator[tuple[str, Any]]:
    """A module and all below it, with their paths, in PyTorch's order, each once."""
    seen: set[int] = set()
    waiting = [("", module)]
    while waiting:
        path, each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield path, each
        below = list(attributes(each).get("_modules", {}).items())
        waiting += [(f"{path}.{name}" if path else name, child) for name, child in reversed(below)]


def parameters_in(module: Any) -> dict[str, Any]:
    """The parameters of a module by name, as `named_parameters` gives them."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for path, each in modules_in(module):
        for name, parameter in list(attributes(each).get("_parameters", {}).items()):
            if parameter is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                found[f"{path}.{name}" if path else name] = parameter
    return found
