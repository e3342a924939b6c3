"""What a step can reach of the program by the names in its code: values, containers, tensors.

# Note [What code can read]
Code reads the program's state by name (a global, a variable of an enclosing function, an attribute)
or from a container that it has. So everything that a step may have read is found by a traversal
from its arguments and from the globals and closures of the functions that ran, along the attributes
whose names are in their code, and through containers. Of the runtime's objects (modules,
optimizers) every attribute is followed. Each finding is a *holding*: this name in this namespace
has this value. If all holdings are unchanged, so is everything that the code can read. Missing
names are detected by the number of names (`objects.py`). C functions that other C functions call
(`map(print, …)`) cannot be observed: code that passes one on is not captured. Objects that cannot
be inspected (an iterator, a file, a NumPy array) stop the capture.
"""

from __future__ import annotations

import builtins
import sys
from collections import OrderedDict, defaultdict, deque
from contextlib import suppress
from functools import lru_cache, partial
from importlib.util import resolve_name
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
    WrapperDescriptorType,
)
from typing import Any
from weakref import ReferenceType

import numpy as np

from gradscope.runtime.core.devices.devices import device
from gradscope.runtime.core.dtypes.dtypes import dtype
from gradscope.runtime.core.state.generator import Generator
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.fast.capture.reach.holdings import ABSENT, Holding, order_of
from gradscope.runtime.fast.capture.reach.objects import (
    Unreadable,
    hold_class,
    hold_object,
    is_a_library,
    is_of_runtime,
)
from gradscope.runtime.fast.capture.recording.recording import PLAIN
from gradscope.runtime.fast.capture.recording.watching import C_FUNCTIONS, WatchedCode, c_function

MOST = 20_000
"""Largest number of holdings: a program with more is not captured."""

AS_THEY_ARE = (
    *PLAIN, CodeType, Generator, device, dtype, np.dtype, np.generic, slice, BuiltinFunctionType,
    BuiltinMethodType, MethodDescriptorType, WrapperDescriptorType, MethodWrapperType,
    GetSetDescriptorType, MemberDescriptorType,
)  # fmt: skip
"""Types whose values cannot change."""
MAPPINGS = (dict, OrderedDict, defaultdict)
CONTAINERS = (*MAPPINGS, list, tuple, deque, set, frozenset)
CACHED = type(lru_cache(len))


class Reached:
    """Everything that a step can read, starting from its functions' globals and closures."""

    def __init__(self, program: WatchedCode) -> None:
        self.program = program
        self.holdings: list[Holding] = []
        self.in_tuples: set[int] = set()  # by id: values in tuples, without a holding
        self.tensors: dict[int, tuple[Any, str]] = {}  # by id, with the path to them
        self.classes: dict[int, type] = {}
        self._seen: dict[int, Any] = {}
        self._left: deque[tuple[Any, str]] = deque()
        self._held: set[tuple[int, Any, str]] = set()
        for scope, name in program.of_globals():
            self.hold(scope, name, scope.get(name, ABSENT), "item", name)
            if name not in scope:  # a builtin, so far
                known = vars(builtins)
                self.hold(known, name, known.get(name, ABSENT), "item", name)
        for scope, name, above in program.of_imports():
            self._import(scope, "." * above + name)

    def add(self, value: Any, name: str) -> None:
        """Inspect a value, and everything reachable from it."""
        self.look(value, name)
        while self._left:
            found, path = self._left.popleft()
            self._walk(found, path)
            if len(self.holdings) > MOST:
                raise Unreadable(f"more than {MOST:,} values can be reached from {name}")

    def lists_and_dicts(self) -> set[int]:
        """The lists and dicts that were found, by id."""
        return {nr for nr, value in self._seen.items() if isinstance(value, list | dict)}

    def named(self, names: Any) -> list[str]:
        """The names that the program's code may have read."""
        if self.program.every_attribute:
            return [name for name in names if not name.startswith("__")]
        calls = {"forward", "__call__", "__init__"}
        return [n for n in names if n in self.program.attributes or n in calls]

    def _import(self, scope: dict[str, Any], name: str) -> None:
        """Hold a module that code imports on each run, and its parent packages."""
        with suppress(ImportError):
            name = resolve_name(name, scope.get("__package__"))
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            found = ".".join(parts[:count])
            self.hold(sys.modules, found, sys.modules.get(found, ABSENT), "item", found)

    # -- one value ------------------------------------------------------------------------------

    def hold(self, owner: Any, key: Any, value: Any, kind: str, name: str) -> None:
        self.note(Holding(owner, key, value, kind, name))
        if value is not ABSENT:
            self.look(value, name)

    def note(self, holding: Holding) -> None:
        """Add a holding, once."""
        known = id(holding.owner), holding.key, holding.kind
        if known not in self._held:
            self._held.add(known)
            self.holdings.append(holding)

    def look(self, value: Any, name: str) -> None:
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
            self.look(value.__self__, name)
            self.look(value.__func__, name)
        elif isinstance(value, CACHED):
            if getattr(value.__wrapped__, "__code__", None) not in self.program.codes:
                raise Unreadable(f"{name} returns a value that was computed before the step")
            self.look(value.__wrapped__, name)
        elif isinstance(value, partial):
            if isinstance(value.func, C_FUNCTIONS) and c_function(value.func):
                raise Unreadable(f"{name} calls a C function that cannot be recorded")
            for part in (value.func, value.args, value.keywords):
                self.look(part, name)
        elif isinstance(value, ReferenceType):
            self.look(value(), name)
        elif isinstance(value, ModuleType):
            self._module(value, name)
        elif isinstance(value, type):
            hold_class(self, value, name)
        else:
            hold_object(self, value, name)

    def _tensor(self, tensor: Any, name: str) -> None:
        if type(tensor).__module__.partition(".")[0] != "gradscope":
            raise Unreadable(f"{name} is of {type(tensor).__name__}, a class of tensors")
        self.tensors[id(tensor)] = (tensor, name)
        self.look(type(tensor), type(tensor).__name__)
        own = tensor.__dict__
        self.note(Holding(own, None, len(own), "size", f"len(vars({name}))"))
        for key, value in tensor.__dict__.items():
            self.hold(tensor.__dict__, key, value, "item", f"{name}.{key}")

    def _container(self, value: Any, name: str) -> None:
        own = type(value) not in CONTAINERS and not isinstance(value, tuple)
        if own and not is_of_runtime(type(value).__module__):
            raise Unreadable(f"{name} is of {type(value).__name__}, a custom container class")
        if isinstance(value, MAPPINGS):
            self._mapping(value, name)
        elif isinstance(value, set | frozenset):
            self._set(value, name)
        else:
            self._sequence(value, name)

    def _mapping(self, value: Any, name: str) -> None:
        if len(value) > 1:
            self.note(order_of(value, value, f"the keys of {name}"))
        else:
            self.note(Holding(value, None, len(value), "size", f"len({name})"))
        for key, item in value.items():
            self.look(key, f"a key of {name}")
            label = f"{name}[{key!r}]" if isinstance(key, PLAIN) else f"{name}[…]"
            self.hold(value, key, item, "item", label)

    def _sequence(self, value: Any, name: str) -> None:
        if isinstance(value, tuple):
            for place, item in enumerate(value):
                self.in_tuples.add(id(item))
                self.look(item, f"{name}[{place}]")
            return
        self.note(Holding(value, None, len(value), "size", f"len({name})"))
        for place, item in enumerate(value):
            self.hold(value, place, item, "item", f"{name}[{place}]")

    def _set(self, value: Any, name: str) -> None:
        self.note(order_of(value, value, name))
        for item in value:
            self.look(item, f"an element of {name}")

    def _function(self, function: Any, name: str) -> None:
        """Inspect closure and defaults, if the function is the program's and ran."""
        if function.__code__ not in self.program.codes:
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is not None:
                self.look(wrapped, name)
            if is_of_runtime(function.__module__):
                return
        for cell, variable in zip(
            function.__closure__ or (), function.__code__.co_freevars, strict=True
        ):
            if _is_empty(cell):
                raise Unreadable(f"{variable} of {function.__qualname__} has no value yet")
            self.hold(cell, None, cell.cell_contents, "cell", variable)
        own = vars(function)
        for key in self.named(own):
            self.hold(own, key, own[key], "item", f"{function.__qualname__}.{key}")
        label = f"len(vars({function.__qualname__}))"
        self.note(Holding(own, None, len(own), "size", label))
        for key in ("__defaults__", "__kwdefaults__", "__code__"):
            label = f"{function.__qualname__}.{key}"
            self.hold(function, key, getattr(function, key), "slot", label)

    def _module(self, module: ModuleType, name: str) -> None:
        """Inspect what the code names of it. Libraries are not followed further."""
        scope = vars(module)
        if module.__name__ == "numpy.random":
            raise Unreadable(f"{name} draws random numbers that cannot be recorded")
        if not is_a_library(module.__name__):
            for key in self.named(scope):
                self.hold(scope, key, scope[key], "item", f"{name}.{key}")
            self.note(Holding(scope, None, len(scope), "size", f"len(vars({name}))"))
            return
        for key in sorted(self.program.attributes & scope.keys()):
            value = scope[key]
            if key in self.program.passed and isinstance(value, C_FUNCTIONS) and c_function(value):
                raise Unreadable(f"{name}.{key} may be called where it cannot be recorded")
            if isinstance(value, (FunctionType, type, BuiltinFunctionType, *PLAIN)):
                self.note(Holding(scope, key, value, "item", f"{name}.{key}"))
            elif isinstance(value, ModuleType):
                self.look(value, f"{name}.{key}")
            elif isinstance(value, CONTAINERS) and not is_of_runtime(module.__name__):
                self.hold(scope, key, value, "item", f"{name}.{key}")
            elif callable(value) and not is_of_runtime(module.__name__):
                self._callable(value, f"{name}.{key}")

    def _callable(self, value: Any, name: str) -> None:
        """Allow, among library callables that profile functions miss, only NumPy's arithmetic."""
        dispatches = type(value).__name__ == "_ArrayFunctionDispatcher"  # to Python, which is seen
        if not (isinstance(value, np.ufunc) or dispatches):
            raise Unreadable(f"{name} is of {type(value).__name__}, whose calls cannot be recorded")


def _is_empty(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def explained(program: WatchedCode, reached: Reached) -> str:
    """Which function ran whose variables cannot be found; empty if there is none.

    The variables of a function inside another one that ran come from there.
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
