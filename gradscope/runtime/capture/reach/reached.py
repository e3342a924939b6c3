"""What a step can reach of the program by the names in its code: values, containers, tensors.

# Note [What code can read]
Code reads the program's state by a name (a global, a variable of an enclosing function, one of an
object) or out of a container that it has in hand. So everything that a step may have read is
found by walking from the globals and closures of the functions that ran, and from its arguments,
along the attributes whose names stand in their code, and through containers. Of objects of the
runtime (modules, optimizers) every attribute is followed. What is found is a *holding*: this name
in this namespace is this value. If all holdings are the same, so is everything that the code can
read. What cannot be looked into (an iterator, a file, an array of NumPy's) stops the capture.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import (
    BuiltinFunctionType,
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any
from weakref import ReferenceType

import numpy as np

from gradscope.runtime.capture.recording.recording import PLAIN
from gradscope.runtime.capture.recording.watching import Program
from gradscope.runtime.core.devices.devices import device
from gradscope.runtime.core.dtypes.dtypes import dtype
from gradscope.runtime.core.state.generator import Generator
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

MOST = 20_000
"""How many holdings are looked at: a program of which more can be read is not captured."""

ABSENT: Any = object()
MADE_BY_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE
AS_THEY_ARE = (
    *PLAIN, CodeType, Generator, device, dtype, np.dtype, np.generic, slice, BuiltinFunctionType,
    BuiltinMethodType, MethodDescriptorType, WrapperDescriptorType, MethodWrapperType,
    GetSetDescriptorType, MemberDescriptorType,
)  # fmt: skip
"""What has nothing in it that can change."""
MAPPINGS = (dict, OrderedDict, defaultdict)
CONTAINERS = (*MAPPINGS, list, tuple, deque, set, frozenset)


@dataclass(frozen=True, slots=True)
class Holding:
    """A place in the program's state, and what is there.

    `kind` is "item" (of a dict or list), "type" (of an item), "size", "keys" or "set" (of a
    container), "cell", "class" (an attribute of one) or "slot" (of an object without a `__dict__`).
    """

    owner: Any
    key: Any
    value: Any
    kind: str
    name: str


class Unreadable(Exception):  # noqa: N818  (it is caught where a capture begins)
    """Something can be read by a step that cannot be looked into."""


class Reached:
    """All that a step can read, beginning with what the program's functions know."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.holdings: list[Holding] = []
        self.tensors: dict[int, tuple[Any, str]] = {}  # by id, with the way that leads to them
        self._seen: dict[int, Any] = {}
        self._left: deque[tuple[Any, str]] = deque()
        for scope, name in program.of_globals():
            if name in scope:
                self._hold(scope, name, scope[name], "item", name)
            else:  # a builtin, so far
                self._hold(scope, name, ABSENT, "item", name)

    def add(self, value: Any, name: str) -> None:
        """Look at a value, and at all that can be reached from it."""
        self._look(value, name)
        while self._left:
            found, path = self._left.popleft()
            self._walk(found, path)
            if len(self.holdings) > MOST:
                raise Unreadable(f"more than {MOST:,} values can be reached from {name}")

    # -- one value ------------------------------------------------------------------------------

    def _hold(self, owner: Any, key: Any, value: Any, kind: str, name: str) -> None:
        self.holdings.append(Holding(owner, key, value, kind, name))
        if value is not ABSENT:
            self._look(value, name)

    def _look(self, value: Any, name: str) -> None:
        if isinstance(value, AS_THEY_ARE) or value is None or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        self._left.append((value, name))

    def _walk(self, value: Any, name: str) -> None:
        if isinstance(value, Tensor):
            self._tensor(value, name)
        elif isinstance(value, CONTAINERS):
            self._container(value, name)
        elif isinstance(value, FunctionType):
            self._function(value, name)
        elif isinstance(value, MethodType):
            self._look(value.__self__, name)
            self._look(value.__func__, name)
        elif isinstance(value, partial):
            for part in (value.func, value.args, value.keywords):
                self._look(part, name)
        elif isinstance(value, ReferenceType):
            self._look(value(), name)
        elif isinstance(value, ModuleType):
            self._module(value, name)
        elif isinstance(value, type):
            self._class(value, name)
        else:
            self._object(value, name)

    def _tensor(self, tensor: Any, name: str) -> None:
        if type(tensor).__module__.partition(".")[0] != "gradscope":
            raise Unreadable(f"{name} is of {type(tensor).__name__}, a class of tensors")
        self.tensors[id(tensor)] = (tensor, name)
        for key, value in tensor.__dict__.items():
            self._hold(tensor.__dict__, key, value, "item", f"{name}.{key}")

    def _container(self, value: Any, name: str) -> None:
        own = type(value) not in CONTAINERS and not isinstance(value, tuple)
        if own and not _is_of_runtime(type(value).__module__):
            raise Unreadable(f"{name} is of {type(value).__name__}, a container of its own kind")
        if isinstance(value, MAPPINGS):
            self._mapping(value, name)
        elif isinstance(value, set | frozenset):
            self._set(value, name)
        else:
            self._sequence(value, name)

    def _mapping(self, value: Any, name: str) -> None:
        if len(value) > 1 and all(type(key) is str for key in value):
            self.holdings.append(Holding(value, None, list(value), "keys", f"the keys of {name}"))
        else:
            self.holdings.append(Holding(value, None, len(value), "size", f"len({name})"))
        for key, item in value.items():
            self._look(key, f"a key of {name}")
            label = f"{name}[{key!r}]" if isinstance(key, PLAIN) else f"{name}[…]"
            self._hold(value, key, item, "item", label)

    def _sequence(self, value: Any, name: str) -> None:
        if isinstance(value, tuple):
            for place, item in enumerate(value):
                self._look(item, f"{name}[{place}]")
            return
        self.holdings.append(Holding(value, None, len(value), "size", f"len({name})"))
        for place, item in enumerate(value):
            self._hold(value, place, item, "item", f"{name}[{place}]")

    def _set(self, value: Any, name: str) -> None:
        self.holdings.append(Holding(value, None, frozenset(value), "set", name))
        for item in value:
            self._look(item, f"an element of {name}")

    def _function(self, function: Any, name: str) -> None:
        """Its closure and defaults, if it is the program's and ran."""
        if function.__code__ not in self.program.codes:
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is not None:
                self._look(wrapped, name)
            if _is_of_runtime(function.__module__):
                return
        for cell, variable in zip(
            function.__closure__ or (), function.__code__.co_freevars, strict=True
        ):
            if _is_empty(cell):
                raise Unreadable(f"{variable} of {function.__qualname__} has no value yet")
            self._hold(cell, None, cell.cell_contents, "cell", variable)
        for key in sorted(self.program.attributes & vars(function).keys()):
            label = f"{function.__qualname__}.{key}"
            self._hold(vars(function), key, vars(function)[key], "item", label)
        for key in ("__defaults__", "__kwdefaults__", "__code__"):
            label = f"{function.__qualname__}.{key}"
            self._hold(function, key, getattr(function, key), "slot", label)

    def _module(self, module: ModuleType, name: str) -> None:
        """What the code names of it; a library is followed no further."""
        scope = vars(module)
        if module.__name__ == "numpy.random":
            raise Unreadable(f"{name} draws numbers that no recording sees")
        ours = _is_a_library(module.__name__)
        for key in sorted(self.program.attributes & scope.keys()):
            value = scope[key]
            if not ours:
                self._hold(scope, key, value, "item", f"{name}.{key}")
            elif isinstance(value, (FunctionType, type, BuiltinFunctionType, *PLAIN)):
                self.holdings.append(Holding(scope, key, value, "item", f"{name}.{key}"))
            elif isinstance(value, ModuleType):
                self._look(value, f"{name}.{key}")
            elif isinstance(value, CONTAINERS) and not _is_of_runtime(module.__name__):
                self._hold(scope, key, value, "item", f"{name}.{key}")
            elif callable(value) and not _is_of_runtime(module.__name__):
                self._callable(value, f"{name}.{key}")

    def _callable(self, value: Any, name: str) -> None:
        """Of a library's callables that no profile function sees: NumPy's arithmetic only."""
        dispatches = type(value).__name__ == "_ArrayFunctionDispatcher"  # to Python, which is seen
        if not (isinstance(value, np.ufunc) or dispatches):
            raise Unreadable(f"{name} is of {type(value).__name__}, whose calls cannot be seen")

    def _class(self, cls: type, name: str) -> None:
        """Attributes of the program's classes that its code names; methods, too."""
        for each in cls.__mro__:
            if not _is_a_library(each.__module__):
                wanted = self._named(vars(each).keys())
                for key in wanted:
                    value = vars(each)[key]
                    value = getattr(value, "__func__", value)
                    label = f"{name}.{key}"
                    if isinstance(value, property):
                        for part in (value.fget, value.fset):
                            self._look(part, label)
                    elif isinstance(value, (FunctionType, list, dict, set, tuple, Tensor, *PLAIN)):
                        self.holdings.append(Holding(each, key, vars(each)[key], "class", label))
                        self._look(value, label)

    def _named(self, names: Any) -> list[str]:
        if self.program.every_attribute:
            return [name for name in names if not name.startswith("__")]
        calls = {"forward", "__call__", "__init__"}
        return [n for n in names if n in self.program.attributes or n in calls]

    def _object(self, value: Any, name: str) -> None:
        cls = type(value)
        self._look(cls, cls.__name__)
        ours = _is_of_runtime(cls.__module__)
        of_runtime = any(_is_of_runtime(each.__module__) for each in cls.__mro__)
        own = getattr(value, "__dict__", None)
        slots = [key for each in cls.__mro__ for key in _slots_of(each)]
        if own is None and not slots:
            if not ours:
                raise Unreadable(f"{name} is of {cls.__module__}.{cls.__name__}, which is opaque")
            return
        if _is_opaque(cls):
            raise Unreadable(f"{name} is of {cls.__module__}.{cls.__name__}, which is opaque")
        keys = list(own or ()) if of_runtime else self._named(own or ())
        for key in keys:
            self._hold(own, key, own[key], "item", f"{name}.{key}")  # type: ignore[index]
        if own is not None and (of_runtime or self.program.every_attribute):
            self.holdings.append(Holding(own, None, len(own), "size", f"len(vars({name}))"))
        elif own is not None:  # what the class has, the object may yet get for itself
            for key in sorted(self.program.attributes - own.keys()):
                if any(key in vars(each) for each in cls.__mro__):
                    self._hold(own, key, ABSENT, "item", f"{name}.{key}")
        for key in slots:
            found = getattr(value, key, ABSENT)
            self._hold(value, key, found, "slot", f"{name}.{key}")


def _slots_of(cls: type) -> Iterator[str]:
    slots = vars(cls).get("__slots__", ())
    for key in (slots,) if isinstance(slots, str) else slots:
        if key not in ("__dict__", "__weakref__"):
            yield f"_{cls.__name__.lstrip('_')}{key}" if _is_mangled(key) else key


def _is_mangled(key: str) -> bool:
    return key.startswith("__") and not key.endswith("__")


def _is_opaque(cls: type) -> bool:
    """Whether objects of a class keep something that no attribute shows."""
    for each in cls.__mro__[:-1]:
        if each in (Exception, BaseException, SimpleNamespace):
            continue
        module = sys.modules.get(each.__module__)
        written = module is None or hasattr(module, "__file__") or each.__module__ == "__main__"
        if not each.__flags__ & MADE_BY_PYTHON or not written:
            return True
    return False


def _is_empty(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def _is_of_runtime(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in ("gradscope", "torch")


def _is_a_library(module: str) -> bool:
    top = module.partition(".")[0]
    libraries = ("gradscope", "torch", "numpy", "numba")
    return top in libraries or (top in sys.stdlib_module_names and top != "__main__")


def explained(program: Program, reached: Reached) -> str:
    """Which function ran whose variables cannot be seen; empty if there is none.

    Those of a function inside another that ran come from there.
    """
    inner = {
        constant
        for code in program.codes
        for constant in code.co_consts
        if isinstance(constant, type(code))
    }
    functions = {
        value.__code__ for value in reached._seen.values() if isinstance(value, FunctionType)
    }
    for code in program.codes:
        if code.co_freevars and code not in functions and code not in inner:
            return code.co_qualname
    return ""
