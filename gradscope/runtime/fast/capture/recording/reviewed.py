"""Functions that may run in a replayed step.

A function of the runtime that uses arrays outside of kernels may read their values, and take
another branch the next time. Functions that do not are marked at their definition: `captured_as`.
"""

from __future__ import annotations

import dis
import re
from functools import cache
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import pairwise
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

from gradscope.runtime.core.state.array_calls import CAPTURED_AS
from gradscope.runtime.fast.capture.recording.recording import StepRecording

HARMLESS: Any = object()
CONSTANT: Any = object()
DRAWN: Any = object()
ANSWER: Any = object()
"""What the runtime may read of a tensor, but not the program: no guard checks it."""

MODULES = (
    "core.autograd.engine.",
    "core.autograd.modes.grad_mode",
    "core.autograd.tensor_methods",
    "core.autograd.forward.forward_grad",
    "core.calls.",
    "core.devices.",
    "core.dtypes.",
    "core.errors.",
    "core.generated.",
    "core.graph.",
    "core.ops.",
    "core.rows.",
    "core.state.",
    "core.tensors.",
    "nn.functional",
    "nn.modules.",
    "nn.parameter",
    "nn.uninitialized",
    "nn.utils.clip_grad",
    "optim.",
    "_utils",
    "backends.mha",
)
"""Modules whose functions may run, unless they touch arrays."""

SWITCHES = (
    ("core.state.settings", "_settings"),
    ("core.dtypes.dtypes", "_default"),
    ("backends.mha", "_switch"),
    ("nn.modules.module_parts.global_hooks", "everywhere"),
    ("optim.hooks", "_before_every"),
    ("optim.hooks", "_after_every"),
)
"""State of the runtime for the whole program: its module and its name."""

SHUFFLING = frozenset(
    ("abc", "collections", "contextlib", "dataclasses", "enum", "functools", "operator", "typing")
)
"""Modules of the standard library that call their arguments and store nothing."""

READS_NAMES = frozenset(("getattr", "hasattr", "vars", "dir", "setattr", "delattr"))
BUILTINS = READS_NAMES | {
    "abs", "all", "any", "callable", "chr", "divmod", "format", "isinstance", "issubclass", "iter",
    "len", "max", "min", "next", "ord", "pow", "repr", "round", "sorted", "sum", "__build_class__",
}  # fmt: skip
C_MODULES = frozenset(("math", "cmath", "_operator", "_functools", "itertools", "_abc"))
CONTAINERS = (
    list,
    tuple,
    dict,
    set,
    frozenset,
    str,
    bytes,
    int,
    float,
    bool,
    complex,
    slice,
    range,
)


SAID = {
    "core.tensors.tensor.values:Values.item": "a value is read (.item(), float(), or a branch)",
    "core.tensors.tensor.values:Values.tolist": "values are read (.tolist())",
    "core.autograd.hooks.hooks:register_hook": "a hook is registered on a tensor",
    "core.autograd.custom.function:Function.apply": (
        "a custom Function is applied, or a module has a full backward hook"
    ),
}
"""Frequent actions of programs that cannot be replayed."""


def why_not(name: str) -> str:
    """Why a call of a function of the runtime cannot be replayed."""
    return SAID.get(name) or f"{in_words(name)} reads values"


def in_words(name: str) -> str:
    """A function of the runtime as the program would call it."""
    module, _, function = name.rpartition(":")
    place = module.removeprefix("core.")
    return f"{function.replace('.<locals>', '')} ({place})"


def _index(recording: StepRecording, given: dict[str, Any]) -> Any:
    """An index that is a tensor without dims is read as a number."""
    array = getattr(given.get("item"), "_array", None)
    return "" if array is None or array.ndim else "an index is a value in a tensor"


def _plain_data(recording: StepRecording, given: dict[str, Any]) -> Any:
    """`torch.tensor` of numbers has the same values each time; of tensors and arrays it may not."""
    return (
        ""
        if _is_plain(given.get("data"))
        else "a tensor is created from data that is not plain numbers"
    )


def _is_plain(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return all(map(_is_plain, data))
    return isinstance(data, bool | int | float | complex)


def _constant(recording: StepRecording, given: dict[str, Any]) -> Any:
    """A factory whose values are the same each time."""
    if given.get("out") is not None or given.get("requires_grad"):
        return "a factory is called with out= or requires_grad="
    return CONSTANT


def _drawn(recording: StepRecording, given: dict[str, Any]) -> Any:
    """A factory that draws numbers: it is called again in each replay."""
    if given.get("out") is not None or given.get("requires_grad"):
        return "a factory is called with out= or requires_grad="
    return DRAWN


HOW: dict[str, Any] = {
    "layout": HARMLESS, "answer": ANSWER, "index": _index, "data": _plain_data,
    "constant": _constant, "drawn": _drawn,
}  # fmt: skip
"""What the marks of functions mean here (`captured_as` in core/state/array_calls.py)."""
_INSIDE = re.compile(r"(\.<locals>\.<(gen|list|set|dict)(expr|comp)>)+$")


def mark_of(name: str) -> Any:
    """The mark of a function of the runtime that uses arrays; None if there is none."""
    return HOW.get(CAPTURED_AS.get(f"gradscope.runtime.{_INSIDE.sub('', name)}", ""))


def drawn(recording: StepRecording, frame: FrameType, given: dict[str, Any], result: Any) -> None:
    """Record a factory that draws random numbers: it is called again."""
    if not recording.listens:
        return
    code = frame.f_code
    cells = tuple([CellType(given[name]) for name in code.co_freevars])
    function = FunctionType(code, frame.f_globals, code.co_name, None, cells)
    by_place = [given[name] for name in code.co_varnames[: code.co_argcount]]
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    by_name = {name: given[name] for name in names}
    rest = list(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
    if code.co_flags & CO_VARARGS:
        by_place += given[rest.pop(0)]
    if code.co_flags & CO_VARKEYWORDS:
        by_name |= given[rest.pop(0)]
    args = tuple([recording.tree(value) for value in by_place])
    named = {name: recording.tree(value) for name, value in by_name.items()}

    def again(*args: Any, **named: Any) -> Any:
        return function(*args, **named)._array

    nr = recording.new(result._array)
    recording.calls.append(recording.call(again, args, named, nr, code.co_name, kind="drawn"))


METADATA = frozenset(("dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides"))


@cache
def looks_at_layout_only(code: CodeType) -> bool:
    """Whether code reads only shape, dtype and the like of an array.

    Directly (`t._array.shape`), or by a local variable that is used for nothing else.
    """
    if "_array" in code.co_consts and not {"getattr", "setattr"}.isdisjoint(code.co_names):
        return False  # else hasattr reads it
    instructions = list(dis.get_instructions(code))
    kept: set[str] = set()
    for at, following in pairwise(instructions):
        if at.argval != "_array" or at.opname == "LOAD_CONST" or _takes_layout(following):
            continue
        if following.opname != "STORE_FAST" or at.opname.startswith("STORE"):
            return False
        kept.add(following.argval)
    return all(
        _takes_layout(following)
        for at, following in pairwise(instructions)
        if _mentions(at, kept) and at.opname != "STORE_FAST"
    )


def _takes_layout(instruction: dis.Instruction) -> bool:
    return instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and instruction.argval in METADATA


def _mentions(instruction: dis.Instruction, names: set[str]) -> bool:
    value = instruction.argval
    listed = value if isinstance(value, tuple) else (value,)
    return any(isinstance(name, str) and name in names for name in listed)
