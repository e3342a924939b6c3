"""The tables of operations: one row per operation, one file per family.

Importing this package gives every operation its name, and tensors their methods.
"""

from __future__ import annotations

import importlib
import pkgutil
from inspect import CO_VARARGS
from types import FunctionType
from typing import Any

from gradscope.runtime.core.errors.missing import make_read_only, say_why_absent
from gradscope.runtime.core.rows.offered import FUNCTIONS, METHODS, NN_FUNCTIONS, ONE_OBJECT
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.rows.traits import F_ONLY, FUNCTION_ONLY, INTERNAL, METHOD_ONLY
from gradscope.runtime.core.state.collecting import without_collecting
from gradscope.runtime.core.state.frames import WRITTEN


def _families() -> list[str]:
    """All files of the tables by name. Operations are numbered in this order."""
    found = pkgutil.walk_packages(__path__, f"{__name__}.")
    return sorted((m.name for m in found if not m.ispkg), key=lambda name: name.rpartition(".")[2])


@without_collecting()
def load() -> None:
    """Load all tables, then attach methods to tensors."""
    from gradscope.runtime.core.tensors.tensor.tensor import Tensor

    for found in _families():
        importlib.import_module(found)
    for operation in REGISTRY.values():
        if "." in operation.name or INTERNAL in operation.traits:
            continue
        if F_ONLY in operation.traits:
            NN_FUNCTIONS.setdefault(operation.name, operation.road)
            continue
        if METHOD_ONLY not in operation.traits and operation.inplace_of is None:
            FUNCTIONS.setdefault(operation.name, operation.road)
        if FUNCTION_ONLY not in operation.traits:
            METHODS.setdefault(operation.name, operation.road)
    _offer_axis()
    _offer_variants()
    _offer_judged()
    taken: set[int] = set()
    for table in (METHODS, FUNCTIONS, NN_FUNCTIONS):
        own = {name: made for name, made in table.items() if _own_name(name, made)}
        for name, made in {**own, **table}.items():
            table[name] = _distinct(made, name, taken)
    for name, made in METHODS.items():
        setattr(Tensor, name, made)
    make_read_only(Tensor)
    say_why_absent(Tensor)


def _offer_variants() -> None:
    """Add the in-place functions of PyTorch's top module, and `out=` where PyTorch has it."""
    from gradscope.runtime.core.calls.extra_arguments.out_functions import taking_out
    from gradscope.runtime.core.calls.extra_arguments.which_functions import (
        IN_PLACE,
        NN_WITH_OUT,
        WITH_OUT,
    )

    for name in sorted(IN_PLACE & METHODS.keys()):
        FUNCTIONS.setdefault(name, METHODS[name])
    made: dict[int, Any] = {}
    for name in sorted(WITH_OUT & FUNCTIONS.keys()):
        given = FUNCTIONS[name]
        if id(given) not in made:
            made[id(given)] = taking_out(given)
        FUNCTIONS[name] = made[id(given)]
        if name in ONE_OBJECT and NN_FUNCTIONS.get(name) is given:
            NN_FUNCTIONS[name] = FUNCTIONS[name]
    for name in NN_WITH_OUT:
        NN_FUNCTIONS[name] = taking_out(NN_FUNCTIONS[name])


def _offer_axis() -> None:
    """Add NumPy's names for `dim` and `keepdim`."""
    from gradscope.runtime.core.calls.extra_arguments.axis_names import taking_axis
    from gradscope.runtime.core.calls.extra_arguments.which_functions import WITH_AXIS

    for table in (METHODS, FUNCTIONS):
        for name in WITH_AXIS & table.keys():
            table[name] = taking_axis(name, table[name])


def _offer_judged() -> None:
    """Let composite functions with other arguments than tensors check them after a failure."""
    from gradscope.runtime.core.errors.arguments.check_when_failing import judged

    around: dict[int, Any] = {}
    for table in (METHODS, FUNCTIONS, NN_FUNCTIONS):
        for name, made in table.items():
            if not isinstance(made, FunctionType) or not _is_judged(name, made):
                continue
            if id(made) not in around:
                around[id(made)] = judged(made)
            table[name] = around[id(made)]


_OPERANDS = frozenset({"self", "input", "other", "exponent", "alpha", "rounding_mode"})
"""Parameters that the general path checks anyway."""


def _is_judged(name: str, made: FunctionType) -> bool:
    """Whether a function is composite and has other arguments than operands, or separate sizes."""
    code = made.__code__
    if code.co_filename.startswith(WRITTEN) or code.co_flags & CO_VARARGS or name[0] == "_":
        return False
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return len(taken) > 1 and not _OPERANDS.issuperset(taken)


def _own_name(name: str, made: Any) -> bool:
    return name == getattr(made, "__name__", None)


def _distinct(made: Any, name: str, taken: set[int]) -> Any:
    """The function, or a copy of it: `torch.add` is not `Tensor.add`.

    Overriding classes distinguish them.
    """
    same = NN_FUNCTIONS.get(name) is made and FUNCTIONS.get(name) is made and name in ONE_OBJECT
    if not isinstance(made, FunctionType):
        return made
    short = name.rpartition(".")[2]
    if id(made) not in taken or same:
        taken.add(id(made))
        made.__name__ = made.__qualname__ = short
        return made
    from gradscope.runtime.core.calls.declare import like

    if "unbuilt_short" in made.__globals__:
        return like(made, short)
    twin = FunctionType(made.__code__, made.__globals__, short, made.__defaults__, made.__closure__)
    twin.__kwdefaults__, twin.__module__ = made.__kwdefaults__, made.__module__
    twin.__dict__.update(made.__dict__)
    return twin
