"""Compiled functions as CPython builtins: callables that work on an array of words."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gradscope.machine_code.language import Compiled, External, Function

FAST, ONE, NONE = 0x80, 0x08, 0x04
"""Calling conventions: METH_FASTCALL, METH_O, METH_NOARGS."""


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class HasWords(Protocol):
    """An object whose words a function works on."""

    words: NDArray[np.int64]


class Callables:
    """Functions that are compiled once per process, with their calling conventions."""

    def __init__(self, kinds: Mapping[Function, int], *others: Function) -> None:
        compiled = Compiled([*kinds, *others])
        self._compiled = compiled
        self._methods = {
            function: _Method(function.__name__.encode(), compiled.address(function), flags, None)
            for function, flags in kinds.items()
        }
        # Callables contain pointers to this, and may outlive everything else when Python ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        # The third argument is the module of the function; CPython only holds a reference to it.
        made, given = (
            ctypes.py_object,
            (ctypes.POINTER(_Method), ctypes.py_object, ctypes.py_object),
        )
        self._new = ctypes.PYFUNCTYPE(made, *given)(("PyCFunction_NewEx", ctypes.pythonapi))

    def external(self, function: Function) -> External:
        """One of the functions, for code that is compiled separately."""
        name = f"gradscope_{function.__name__}"
        address = {name: self._compiled.address(function)}
        return External(SimpleNamespace(**address), name, function.__code__.co_argcount)

    def over(self, function: Any, owner: HasWords) -> Any:
        """The callable of one of these functions; it keeps the owner of its words alive."""
        return self._new(ctypes.byref(self._methods[function]), owner.words.ctypes.data, owner)


@cache
def offset(kind: type, name: str) -> int:
    """The offset of a slot in objects of this class, determined with a marker."""
    new: Any = kind.__new__
    made = new(kind)
    marker = object()
    setattr(made, name, marker)
    words = (ctypes.c_int64 * (kind.__basicsize__ // 8)).from_address(id(made))
    return 8 * list(words).index(id(marker))
