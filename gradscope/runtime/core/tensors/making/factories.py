"""Factories: tensors from numbers, lists, NumPy arrays, and uninitialized."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.devices import devices
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.memory_formats import empty_as
from gradscope.runtime.core.errors.arguments.check_when_failing import judged
from gradscope.runtime.core.errors.arguments.raise_wrong_call import blame_the_call
from gradscope.runtime.core.errors.engine.leaves import integer_gradient
from gradscope.runtime.core.errors.memory import allocated
from gradscope.runtime.core.state import settings, upward
from gradscope.runtime.core.state.array_calls import captured_as, layout_only
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.dims import no_sizes
from gradscope.runtime.core.tensors.making.elements import element
from gradscope.runtime.core.tensors.making.reals import fitting
from gradscope.runtime.core.tensors.memory.borrowed import check_strides, lent
from gradscope.runtime.core.tensors.placement import place
from gradscope.runtime.core.tensors.tensor.tensor import Tensor, add_methods
from gradscope.runtime.core.tensors.tensor.values import warned_of_history
from gradscope.runtime.core.tensors.wrapping import fresh


@layout_only
def new_leaf(array: Any, requires_grad: bool = False, device: devices.device = devices.CPU) -> Any:
    """A leaf with a new array."""
    tensor = fresh(array)
    if device is not devices.CPU:
        place(tensor, device)
    if probe.here is not None:
        probe.here.came_in(tensor)
    if not requires_grad:
        return tensor
    if tensor._array.dtype.kind not in "fcV":
        only = "Only Tensors of floating point and complex dtype can require gradients"
        raise integer_gradient(only, tensor)
    return tensor.requires_grad_(True)


def _numpy_dtype(dtype: Any, otherwise: Any) -> Any:
    kind = otherwise if dtype is None else dtype_named(dtype)
    return kind.numpy


def dtype_named(dtype: Any) -> Any:
    """The dtype of a dtype object, a Python type or a legacy type name."""
    if isinstance(dtype, dtypes.dtype):
        return dtype
    if dtype in (float, int, bool, complex):
        return {
            float: dtypes.float64,
            int: dtypes.int64,
            bool: dtypes.bool_,
            complex: dtypes.complex128,
        }[dtype]
    if isinstance(dtype, str) and dtype.startswith("torch.") and dtype.endswith("Tensor"):
        scalar = dtype.removeprefix("torch.").removesuffix("Tensor")
        found = next((kind for kind in dtypes.ALL if kind.scalar_name == scalar), None)
        if found is not None:
            return found
    blame_the_call()
    raise TypeError(f"dtype must be torch.dtype, not {type(dtype).__name__}")


def sizes_of(size: tuple[Any, ...], named: Any = None) -> tuple[int, ...]:
    size = size if named is None else (named,)
    if len(size) == 1 and isinstance(size[0], list | tuple):
        size = tuple(size[0])
    if not all(hasattr(each, "__index__") for each in size):
        raise no_sizes(size, sys._getframe(1).f_code.co_name)
    sizes = tuple(int(s) for s in size)
    bad = next((s for s in sizes if s < 0), None)
    if bad is not None:
        raise RuntimeError(f"Trying to create tensor with negative dimension {bad}: {list(sizes)}")
    return sizes


@captured_as("constant")
def tensor(
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """Create a tensor with a copy of the data."""
    where = devices.check(device)
    if isinstance(data, Tensor):
        warn(
            "To copy construct from a tensor, it is recommended to use "
            "sourceTensor.detach().clone()"
            " or sourceTensor.detach().clone().requires_grad_(True), rather than "
            "torch.tensor(sourceTensor)."
        )
    return new_leaf(array_of(data, dtype).copy(), requires_grad, where)


@captured_as("data")
def array_of(data: Any, dtype: Any = None) -> Any:
    """The data as an array of the dtype that PyTorch infers."""
    if isinstance(data, Tensor):
        array = data._array
    elif isinstance(data, np.ndarray | np.generic):
        array = _supported(np.asarray(data))
        check_strides(array)
    else:
        array = _from_python(data, None if dtype is None else dtype_named(dtype))
    kind = array.dtype if dtype is None else dtype_named(dtype).numpy
    return array if array.dtype == kind else fitting(array, kind).astype(kind)


def _supported(array: Any) -> Any:
    if array.dtype.byteorder == ">":
        raise ValueError(
            "given numpy array has byte order different from the native byte order. "
            "Conversion between byte orders is currently not supported."
        )
    dtypes.from_numpy(array.dtype)
    return array


def _from_python(data: Any, wanted: Any) -> Any:
    leaves = _leaves(data)
    if wanted is None:
        kinds = {_kind(leaf) for leaf in leaves} or {dtypes.get_default_dtype()}
        ranked = sorted(kinds, key=_rank)
        wanted = ranked[-1]
        for kind in ranked[:-1]:
            wanted = dtypes.promote_types(wanted, kind)
    shape = _shape(data)
    if wanted.is_complex is False and any(isinstance(leaf, complex) for leaf in leaves):
        raise TypeError(f"can't convert complex to {wanted}")
    if not (wanted.is_floating_point or wanted.is_complex) and wanted is not dtypes.bool_:
        leaves = [int(leaf) for leaf in leaves]
    try:
        first = np.float32 if wanted is dtypes.float16 else wanted.numpy  # see `fitting`
        return np.array(leaves, first).astype(wanted.numpy, copy=False).reshape(shape)
    except OverflowError as error:
        raise RuntimeError(
            f"value cannot be converted to type {wanted.name} without overflow"
        ) from error


def _kind(leaf: Any) -> Any:
    if isinstance(leaf, np.generic):
        return dtypes.from_numpy(leaf.dtype)
    return dtypes.number_dtype(leaf)


def _rank(kind: Any) -> int:
    return 3 if kind.is_complex else 2 if kind.is_floating_point else int(kind is not dtypes.bool_)


@captured_as("data")
def _leaves(data: Any) -> list[Any]:
    if isinstance(data, Tensor):
        return list(warned_of_history(data)._array.reshape(-1))
    if isinstance(data, np.ndarray):
        return list(data.reshape(-1))
    if isinstance(data, bool | int | float | complex | np.generic):
        return [data]
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if isinstance(data, list | tuple) or (hasattr(data, "__len__") and is_sequence(data)):
        return [leaf for item in data for leaf in _leaves(item)]
    if hasattr(data, "__float__"):
        return [float(data)]
    raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")


@captured_as("data")
def _shape(data: Any, dim: int = 0) -> tuple[int, ...]:
    """The sizes of nested lists. All lists of one level must have the same length."""
    if isinstance(data, Tensor | np.ndarray):
        return tuple(data.shape)
    if not (isinstance(data, list | tuple) or hasattr(data, "__len__")):
        return ()
    if len(data) == 0:
        return (0,)
    inner = _shape(data[0], dim + 1)
    for item in data:
        found = _shape(item, dim + 1)
        if found != inner:
            if len(found) != len(inner):
                raise TypeError(f"expected sequence of equal dimensions at dim {dim + 1}")
            raise ValueError(
                f"expected sequence of length {inner[0] if inner else 0} at dim {dim + 1} "
                f"(got {found[0] if found else 0})"
            )
    return (len(data), *inner)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """The data as a tensor, without a copy if possible."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    return new_leaf(array_of(data, dtype), device=devices.check(device))


def from_numpy(array: Any) -> Any:
    """A tensor that shares the array's memory."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    check_strides(array)
    if not array.flags.writeable:
        array = lent(array)
    return new_leaf(_supported(array))


@captured_as("constant")
def zeros(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    out: Any = None,
) -> Any:
    where = devices.check(device)
    kind = _kind_into(out, dtype, dtypes.get_default_dtype())
    return _out(
        "zeros",
        new_leaf(allocated(np.zeros, sizes_of(sizes, size), kind), requires_grad, where),
        out,
    )


@captured_as("constant")
def ones(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    out: Any = None,
) -> Any:
    where = devices.check(device)
    kind = _kind_into(out, dtype, dtypes.get_default_dtype())
    return _out(
        "ones", new_leaf(allocated(np.ones, sizes_of(sizes, size), kind), requires_grad, where), out
    )


def _kind_into(out: Any, dtype: Any, default: Any) -> Any:
    """The requested dtype, otherwise that of `out`."""
    return _numpy_dtype(dtype, default if out is None else out.dtype)


def _emptied(result: Any, out: Any) -> Any:
    """The result of `empty`: `out` gets the shape, nothing is written."""
    if out is None:
        return result
    return out if out.shape == result.shape else out.resize_(result.shape)


def _out(name: str, result: Any, out: Any) -> Any:
    return result if out is None else upward.written(name, result, out)


@captured_as("constant")
def empty(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
    out: Any = None,
) -> Any:
    """A tensor with uninitialized memory."""
    where = devices.check(device)
    kind = _numpy_dtype(dtype, dtypes.get_default_dtype())
    array = allocated(np.empty, sizes_of(sizes, size), kind)
    if settings.are_deterministic_algorithms_enabled() and settings.fills_memory():
        array.fill(_unset(kind))
    return _emptied(new_leaf(array, requires_grad, where), out)


def _unset(kind: Any) -> Any:
    """The value that fills uninitialized memory in deterministic mode, to be noticed when read."""
    if kind.kind in "fcV":
        return math.nan
    return True if kind.kind == "b" else np.iinfo(kind).max


@judged
@captured_as("constant")
def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    out: Any = None,
) -> Any:
    where = devices.check(device)
    if not isinstance(size, list | tuple):
        given = type(size).__name__
        raise TypeError(f"full(): argument 'size' (position 1) must be tuple of ints, not {given}")
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    kind = _kind_into(out, dtype, dtypes.number_dtype(value))
    shape = sizes_of((size,))
    number = element(value, kind, by_double=math.prod(shape) == 1)
    array = allocated(np.full, shape, number, kind)
    return _out("full", new_leaf(array, requires_grad, where), out)


def like(name: str) -> Any:
    """A factory that takes shape, dtype and layout from a tensor."""
    maker, value = getattr(np, name), {"zeros_like": 0, "ones_like": 1}.get(name)

    @captured_as("constant")
    def factory(
        input: Tensor,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        layout: Any = None,
        memory_format: Any = None,
    ) -> Any:
        where = input.device if device is None else devices.check(device)
        kind = _numpy_dtype(dtype, input.dtype)
        if memory_format is None and input._array.flags.c_contiguous:
            return new_leaf(maker(input._array, dtype=kind, subok=False), requires_grad, where)
        array = empty_as(input._array, kind, memory_format)
        if value is not None:
            array.fill(value)
        return new_leaf(array, requires_grad, where)

    factory.__name__ = name
    return judged(factory)


zeros_like, ones_like, empty_like = like("zeros_like"), like("ones_like"), like("empty_like")


@judged
@captured_as("constant")
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    memory_format: Any = None,
) -> Any:
    where = input.device if device is None else devices.check(device)
    kind = _numpy_dtype(dtype, input.dtype)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    array = empty_as(input._array, kind, memory_format)
    number = np.asarray(element(value, kind, by_double=array.size == 1))
    array.fill(fitting(number, kind).astype(kind))
    return new_leaf(array, requires_grad, where)


def is_sequence(data: Any) -> bool:
    """Whether its elements can be indexed by number."""
    return hasattr(data, "__getitem__") and not isinstance(data, dict | str | bytes | np.generic)


def _array_wrap(self: Any, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    """NumPy's result for a tensor, as a tensor."""
    array = np.asarray(array)
    return from_numpy(array.astype(np.uint8) if array.dtype == np.bool_ else array)


add_methods(__array_wrap__=_array_wrap)
