"""Lets machine code have a tensor measured on its device.

# Note [Asking Python]
Callbacks meet tensors where PyTorch itself may call Python: a tensor subclass or a backend written
in Python receives the same operations. So the interpreter lock is acquired in the same order of
locks as there. Python gets an alias of the tensor, with a version counter of its own: an object for
the tensor itself would stay with it. For plain tensors, making it runs no Python and raises
nothing; dispatch keys show which ones these may be.
"""

from __future__ import annotations

import ctypes
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gradscope.machine_code.interpreter import PYTHON, call_one, drop, from_int
from gradscope.machine_code.language import Address, External, load, store
from gradscope.watch.in_place.compilers import aside
from gradscope.watch.native.records import ensured, is_there, number_of, released, stays
from gradscope.watch.unseen import UnknownBuildError, library, unseen
from gradscope.watch.values.measure import KEYS, PLACES, nothing_in
from gradscope.watch.values.ring_rows import COUNT, IN_UNITS, MEASURED, NAN, ON_DEVICE

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.watch.in_place.faults import Faults
    from gradscope.watch.values.devices.device_looks import DeviceLooks

_state = stays(np.zeros(2, np.int64))
ASKED, OTHERS = (Address(_state.ctypes.data, "asked_of_devices") + 8 * n for n in range(2))
"""The function that is asked, and dispatch keys that no plain tensor on a device has."""
SAYS, ON_ITS_DEVICE = 8 * IN_UNITS, ON_DEVICE
is_raising = External(PYTHON, "PyErr_Occurred", 0)
FAILED = "a tensor was measured on its device"


def is_elsewhere(tensor: int) -> int:
    """Whether a tensor may be on a device that measures it."""
    return load(ASKED) != 0 and load(tensor + load(PLACES + KEYS)) & load(OTHERS) == 0


def ask(tensor: int, out: int) -> int:
    """Have a tensor measured on its device: 1, and the number of the look is in `out`; or 0."""
    function = load(ASKED)
    if is_elsewhere(tensor) == 0 or is_there() == 0:
        return 0
    nothing_in(out)
    gil = ensured()
    if is_raising() == 0 and load(ASKED) == function:
        given = from_int(out)
        store(out, tensor)
        number_of(call_one(function, given))
        drop(given)
    released(gil)
    return load(out + SAYS) == ON_ITS_DEVICE


class NoAlias(UnknownBuildError):  # noqa: N818 -- why devices are not asked
    """This build of PyTorch makes no alias of a tensor at an address."""


class AskedByMachineCode:
    """Answers machine code from `start` to `stop`. One per process may be started."""

    def __init__(self, looks: DeviceLooks, faults: Faults) -> None:
        self._looks, self._faults = looks, faults
        self.alias, _state[1] = _alias(), _other_keys()

    def start(self) -> None:
        """Start."""
        _state[0] = id(stays(partial(_answered, self)))

    def stop(self) -> None:
        """Stop."""
        _state[0] = 0

    def answer(self, out: int) -> None:
        """Measure the tensor whose address is in a row of statistics, and complete the row."""
        row = (ctypes.c_int64 * MEASURED).from_address(out)
        address = row[COUNT]
        row[COUNT] = 0
        with unseen():
            tensor = self.alias(address)
        number = self._looks.measure(tensor)
        if number:
            row[COUNT], row[NAN], row[IN_UNITS] = tensor.numel(), number, ON_DEVICE


@aside
def _answered(asked: AskedByMachineCode, out: int) -> int:
    asked._faults.guarded(FAILED, asked.answer, out)
    return 1


BACKENDS = "CUDA", "HIP", "XPU", "MPS", "HPU", "MTIA", "PrivateUse1"


def _other_keys() -> int:
    """All dispatch keys but those of plain tensors of these backends, as bits of a word."""
    keys, sets = torch._C.DispatchKey, torch._C.DispatchKeySet
    plain = 0
    for name in BACKENDS:
        for key in (name, f"Autograd{name}", f"Autocast{name}", "ADInplaceOrView"):
            if hasattr(keys, key):
                plain |= sets(getattr(keys, key)).raw_repr()
    return ~plain & LARGEST


LARGEST = (1 << 63) - 1
_ALIAS = "_ZNK2at10TensorBase13variable_dataEv"
_OBJECT = "_Z16THPVariable_WrapON2at10TensorBaseE"


def _alias() -> Callable[[int], Any]:
    """The function that makes an object for a new tensor with the memory of one at an address."""
    functions, objects = library("torch_cpu"), library("torch_python")
    if functions is None or objects is None:
        raise NoAlias("a library of PyTorch is missing")
    try:
        alias: Any = getattr(ctypes.PyDLL(str(functions)), _ALIAS)
        of: Any = getattr(ctypes.PyDLL(str(objects)), _OBJECT)
    except (OSError, AttributeError) as error:
        raise NoAlias(str(error)) from None
    alias.argtypes, alias.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_void_p
    of.argtypes, of.restype = [ctypes.c_void_p], ctypes.py_object

    def made(address: int) -> Any:
        """It does not release the interpreter lock."""
        given, new = ctypes.c_void_p(address), ctypes.c_void_p()
        alias(ctypes.byref(new), ctypes.byref(given))
        return of(ctypes.byref(new))  # it moves the tensor into the object

    return made
