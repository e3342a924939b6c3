"""Steps of optimizers on many arrays at once, in PyTorch's order of rounding.

Each rule is written for flat arrays. Small parameters are concatenated and updated together. Large
ones are updated in pieces, so that intermediate results stay in the cache. The compiled twins are
in fast_optim.py.

# Note [Rounded once]
PyTorch adds a product with one rounding if the processor can. For float32 a product in float64,
which is exact, has the same result. For float64 there is no wider dtype: here it is rounded twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from gradscope.runtime.core.kernels.support import LARGE, Array, kernels_of, pays_from

PIECE: Final = 1 << 14
"""Elements updated at a time."""

Lists: TypeAlias = Sequence[Sequence[Array]]
"""Parameters, gradients, and one list for each kind of state, all of one dtype."""
Rule: TypeAlias = Callable[..., None]


class SGDOptions(NamedTuple):
    """Options of a step of SGD."""

    lr: float
    weight_decay: float
    momentum: float
    dampening: float
    nesterov: bool
    maximize: bool


class AdamOptions(NamedTuple):
    """Options of a step of Adam. `size` is the rate divided by the first bias correction."""

    shrink: float  # of the parameter itself, 1 without decoupled decay
    weight_decay: float
    mean_weight: float
    beta2: float
    square_weight: float
    correction: float
    eps: float
    size: float
    maximize: bool


class RMSpropOptions(NamedTuple):
    """Options of a step of RMSprop."""

    lr: float
    alpha: float
    eps: float
    weight_decay: float
    momentum: float
    centered: bool
    maximize: bool


PART = 1 << 14
"""Number of elements that are widened at a time."""


def multiply_add(x: Array, y: Any, z: Array, out: Array | None = None) -> Array:
    """Return x * y + z, rounded once for float32. See Note [Rounded once].

    It may be written to `out`, which may be z or x, if that needs no temporary memory.
    """
    if x.dtype != np.float32:
        return np.asarray(x * y + z)
    arrays = [x, z] if np.ndim(y) == 0 else [x, z, y]
    alike = all(each.shape == x.shape and each.flags.c_contiguous for each in arrays)
    if x.size > PART and alike:
        return _multiply_add_by_parts(x, y, z, np.empty_like(x) if out is None else out)
    wide = np.multiply(x, y, dtype=np.float64)
    return np.asarray(wide + z).astype(np.float32)


def _multiply_add_by_parts(x: Array, y: Any, z: Array, made: Array) -> Array:
    """The same in parts, without memory for all wide numbers at once."""
    flat, first, added = made.reshape(-1), x.reshape(-1), z.reshape(-1)
    factors = y.reshape(-1) if np.ndim(y) else None
    memory = np.empty(PART, np.float64)
    for start in range(0, flat.size, PART):
        part = slice(start, start + PART)
        numbers = first[part]
        factor = y if factors is None else factors[part]
        wide = np.multiply(numbers, factor, out=memory[: numbers.size], dtype=np.float64)
        flat[part] = np.add(wide, added[part], out=wide)
    return made


def between(start: Array, end: Array, weight: float) -> Array:
    """Return start + weight * (end - start), counted from the nearer end."""
    w = start.dtype.type(weight)
    if abs(w) < 0.5:
        return multiply_add(end - start, w, start)
    return multiply_add(end - start, w - start.dtype.type(1), end)


def sgd_rule(c: SGDOptions, param: Array, grad: Array, moving: Array | None = None) -> None:
    one = param.dtype.type
    if c.maximize:
        grad = -grad
    if c.weight_decay != 0:
        grad = multiply_add(param, one(c.weight_decay), grad)
    if moving is not None:
        np.multiply(moving, one(c.momentum), moving)
        moving[:] = multiply_add(grad, one(1 - c.dampening), moving)
        grad = multiply_add(moving, one(c.momentum), grad) if c.nesterov else moving
    param[:] = multiply_add(grad, one(-c.lr), param)


def adam_rule(
    c: AdamOptions,
    param: Array,
    grad: Array,
    mean: Array,
    square: Array,
    greatest: Array | None = None,
) -> None:
    one = param.dtype.type
    if c.maximize:
        grad = -grad
    if c.shrink != 1:
        np.multiply(param, one(c.shrink), param)
    if c.weight_decay != 0:
        grad = multiply_add(param, one(c.weight_decay), grad)
    mean[:] = between(mean, grad, c.mean_weight)
    np.multiply(square, one(c.beta2), square)
    square[:] = multiply_add(grad * one(c.square_weight), grad, square)
    if greatest is not None:
        square = np.maximum(greatest, square, out=greatest)
    root = np.sqrt(square)
    root /= one(c.correction)
    root += one(c.eps)
    move = mean * one(-c.size)
    move /= root
    param += move


def rmsprop_rule(
    c: RMSpropOptions, param: Array, grad: Array, square: Array, *others: Array
) -> None:
    """RMSprop's rule. `others`: the moving sum, with momentum, and mean gradients, if centered."""
    one = param.dtype.type
    if c.maximize:
        grad = -grad
    if c.weight_decay != 0:
        grad = multiply_add(param, one(c.weight_decay), grad)
    np.multiply(square, one(c.alpha), square)
    square[:] = multiply_add(grad * one(1 - c.alpha), grad, square)
    if c.centered:
        mean = others[-1]
        mean[:] = between(mean, grad, 1 - c.alpha)
        root = np.sqrt(multiply_add(-mean, mean, square))
    else:
        root = np.sqrt(square)
    root += one(c.eps)
    if c.momentum > 0:
        moving = others[0]
        np.multiply(moving, one(c.momentum), moving)
        moving += grad / root
        param[:] = multiply_add(moving, one(-c.lr), param)
    else:
        param += grad * one(-c.lr) / root


def stepped(rule: Rule, options: Any, lists: Lists) -> None:
    """Update all parameters by a rule. All of `lists` except gradients may be written."""
    for places in _pieces([param.size for param in lists[0]]):
        if len(places) > 1:
            _together(rule, options, [[arrays[i] for i in places] for arrays in lists])
            continue
        flat = [arrays[places[0]].reshape(-1) for arrays in lists]
        for start in range(0, flat[0].size, PIECE):
            rule(options, *(array[start : start + PIECE] for array in flat))


def _pieces(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Positions of parameters that are updated together: about PIECE elements, or one large one."""
    places: list[int] = []
    total = 0
    for place, size in enumerate(sizes):
        if places and total + size > PIECE:
            yield places
            places, total = [], 0
        places.append(place)
        total += size
    if places:
        yield places


def _together(rule: Rule, options: Any, lists: Lists) -> None:
    """Update small parameters, concatenated."""
    flat = [np.concatenate([array.reshape(-1) for array in arrays]) for arrays in lists]
    rule(options, *flat)
    for nr, (arrays, row) in enumerate(zip(lists, flat, strict=True)):
        if nr == 1:
            continue  # gradients are only read
        start = 0
        for array in arrays:
            end = start + array.size
            array.reshape(-1)[:] = row[start:end]
            start = end


def sgd(options: SGDOptions, lists: Lists) -> None:
    """Update by SGD: parameters, gradients, and with momentum its moving sums."""
    _run("sgd", sgd_rule, options, lists)


def adam(options: AdamOptions, lists: Lists) -> None:
    """Update by Adam: parameters, gradients, means, squares, and the largest squares so far."""
    _run("adam", adam_rule, options, lists)


def rmsprop(options: RMSpropOptions, lists: Lists) -> None:
    """Update by RMSprop: parameters, gradients, squares, then as in rmsprop_rule."""
    _run("rmsprop", rmsprop_rule, options, lists)


# Note [When compiling pays] Numba's import takes half a second. It pays off for a run whose steps
# have taken that long without it, and for one with many elements at once, which will use Numba
# elsewhere too.
WORTH_COMPILING: Final = pays_from(500_000_000)
PER_ARRAY: Final = 700
PER_ELEMENT: Final = 10
"""Nanoseconds of Numba's import and of a plain step, per element."""


class _Spent:
    """Time of plain steps so far in nanoseconds, by number of elements."""

    time = 0
    compiled: Any = None


def _run(name: str, rule: Rule, options: Any, lists: Lists) -> None:
    fast = _Spent.compiled or _loaded(lists)
    if fast is None or not fast.stepped(name, options, lists):
        stepped(rule, options, lists)


def _loaded(lists: Lists) -> Any:
    """The compiled twins, if this run is long enough for them."""
    elements = sum(param.size for param in lists[0])
    _Spent.time += len(lists) * len(lists[0]) * PER_ARRAY + elements * PER_ELEMENT
    if elements < LARGE and _Spent.time < WORTH_COMPILING:
        return None
    _Spent.compiled = _fast_optim()
    return _Spent.compiled


_fast_optim: Final = kernels_of("arrays.fast_optim")
