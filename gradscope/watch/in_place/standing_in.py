"""Replaces functions by functions of gradscope that look like the originals.

# Note [Looks like the original]
Compilers, mocks, pickles and `inspect` read the attributes of classes and modules. So a stand-in
behaves like the original, and is of the same kind as far as Python allows:

- A Python function is replaced by a function with the same names, signature and attributes. It is
  also stored in the module that the function names as its own, because pickles find functions
  there. So are functions that PyTorch's C++ code looks up for `__torch_function__`.
- A method or attribute written in C is replaced by a descriptor. On the class it returns the
  original; on an object it returns our function, or the value of the original.
- Any other callable is replaced by an object without attributes of its own.

# Note [No stand-in within our own code]
Code that gradscope calls during recording may lead back to a stand-in: a program's `__eq__` may
create modules. Such calls are not made by the program. While `HERE.ours` is set, stand-ins only
call the original.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import inspect
import operator
import sys
from functools import wraps
from threading import local
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gradscope.watch.in_place.compilers import uncompiled

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., Any]")
METHODS = (MethodDescriptorType, WrapperDescriptorType)
OF_PYBIND = "instancemethod"
HIDDEN = "<frozen importlib._bootstrap>"
"""A file name of frames that warnings skip."""


CALLED = "called_in_its_place"


class ThreadMark(local):
    """State of the calling thread."""

    ours = False
    """Whether it runs code of gradscope, or code called by that."""


HERE = ThreadMark()


def called(home: Any, name: str) -> Any:
    """The callable at this place; for methods written in C, the class itself hides stand-ins."""
    ours = getattr(raw(home, name), CALLED, None)
    return getattr(home, name, None) if ours is None else ours


def raw(home: Any, name: str) -> Any:
    """The value stored in a class or module under a name, without descriptors; None: none."""
    spaces = home.__mro__ if isinstance(home, type) else [home]
    return next((vars(each)[name] for each in spaces if name in vars(each)), None)


def like(original: Any, function: Any) -> Any:
    """Make a function look like the original, for `inspect` and pickles."""
    wraps(original)(function)
    function.__module__ = getattr(original, "__module__", None)
    if isinstance(original, FunctionType):
        function.__signature__ = inspect.signature(original)
    function.stands_for = original
    return uncompiled(function)


def hidden(function: Any, name: str) -> Any:
    """The same function, whose frame has this name and is skipped by warnings."""
    function.__code__ = function.__code__.replace(co_name=name, co_filename=HIDDEN)
    return uncompiled(function)


def passed_over(function: Function) -> Function:
    """The same function, whose frame is skipped by warnings; its file name stays recognizable."""
    code: CodeType = function.__code__
    ours = code.replace(co_filename=f"{code.co_filename} {HIDDEN}")
    function.__code__ = ours
    return uncompiled(function)


def stand_in(home: Any, original: Any, function: Any) -> Any:
    """The object to store in a class or module so that `function` is called instead.

    `original`: the object that `raw` found there.
    """
    if isinstance(original, staticmethod):
        return staticmethod(like(original.__func__, function))
    if isinstance(original, classmethod | ClassMethodDescriptorType):
        return classmethod(like(getattr(original, "__func__", original), function))
    if isinstance(original, FunctionType):
        return like(original, function)
    if isinstance(home, type) and is_method(original):
        return _method(original, like(original, function))
    if isinstance(home, type) or original is None:
        return like(original, function)
    return _object_like(original, {"__call__": staticmethod(function)})


def is_method(original: Any) -> bool:
    """Whether it is a method written in C."""
    return isinstance(original, METHODS) or type(original).__name__ == OF_PYBIND


def _method(original: Any, function: Any) -> Any:
    first = getattr(original, "stands_for", original)  # if stand-ins are nested

    def __get__(_: Any, owner: Any, kind: Any = None) -> Any:  # noqa: ARG001, N807
        return first if owner is None else MethodType(function, owner)

    return _object_like(first, {"__get__": uncompiled(__get__)}, function)


def attribute(
    original: Any,
    put: Callable[[Any, Any], None],
    delete: Callable[[Any], None],
    get: Callable[[Any], Any] | None = None,
) -> Any:
    """A stand-in for an attribute of a class. Without `get`, reading it runs no Python code."""
    find: Any = operator.call  # calls the next argument with this object
    if get is not None:
        find = get
    members = {"__call__": staticmethod(original.__get__), "__get__": find}
    return _object_like(original, {**members, "__set__": put, "__delete__": delete})


def _object_like(original: Any, members: dict[str, Any], function: Any = None) -> Any:
    """An object with these members, which otherwise behaves like the original."""

    def answer(_: Any, name: str) -> Any:
        if name == "stands_for":
            return original
        if name == CALLED:
            return function
        if name == "__deepcopy__":
            return lambda memo: copy.deepcopy(original, memo)
        return getattr(original, name)

    kind = type(
        type(original).__name__,
        (),
        {
            "__slots__": ("__weakref__",),
            "__module__": type(original).__module__,
            "__getattribute__": answer,
            "__setattr__": lambda _, name, value: setattr(original, name, value),
            "__delattr__": lambda _, name: delattr(original, name),
            "__repr__": lambda _: repr(original),
            "__eq__": lambda self, other: other is self or original == other,
            "__hash__": lambda _: hash(original),
            "__dir__": lambda _: dir(original),
            "__copy__": lambda _: copy.copy(original),
            "__reduce_ex__": lambda _, protocol: original.__reduce_ex__(protocol),
            **members,
        },
    )
    return kind()


def _homes(home: Any, name: str, original: Any) -> list[tuple[Any, str]]:
    """All places that refer to it: pickles and PyTorch's C++ code may use another one."""
    places = [(home, name)]
    if isinstance(home, type):
        return places
    if isinstance(original, FunctionType):
        other, known = sys.modules.get(original.__module__), original.__qualname__
    else:
        pickled = original.__reduce__() if isinstance(original, BuiltinFunctionType) else None
        other, known = pickled[1] if isinstance(pickled, tuple) else (None, name)
        if not isinstance(other, type):
            return places
    if other is None or other is home:
        return places
    there = vars(other).get(known)
    if getattr(there, "__func__", there) is original:
        places.append((other, known))
    return places


class ReplacedAttribute(NamedTuple):
    """A replaced attribute, and its previous value."""

    home: Any
    name: str
    before: Any  # `_ABSENT`: it was inherited
    ours: Any


class Replaced:
    """The attributes that are currently replaced."""

    def __init__(self, told: Callable[[Any, Any], object] | None = None) -> None:
        self._told = told  # called with the old and new value; or None and the restored one
        self.there: list[ReplacedAttribute] = []
        self._aside: list[ReplacedAttribute] = []

    def put(self, home: Any, name: str, function: Any) -> None:
        """Replace a function by this one, until `take_back`."""
        original = raw(home, name)
        ours = stand_in(home, original, function)
        for place, known in _homes(home, name, original):
            of_class = place is not home and isinstance(place, type)
            self.put_as_it_is(place, known, staticmethod(ours) if of_class else ours)

    def put_as_it_is(self, home: Any, name: str, ours: Any) -> None:
        """Replace an attribute by this value, which already looks like the original."""
        before = vars(home).get(name, _ABSENT)
        if self._told is not None:
            self._told(before, ours)
        _put(home, name, ours)
        self.there.append(ReplacedAttribute(home, name, before, ours))

    def take_back(self) -> None:
        """Restore all attributes, except those that others have replaced since."""
        while self.there:
            self._take_back(self.there.pop())

    def set_aside(self) -> None:
        """Restore all attributes until `put_again`, so that the originals cost nothing more."""
        self._aside = [each for each in reversed(self.there) if _restore(each)][::-1]

    def put_again(self) -> None:
        """Replace what was set aside, except what others have replaced since."""
        for each in self._aside:
            if vars(each.home).get(each.name, _ABSENT) is each.before:
                _put(each.home, each.name, each.ours)
        self._aside = []

    def leave(self, home: Any, name: str) -> None:
        """Restore a single attribute."""
        for each in [each for each in self.there if each.home is home and each.name == name]:
            self.there = [other for other in self.there if other is not each]
            self._aside = [other for other in self._aside if other is not each]
            self._take_back(each)

    def _take_back(self, each: ReplacedAttribute) -> None:
        if self._told is not None:
            self._told(None, each.ours)
        _restore(each)


_ABSENT = object()


def _restore(each: ReplacedAttribute) -> bool:
    """Restore an attribute. Returns whether it was still replaced."""
    if vars(each.home).get(each.name) is not each.ours:
        return False
    if each.before is _ABSENT:
        delattr(each.home, each.name)
    else:
        _put(each.home, each.name, each.before)
    return True


def _put(home: Any, name: str, value: Any) -> None:
    """Set an attribute, also of a class written in C, which refuses `setattr`."""
    try:
        setattr(home, name, value)
    except TypeError:
        spaces = gc.get_referents(vars(home))  # the `__dict__` of a class is a proxy
        space = next((each for each in spaces if type(each) is dict and name in each), None)
        if space is None:
            raise
        space[name] = value
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(home))
