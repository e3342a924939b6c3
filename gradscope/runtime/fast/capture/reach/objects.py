"""What a step can read of objects and classes: present and possible attributes.

That an attribute is missing is checked by the number of attributes. Of the runtime's classes only
what a program may replace is held: names it uses, forwards, steps of optimizers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.fast.capture.reach.holdings import ABSENT, Holding
from gradscope.runtime.fast.capture.recording.watching import names_in
from gradscope.runtime.nn import functional
from gradscope.runtime.nn.modules.module import Module

if TYPE_CHECKING:
    from gradscope.runtime.fast.capture.reach.reached import Reached

MADE_BY_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE
REPLACEABLE = ("forward", "__call__", "step", "zero_grad")
"""Attributes of the runtime's classes that a program calls under another name."""


OF_EVERY_MODULE = frozenset(vars(Module()))


class Unreadable(Exception):  # noqa: N818  (it is caught where a capture begins)
    """A step can read something that cannot be inspected."""


def hold_class(reached: Reached, cls: type, name: str) -> None:
    """Hold attributes of classes that the program's code names, including methods."""
    if type(cls) is not type:
        reached.look(type(cls), type(cls).__name__)
    for each in cls.__mro__:
        if id(each) in reached.classes:
            continue
        reached.classes[id(each)] = each
        if not is_a_library(each.__module__):
            _hold_own_class(reached, each, name)
        elif is_of_runtime(each.__module__):
            _hold_class_of_runtime(reached, each)


def _hold_own_class(reached: Reached, cls: type, name: str) -> None:
    own, codes = vars(cls), reached.program.codes
    named = set(reached.named(own))
    for key, value in own.items():
        inner = getattr(value, "__func__", value)
        if key not in named and getattr(inner, "__code__", None) not in codes:
            continue
        label = f"{name}.{key}"
        reached.note(Holding(own, key, value, "item", label))
        for part in (value.fget, value.fset) if isinstance(value, property) else (inner,):
            reached.look(part, label)
    reached.note(Holding(own, None, len(own), "size", f"len(vars({cls.__name__}))"))


def _hold_class_of_runtime(reached: Reached, cls: type) -> None:
    own = vars(cls)
    tensors = issubclass(cls, Tensor) or cls in Tensor.__mro__
    wanted = reached.program.attributes if tensors else REPLACEABLE
    for key in sorted(own.keys() & set(wanted)):
        if callable(own[key]) or isinstance(own[key], property):
            reached.note(Holding(own, key, own[key], "item", f"{cls.__name__}.{key}"))
    forward = own.get("forward")
    if isinstance(forward, FunctionType):
        for key in sorted(names_in(forward.__code__).attributes & vars(functional).keys()):
            value = vars(functional)[key]
            reached.note(Holding(vars(functional), key, value, "item", f"functional.{key}"))


def hold_object(reached: Reached, value: Any, name: str) -> None:
    """Hold attributes of an object that the program's code names; of the runtime's objects, all."""
    cls = type(value)
    reached.look(cls, cls.__name__)
    own = getattr(value, "__dict__", None)
    slots = [key for each in cls.__mro__ for key in _slots_of(each)]
    if own is None and not slots:
        if not is_of_runtime(cls.__module__):
            raise Unreadable(f"{name} is of {cls.__module__}.{cls.__name__}, which is opaque")
        return
    if _is_opaque(cls):
        raise Unreadable(f"{name} is of {cls.__module__}.{cls.__name__}, which is opaque")
    if own is not None:
        for key in _keys_read(reached, cls, own):
            reached.hold(own, key, own[key], "item", f"{name}.{key}")
        reached.note(Holding(own, None, len(own), "size", f"len(vars({name}))"))
        reached.note(Holding(value, "__class__", cls, "slot", f"the class of {name}"))
    for key in slots:
        reached.hold(value, key, getattr(value, key, ABSENT), "slot", f"{name}.{key}")


def _keys_read(reached: Reached, cls: type, own: dict[str, Any]) -> list[str]:
    """All attributes of the runtime's objects; named ones of the program's objects and modules."""
    first = next((each for each in cls.__mro__ if is_of_runtime(each.__module__)), None)
    if first is None:
        return reached.named(own)
    if first is not Module or reached.program.every_attribute:
        return list(own)
    named = set(reached.named(own))
    return [key for key in own if key in OF_EVERY_MODULE or key in named]


def _slots_of(cls: type) -> Iterator[str]:
    slots = vars(cls).get("__slots__", ())
    for key in (slots,) if isinstance(slots, str) else slots:
        if key not in ("__dict__", "__weakref__"):
            yield f"_{cls.__name__.lstrip('_')}{key}" if _is_mangled(key) else key


def _is_mangled(key: str) -> bool:
    return key.startswith("__") and not key.endswith("__")


def _is_opaque(cls: type) -> bool:
    """Whether objects of a class have state that no attribute shows."""
    for each in cls.__mro__[:-1]:
        if each in (Exception, BaseException, SimpleNamespace):
            continue
        module = sys.modules.get(each.__module__)
        written = module is None or hasattr(module, "__file__") or each.__module__ == "__main__"
        if not each.__flags__ & MADE_BY_PYTHON or not written:
            return True
    return False


def is_of_runtime(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in ("gradscope", "torch")


def is_a_library(module: str) -> bool:
    top = module.partition(".")[0]
    libraries = ("gradscope", "torch", "numpy", "numba")
    return top in libraries or (top in sys.stdlib_module_names and top != "__main__")
