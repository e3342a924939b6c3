"""Functions of CPython that compiled code calls: an object is a word, its address."""

from __future__ import annotations

import ctypes
import sys

from gradscope.machine_code.language import External, load
from gradscope.machine_code.loaded import PROCESS

PYTHON = ctypes.PyDLL(None, handle=ctypes.pythonapi._handle)  # noqa: SLF001 -- where nothing stands in

as_int = External(PYTHON, "PyLong_AsUnsignedLongLongMask", 1)
from_int = External(PYTHON, "PyLong_FromLongLong", 1)
keep = External(PYTHON, "Py_IncRef", 1, nothing=True)
drop = External(PYTHON, "Py_DecRef", 1, nothing=True)
raise_ = External(PYTHON, "PyErr_SetNone", 1, nothing=True)
code_of = External(PYTHON, "PyFrame_GetCode", 1)
caller_of = External(PYTHON, "PyFrame_GetBack", 1)
offset_in = External(PYTHON, "PyFrame_GetLasti", 1, half=True)
vectorcall = External(PYTHON, "PyObject_Vectorcall", 4)
call_one = External(PYTHON, "PyObject_CallOneArg", 2)
call_nothing = External(PYTHON, "PyObject_CallNoArgs", 1)
item = External(PYTHON, "PyDict_GetItem", 2)
next_item = External(PYTHON, "PyDict_Next", 4, half=True)
length = External(PYTHON, "PyList_Size", 1)
part_of = External(PYTHON, "PyTuple_GetItem", 2)
compare = External(PYTHON, "PyObject_RichCompareBool", 3, half=True)
EQUAL = 2  # Py_EQ

if sys.platform == "linux":
    clock_gettime = External(PROCESS, "clock_gettime", 2, half=True)
    MONOTONIC = 1

    def clock(scratch: int, counter: int) -> int:
        """The current time, like perf_counter_ns()."""
        clock_gettime(MONOTONIC, scratch)
        return load(scratch) * 1000000000 + load(scratch + 8)

else:

    def clock(scratch: int, counter: int) -> int:
        """The current time, like perf_counter_ns(); `counter` is that function."""
        made = call_nothing(counter)
        time = as_int(made)
        drop(made)
        return time
