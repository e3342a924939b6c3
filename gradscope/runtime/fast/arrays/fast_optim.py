"""Compiled steps of optimizers: one call for all parameters. The plain twins are in stepping.py.

# Note [Addresses of arrays]
A call of a compiled function unpacks each array argument, which takes longer than the step of a
small parameter. So the function receives the addresses of the array objects as one table, and reads
the address of the elements from each object, as every C extension does. The offset is verified when
this file is imported; if it is wrong, NumPy is asked for the addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from gradscope.runtime.core.kernels.support import LARGE, Array
from gradscope.runtime.fast.compiling.compiled import compiled, inner
from gradscope.runtime.fast.threads.spread import spread

COSTS = {"adam": 1.0, "rmsprop": 0.4, "sgd": 0.2}
"""Nanoseconds per element."""
DATA_OFFSET = 16
"""The offset of the elements' address in an array object."""


def _told_by_numpy(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def addresses(lists: Sequence[Sequence[Array]]) -> Array:
    """Return the address of the elements of each array."""
    if not _OBJECTS_READ:
        return np.array([[_told_by_numpy(a) for a in arrays] for arrays in lists], np.uint64)
    table = np.array([[id(array) for array in arrays] for arrays in lists], np.uint64)
    _read(table, np.uint64(DATA_OFFSET))
    return table


@intrinsic
def _pointer(typing: Any, address: Any, like: Any) -> Any:
    """The address as a pointer to elements of the dtype of `like`."""
    made = types.CPointer(like.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return made(address, like), generate


@intrinsic
def _fused(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """Return x * y + z, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return x(x, y, z), generate


@compiled
def _read(table: Array, offset: Any) -> None:
    like = np.empty(0, np.uint64)
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            where = _pointer(table[row, column] + offset, like)
            table[row, column] = carray(where, 1)[0]


def _objects_can_be_read() -> bool:
    probe = np.arange(3.0)
    if int(np.frombuffer((b"\0" * 8), np.uint64)[0]) or id(probe) % 8:
        return False
    table = np.array([[id(probe)]], np.uint64)
    _read(table, np.uint64(DATA_OFFSET))
    return int(table[0, 0]) == _told_by_numpy(probe)


@inner(inline="always")
def _multiply_add(x, y, z, single):  # type: ignore[no-untyped-def]
    """Round once for float32; float64 rounds twice, as its plain twin must."""
    if single:
        return _fused(x, y, z)
    return x * y + z


@inner
def _piece(address: Any, low: int, high: int, like: Array) -> Array:
    """Elements of an array from `low` up to, excluding, `high`."""
    return carray(_pointer(address + np.uint64(low * like.itemsize), like), high - low)


# The update of one parameter is compiled for each combination of missing arrays: a loop is
# vectorized only if its arrays do not overlap, and a missing array is replaced by another one.


@compiled
def _sgd(table: Array, sizes: Array, limits: Any, c: Array, like: Array, single: Any) -> None:
    before = 0
    for k in range(sizes.size):
        low, high = max(limits[0] - before, 0), min(limits[1] - before, sizes[k])
        before += sizes[k]
        if low >= high:
            continue
        param = _piece(table[0, k], low, high, like)
        grad = _piece(table[1, k], low, high, like)
        if c[6] != 0:
            moving = _piece(table[2, k], low, high, like)
            _sgd_of_one(param, grad, moving, c, single, True)
        else:
            _sgd_of_one(param, grad, param, c, single, False)


@inner
def _sgd_of_one(
    param: Array, grad: Array, moving: Array, c: Array, single: Any, moves: Any
) -> None:
    decay, momentum, share, minus_lr = c[1], c[2], c[3], c[0]
    nesterov, maximize = c[4] != 0, c[5] != 0
    decays = decay != 0
    for i in range(param.size):
        g = -grad[i] if maximize else grad[i]
        if decays:
            g = _multiply_add(param[i], decay, g, single)
        if moves:
            m = _multiply_add(g, share, moving[i] * momentum, single)
            moving[i] = m
            g = _multiply_add(m, momentum, g, single) if nesterov else m
        param[i] = _multiply_add(g, minus_lr, param[i], single)


@compiled
def _adam(table: Array, sizes: Array, limits: Any, c: Array, like: Array, single: Any) -> None:
    before = 0
    for k in range(sizes.size):
        low, high = max(limits[0] - before, 0), min(limits[1] - before, sizes[k])
        before += sizes[k]
        if low >= high:
            continue
        param = _piece(table[0, k], low, high, like)
        grad = _piece(table[1, k], low, high, like)
        mean = _piece(table[2, k], low, high, like)
        square = _piece(table[3, k], low, high, like)
        if c[10] != 0:
            greatest = _piece(table[4, k], low, high, like)
            _adam_of_one(param, grad, mean, square, greatest, c, single, True)
        else:
            _adam_of_one(param, grad, mean, square, square, c, single, False)


@inner
def _adam_of_one(
    param: Array, grad: Array, mean: Array, square: Array, greatest: Array, c: Array, single: Any,
    grows: Any,
) -> None:  # fmt: skip
    shrink, decay, weight, beta2, share = c[0], c[1], c[2], c[3], c[4]
    correction, eps, minus_size, other_weight = c[5], c[6], c[7], c[8]
    maximize, near = c[9] != 0, c[11] != 0
    decays = decay != 0
    for i in range(param.size):
        g = -grad[i] if maximize else grad[i]
        p = param[i] * shrink
        if decays:
            g = _multiply_add(p, decay, g, single)
        apart = g - mean[i]
        if near:
            m = _multiply_add(apart, weight, mean[i], single)
        else:
            m = _multiply_add(apart, other_weight, g, single)
        v = _multiply_add(g * share, g, square[i] * beta2, single)
        mean[i] = m
        square[i] = v
        if grows:
            # NaN stays, as in NumPy's maximum
            v = v if v > greatest[i] or v != v else greatest[i]  # noqa: PLR0124
            greatest[i] = v
        root = np.sqrt(v) / correction + eps
        param[i] = p + m * minus_size / root


@compiled
def _rmsprop(table: Array, sizes: Array, limits: Any, c: Array, like: Array, single: Any) -> None:
    centered, moves = c[7] != 0, c[9] != 0
    before = 0
    for k in range(sizes.size):
        low, high = max(limits[0] - before, 0), min(limits[1] - before, sizes[k])
        before += sizes[k]
        if low >= high:
            continue
        param = _piece(table[0, k], low, high, like)
        grad = _piece(table[1, k], low, high, like)
        square = _piece(table[2, k], low, high, like)
        if centered and moves:
            moving = _piece(table[3, k], low, high, like)
            mean = _piece(table[4, k], low, high, like)
            _rmsprop_of_one(param, grad, square, moving, mean, c, single, True, True)
        elif centered:
            mean = _piece(table[3, k], low, high, like)
            _rmsprop_of_one(param, grad, square, square, mean, c, single, True, False)
        elif moves:
            moving = _piece(table[3, k], low, high, like)
            _rmsprop_of_one(param, grad, square, moving, square, c, single, False, True)
        else:
            _rmsprop_of_one(param, grad, square, square, square, c, single, False, False)


@inner
def _rmsprop_of_one(
    param: Array, grad: Array, square: Array, moving: Array, mean: Array, c: Array, single: Any,
    centered: Any, moves: Any,
) -> None:  # fmt: skip
    minus_lr, alpha, eps, decay, momentum = c[0], c[1], c[2], c[3], c[4]
    weight, other_weight = c[5], c[6]
    maximize, near = c[8] != 0, c[10] != 0
    decays = decay != 0
    for i in range(param.size):
        g = -grad[i] if maximize else grad[i]
        if decays:
            g = _multiply_add(param[i], decay, g, single)
        v = _multiply_add(g * weight, g, square[i] * alpha, single)
        square[i] = v
        if centered:
            apart = g - mean[i]
            if near:
                m = _multiply_add(apart, weight, mean[i], single)
            else:
                m = _multiply_add(apart, other_weight, g, single)
            mean[i] = m
            v = _multiply_add(-m, m, v, single)
        root = np.sqrt(v) + eps
        if moves:
            moved = moving[i] * momentum + g / root
            moving[i] = moved
            param[i] = _multiply_add(moved, minus_lr, param[i], single)
        else:
            param[i] += g * minus_lr / root


_OBJECTS_READ = _objects_can_be_read()


def _sgd_numbers(c: Any, lists: Sequence[Any], kind: Any) -> list[float]:
    flags = [c.nesterov, c.maximize, len(lists) > 2]
    return [-c.lr, c.weight_decay, c.momentum, 1 - c.dampening, *flags]


def _adam_numbers(c: Any, lists: Sequence[Any], kind: Any) -> list[float]:
    weight = kind(c.mean_weight)
    flags = [c.maximize, len(lists) > 4, abs(weight) < 0.5]
    numbers = [c.shrink, c.weight_decay, weight, c.beta2, c.square_weight, c.correction, c.eps]
    return [*numbers, -c.size, weight - kind(1), *flags]


def _rmsprop_numbers(c: Any, lists: Sequence[Any], kind: Any) -> list[float]:
    weight = kind(1 - c.alpha)
    flags = [c.centered, c.maximize, c.momentum > 0, abs(weight) < 0.5]
    numbers = [-c.lr, c.alpha, c.eps, c.weight_decay, c.momentum]
    return [*numbers, weight, weight - kind(1), *flags]


KERNELS: dict[str, tuple[Any, Any]] = {
    "adam": (_adam, _adam_numbers),
    "rmsprop": (_rmsprop, _rmsprop_numbers),
    "sgd": (_sgd, _sgd_numbers),
}


def stepped(name: str, options: Any, lists: Sequence[Sequence[Array]]) -> bool:
    """Update all parameters; False if nothing is compiled for their dtype."""
    dtype = lists[0][0].dtype
    if dtype.char not in "fd":
        return False
    kernel, numbers = KERNELS[name]
    each = [param.size for param in lists[0]]
    sizes, total = np.array(each), sum(each)
    constants = np.array(numbers(options, lists, dtype.type), dtype)
    table, like, single = addresses(lists), np.empty(0, dtype), dtype.char == "f"

    def part(first: int, last: int) -> None:
        kernel(table, sizes, (first, last), constants, like, single)

    spread(part, total, COSTS[name] if total >= LARGE and not _has_doubles(table) else 0.0)
    return True


def _has_doubles(table: Array) -> bool:
    """Whether a parameter occurs several times, so that it is updated several times in sequence."""
    return len(set(table[0].tolist())) < table.shape[1]


def warm() -> None:
    """Compile everything here."""
    from gradscope.runtime.core.kernels.arrays import stepping

    for dtype in (np.float32, np.float64):
        arrays = [[np.ones(3, dtype)] for _ in range(5)]
        stepped("sgd", stepping.SGDOptions(0.1, 0, 0.9, 0, False, False), arrays[:3])
        adam = stepping.AdamOptions(1, 0, 0.1, 0.9, 0.1, 1, 1, 1, False)
        stepped("adam", adam, arrays)
        stepped("rmsprop", stepping.RMSpropOptions(0.1, 0.9, 1, 0, 0.9, True, False), arrays)
