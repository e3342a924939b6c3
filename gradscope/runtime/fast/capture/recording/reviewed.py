"""What may run in a step that is to be replayed: read by a person, and named here.

A function of the runtime that touches arrays outside of kernels may look at what is in them, and go
another way the next time. Those named here do not: they look at shapes, dtypes, strides and at who
holds what. Whoever adds one has read it.
"""

from __future__ import annotations

import dis
from functools import cache
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import pairwise
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

from gradscope.runtime.fast.capture.recording.recording import Recording

HARMLESS: Any = object()
CONSTANT: Any = object()
DRAWN: Any = object()
ANSWER: Any = object()
"""What the runtime may ask of a tensor, but not the program: no guard looks at it."""

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
"""What the runtime itself keeps for all of a program: where it is, and its name."""

SHUFFLING = frozenset(
    ("abc", "collections", "contextlib", "dataclasses", "enum", "functools", "operator", "typing")
)
"""Modules of the standard library that call what they are given and keep nothing."""

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
    "core.tensors.tensor.values:Values.item": "a number is read (.item(), float(), or a branch)",
    "core.tensors.tensor.values:Values.tolist": "numbers are read (.tolist())",
    "core.autograd.hooks.hooks:register_hook": "a hook is registered on a tensor",
    "core.autograd.custom.function:Function.apply": (
        "a custom Function is applied, or a module has a full backward hook"
    ),
}
"""What programs often do that no replay could."""


def why_not(name: str) -> str:
    """Why a call of a function of the runtime cannot be replayed."""
    return SAID.get(name) or f"{in_words(name)} looks at numbers"


def in_words(name: str) -> str:
    """A function of the runtime as the program would call it."""
    module, _, function = name.rpartition(":")
    place = module.removeprefix("core.")
    return f"{function.replace('.<locals>', '')} ({place})"


def _index(recording: Recording, given: dict[str, Any]) -> Any:
    """An index that is a tensor without dims is read as a number."""
    array = getattr(given.get("item"), "_array", None)
    return "" if array is None or array.ndim else "an index is a number in a tensor"


def _plain_data(recording: Recording, given: dict[str, Any]) -> Any:
    """`torch.tensor` of numbers makes the same each time; of tensors and arrays it may not."""
    return "" if _is_plain(given.get("data")) else "a tensor is made of what is not plain numbers"


def _is_plain(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return all(map(_is_plain, data))
    return isinstance(data, bool | int | float | complex)


def _constant(recording: Recording, given: dict[str, Any]) -> Any:
    """A factory whose numbers are the same each time."""
    if given.get("out") is not None or given.get("requires_grad"):
        return "a factory is called with out= or requires_grad="
    return CONSTANT


def _drawn(recording: Recording, given: dict[str, Any]) -> Any:
    """A factory that draws numbers: it is called again in each replay."""
    if given.get("out") is not None or given.get("requires_grad"):
        return "a factory is called with out= or requires_grad="
    return DRAWN


def _names(module: str, names: str, what: Any) -> dict[str, Any]:
    return {f"{module}:{name}": what for name in names.split()}


FUNCTIONS: dict[str, Any] = {
    **_names(
        "core.autograd.engine.accumulate_grad",
        "AccumulateGrad.__init__ AccumulateGrad._accumulate_array AccumulateGrad._fits",
        HARMLESS,
    ),
    **_names("core.autograd.engine.backward", "_fit", HARMLESS),
    **_names("core.autograd.hooks.hooks", "retain_grad", HARMLESS),  # the engine stops there
    **_names("core.tensors.tensor.assigned_grad", "check_grad", HARMLESS),
    **_names("core.autograd.engine.evaluate", "evaluate_function", HARMLESS),
    **_names("core.probe", "_nobody", HARMLESS),
    **_names("compiler", "is_compiling", HARMLESS),
    **_names("amp.casting", "_Whole.__call__", HARMLESS),  # under autocast steps run as ever
    **_names("core.dispatch.overrides.gates", "Gate.__call__ Gate.wanted", HARMLESS),
    **_names("core.tensors.tensor.overriding", "overriders overrides", HARMLESS),
    **_names("core.dispatch.modes.factories_for_modes", "outlying.<locals>.dispatched", HARMLESS),
    **_names(
        "core.calls.long_way", "_cast _floating connect down take_road arrays_of _operand", HARMLESS
    ),
    **_names("core.graph.run_node", "fitted", HARMLESS),
    **_names("core.ops.shape.aliasing", "detach", HARMLESS),
    **_names(
        "core.ops.layers.attention",
        "_in_one.<locals>.<genexpr> _in_one.<locals>.<listcomp>",
        HARMLESS,
    ),
    **_names("core.ops.layers.attention", "_check", HARMLESS),
    **_names("core.ops.products.matmul", "_folds", HARMLESS),
    **_names("core.ops.shape.copies", "contiguous", HARMLESS),
    **_names("core.ops.shape.shape", "reshape view", HARMLESS),
    **_names(
        "core.tensors.memory.overlap",
        "_same_data check_memory refuse_partial_overlap refuse_repeated",
        HARMLESS,
    ),
    **_names("core.ops.index.subscript", "_plain", _index),
    **_names("core.ops.layers.dropout", "_dropped", HARMLESS),
    **_names("core.ops.layers.group_norm", "_top_group_norm", HARMLESS),
    **_names("core.ops.windows.avg_pooling", "avg_pool1d", HARMLESS),
    **_names("core.ops.windows.max_pooling", "_functions.<locals>.top _one_dim", HARMLESS),
    **_names("core.ops.pointwise.conversion", "converted", HARMLESS),
    **_names("core.ops.windows.adaptive_pooling", "adaptive_avg_pool1d", HARMLESS),
    **_names("core.ops.shape.reshaping", "_reshaped_in_place", HARMLESS),
    **_names(
        "core.tensors.saved.saved_variable",
        "save_input save_output unpack_array unpack_tensor pack _unhooked _placed _with_history",
        HARMLESS,
    ),
    **_names(
        "core.tensors.tensor.geometry",
        "Geometry.stride Geometry.is_contiguous",
        HARMLESS,
    ),
    **_names("core.tensors.tensor.geometry", "Geometry.storage_offset", ANSWER),
    **_names("core.tensors.tensor.tensor", "Tensor._version Tensor.untyped_storage", ANSWER),
    **_names("core.tensors.memory.typed_storage", "storage", ANSWER),
    **_names(
        "core.tensors.tensor.tensor",
        "alias_of Tensor.from_array Tensor.data",
        HARMLESS,
    ),
    **_names("core.tensors.placement", "wrapped_on place", HARMLESS),
    **_names("core.tensors.views.in_place", "before_write write", HARMLESS),
    **_names(
        "core.tensors.views.views",
        "attach_view attach_views share regenerated _regenerated",
        HARMLESS,
    ),
    **_names("core.tensors.wrapping", "wrap fresh wrap_all wrapped_number", HARMLESS),
    **_names("core.tensors.making.factories", "new_leaf", HARMLESS),
    **_names("core.tensors.making.factories", "array_of _leaves _shape", _plain_data),
    **_names(
        "core.tensors.making.factories",
        "zeros ones full tensor like.<locals>.factory full_like empty",
        _constant,
    ),
    **_names("core.tensors.making.sequences", "eye arange range linspace logspace", _constant),
    **_names(
        "core.ops.random.random",
        "rand randn randint randperm _like.<locals>.factory randint_like normal",
        _drawn,
    ),
    **_names("optim.quick", "_arrays _counted", HARMLESS),
    **_names("core.autograd.custom.function", "CustomOperation.__init__", HARMLESS),
}


def drawn(recording: Recording, frame: FrameType, given: dict[str, Any], result: Any) -> None:
    """Note a factory whose numbers are drawn: it is called again."""
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
    """Whether code takes of an array nothing but its shape, dtype and the like.

    Directly (`t._array.shape`), or by a local variable of which nothing else is taken.
    """
    if "_array" in code.co_consts and not {"getattr", "setattr"}.isdisjoint(code.co_names):
        return False  # else it is asked for by hasattr
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
