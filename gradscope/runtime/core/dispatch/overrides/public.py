"""The functions of the runtime that users may override, and their names."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import FunctionType
from typing import Any

from gradscope.runtime.core.dispatch.modes import factories_for_modes as dispatch_outlying
from gradscope.runtime.core.dispatch.overrides import gates
from gradscope.runtime.core.dispatch.overrides.gates import Public
from gradscope.runtime.core.rows.offered import FUNCTIONS, ONE_OBJECT
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.frames import stood_for
from gradscope.runtime.core.tensors.tensor.overriding import handle, overriders
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

RUNTIME = "gradscope.runtime"

TABLES = (
    f"{RUNTIME}.core.ops.",
    f"{RUNTIME}.core.tensors.making.",
    f"{RUNTIME}.core.tensors.questions",
)
"""Where functions of the top module are defined, besides generated ones."""

UNSEEN = frozenset({
    "broadcast_shapes", "eig", "from_numpy", "get_device_module", "is_storage", "is_tensor",
    "lstsq", "matrix_rank", "solve", "symeig", "typename",
})  # fmt: skip
"""Functions of the top module that cannot be overridden in PyTorch."""

IN_PYTHON = frozenset({
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_tensors",
    "cartesian_prod", "cdist", "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "split",
    "stft", "tensordot", "unique", "unique_consecutive", "unravel_index",
})  # fmt: skip
"""Functions of the top module that belong to PyTorch's `torch.functional`."""

NN_NATIVE = frozenset({
    "adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear", "celu_",
    "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "cosine_similarity", "elu_", "gelu", "hardshrink",
    "hardtanh_", "leaky_relu_", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle",
    "linear", "logsigmoid", "one_hot", "pairwise_distance", "pdist", "prelu", "relu_",
    "rrelu_", "selu_", "softplus", "softshrink", "threshold_",
})  # fmt: skip
"""Functions of `nn.functional` that are not written in Python."""

AS_METHODS = frozenset({"sigmoid", "tanh"})
"""Functions of `nn.functional` that appear as the methods they call."""

INITIALISERS = ("constant_", "kaiming_uniform_", "normal_", "uniform_")

AUTOGRAD = {
    "_set_grad_enabled": "modes.grad_mode",
    "backward": "engine.backward",
    "grad": "engine.backward",
}

HIDDEN_METHODS = frozenset({
    "__dir__", "__getattr__", "__hash__", "__init__", "__init_subclass__", "__iter__",
    "__new__", "__reduce_ex__", "__setattr__", "__torch_function__", "_make_subclass",
    "_make_wrapper_subclass", "as_subclass", "from_array", "gradient_edge", "history",
    "is_leaf_so_far", "meta", "new", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros",
})  # fmt: skip
"""Methods of tensors that cannot be overridden."""

PYTHON_METHODS = frozenset({
    "__array__", "__contains__", "__deepcopy__", "__floordiv__", "__format__", "__ipow__",
    "__len__", "__pow__", "__rdiv__", "__repr__", "__rfloordiv__", "__rlshift__", "__rmatmul__",
    "__rmod__", "__rpow__", "__rrshift__", "__rsub__", "__rtruediv__", "backward", "istft",
    "lu", "norm", "register_hook", "stft",
    "register_post_accumulate_grad_hook", "split", "unflatten", "unique", "unique_consecutive",
})  # fmt: skip

OPERATORS = {
    "__abs__": "abs", "__add__": "add", "__ge__": "ge", "__gt__": "gt", "__iadd__": "add_",
    "__ifloordiv__": "floor_divide_", "__imod__": "remainder_", "__imul__": "mul_",
    "__isub__": "sub_", "__itruediv__": "div_", "__le__": "le", "__lt__": "lt",
    "__matmul__": "matmul", "__mod__": "remainder", "__mul__": "mul", "__ne__": "ne",
    "__neg__": "neg", "__pos__": "positive", "__radd__": "add", "__rand__": "bitwise_and",
    "__rmul__": "mul", "__ror__": "bitwise_or", "__rxor__": "bitwise_xor", "__sub__": "sub",
    "__truediv__": "div",
}  # fmt: skip
"""Operators that appear as other methods."""

GIVING_WAY = frozenset(
    f"__{kind}{name}__"
    for name in [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "and",
        "or",
        "xor",
        "lshift",
        "rshift",
        "matmul",
    ]
    for kind in ("", "r", "i")
) | {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}
"""Operators that let Python try the other operand if no class handles the call."""


def publics() -> list[Public]:
    """All functions that users may override."""
    return gates.known(_collected)


def put_up_gates() -> None:
    """From now on, offer calls of public functions to modes and overriding classes."""
    if not gates.are_up():
        gates.put_up(publics())


def offered(op: Operation, arguments: tuple[Any, ...], stranger: Exception) -> Any:
    """Offer a call of an operation to the class of a value that is not a tensor."""
    if gates.are_up():  # it was already offered
        raise TypeError(str(stranger)) from None
    put_up_gates()
    given = list(arguments)
    while given and op.plan.parameters[len(given) - 1].has_default:
        given.pop()  # most likely not given
    named = zip(op.plan.parameters[len(given) :], arguments[len(given) :], strict=True)
    options = {p.public: value for p, value in named if value is not p.default}
    function = FUNCTIONS.get(op.base_name, op.road)
    public = next(public for public in publics() if public.function is function)
    found = overriders(arguments)
    return handle(public, found, tuple(type(each) for each in found), tuple(given), options)


def view_as(tensor: Any) -> Any:
    """A view of the whole tensor, created by its overriding class."""
    method: Any = Tensor.view_as  # type: ignore[attr-defined]  # an operation
    public = next(public for public in publics() if public.function is method)
    found = overriders([tensor])
    return handle(public, found, tuple(type(each) for each in found), (tensor, tensor), {})


def _collected() -> list[Public]:
    found = [*_top(), *_functional(), *_submodules(), *_methods(), *_properties(), *_others()]
    seen: set[FunctionType] = set()
    kept = []
    for public in found:
        if public.function not in seen:  # one object under several names
            seen.add(public.function)
            kept.append(public)
    return kept


def _functions(module: Any) -> Iterator[tuple[str, FunctionType]]:
    for name, there in list(vars(module).items()):
        value = stood_for(there)
        if isinstance(value, FunctionType) and not name.startswith("_"):
            home = value.__module__ or ""
            if home == RUNTIME or home.startswith(TABLES):
                yield name, value


def _top() -> Iterator[Public]:
    for name, function in _functions(import_module(RUNTIME)):
        if name in UNSEEN:
            continue
        python = name in IN_PYTHON
        full = f"torch.functional.{name}" if python else f"torch.{name}"
        shown = f"torch.nn.functional.{name}" if name in ONE_OBJECT else full
        seen_as = dispatch_outlying.OUTLYING.get(name, "")
        yield Public(function, shown, full, function, python, aten=seen_as)


def _functional() -> Iterator[Public]:
    for name, function in _functions(import_module(f"{RUNTIME}.nn.functional")):
        full = f"torch.nn.functional.{name}"
        if name in AS_METHODS:
            yield Public(function, full, f"torch.Tensor.{name}", getattr(Tensor, name))
        elif name in NN_NATIVE:
            yield Public(function, full, f"torch.nn.{name}", function)
        else:
            yield Public(function, full, full, function, python=True)


def _submodules() -> Iterator[Public]:
    for part in ("fft", "linalg", "special"):
        for name, function in _functions(import_module(f"{RUNTIME}.{part}")):
            label = f"torch.{part}.{part}_{name}"
            yield Public(function, f"torch.{part}.{name}", label, function)


def members() -> dict[str, Any]:
    """What the tensor class itself defines, by name, without what it inherits from `object`."""
    found: dict[str, Any] = {}
    for cls in reversed(Tensor.__mro__[:-1]):
        found.update((name, stood_for(value)) for name, value in vars(cls).items())
    return found


def _methods() -> Iterator[Public]:
    for name, value in members().items():
        if not isinstance(value, FunctionType) or name in HIDDEN_METHODS:
            continue
        python = name in PYTHON_METHODS
        seen_as = OPERATORS.get(name, name)
        home = "torch._tensor" if python else "torch.Tensor"
        given = stood_for(getattr(Tensor, seen_as))
        label = f"{home}.{seen_as}"
        yield Public(
            value,
            f"torch.Tensor.{name}",
            label,
            given,
            python,
            gives_way=name in GIVING_WAY,
            aten=dispatch_outlying.METHODS.get(name, ""),
        )


def _properties() -> Iterator[Public]:
    for name, value in members().items():
        if not isinstance(value, property):
            continue
        ways = {"get": value.fget, "set": value.fset, "delete": value.fdel}
        for way, function in ways.items():
            if isinstance(function, FunctionType):
                full = f"torch.Tensor.{name}.__{way}__"
                shown = "" if way == "delete" else full
                given = getattr(value, f"__{way}__")
                yield Public(function, shown, full, given, of_property=True)


def _others() -> Iterator[Public]:
    init = import_module(f"{RUNTIME}.nn.init")
    for name in INITIALISERS:
        full = f"torch.nn.init.{name}"
        function = getattr(init, name)
        yield Public(function, full, full, function, python=True)
    for name, home in AUTOGRAD.items():
        function = getattr(import_module(f"{RUNTIME}.core.autograd.{home}"), name)
        python = home == "engine.backward"
        yield Public(function, "", f"torch.autograd.{name}", function, python=python)


upward.offered_to_stranger = offered
upward.put_up_gates = put_up_gates
upward.view_as = view_as
