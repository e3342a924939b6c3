"""Convolutions without columns: prepares the arguments of register tiles (see fast_direct.py).

The plain twins use columns, in convolution.py.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.linalg.products import COST
from gradscope.runtime.core.kernels.support import Array, kernels_of
from gradscope.runtime.core.kernels.windows.convolution import FEWEST
from gradscope.runtime.core.kernels.windows.windows import Windows
from gradscope.runtime.fast.threads.spread import spread
from gradscope.runtime.fast.windows import winograd

PART: Final = 16
"""Smallest number of channels for a thread, for the gradient of weights."""

tiles: Final = kernels_of("windows.fast_direct")


def forward(x: Array, weight: Array, w: Windows, groups: int) -> Array:
    """Return the convolution of the images with the weight."""
    if winograd.wins(x.shape, len(weight), w, groups, x.dtype):
        found = winograd.forward(x, weight, w)
        if found is not None:
            return found
    made = np.empty((len(x), len(weight), *w.out), x.dtype)
    planes, taps = _seen_forward(w)
    of_in, of_out, step = weight.shape[1], len(weight) // groups, w.stride[2]
    high, wide = w.out[1:]
    flat = (x.reshape(-1), np.ascontiguousarray(weight).reshape(-1), made.reshape(-1))
    for nr in range(groups):
        source = (x.shape[1], nr * of_in, of_in, *w.size[1:], step)
        target = (len(weight), nr * of_out, of_out, high, wide, 1, 0, 0, high, wide)
        weights = (nr * of_out * of_in * w.taps, of_in * w.taps, w.taps)
        _convolve(flat, source, target, weights, planes, taps, len(x))
    return made


def to_input(grad: Array, weight: Array, made: Array, w: Windows, groups: int) -> bool:
    """Write the gradient of the images, separately for pixels that are seen by the same taps.

    Beyond the last windows zeros are assumed. With a weight that is not finite they would produce
    NaN that the definition does not contain: such results are refused, if the first pixel shows it.
    """
    of_in, of_out = weight.shape[1], len(weight) // groups
    few = winograd.wins(grad.shape, of_in, w, groups, grad.dtype)
    if few and winograd.to_input(grad, weight, made, w):
        return True
    flat = (
        np.ascontiguousarray(grad).reshape(-1),
        np.ascontiguousarray(weight).reshape(-1),
        made.reshape(-1),
    )
    made[...] = 0  # also where no window is
    for top, left, high, wide, planes, taps in _seen_backward(w):
        for nr in range(groups):
            source = (len(weight), nr * of_out, of_out, *w.out[1:], 1)
            whole = (of_in * groups, nr * of_in, of_in, *w.size[1:], w.stride[2])
            target = (*whole, top, left, high, wide)
            weights = (nr * of_out * of_in * w.taps, w.taps, of_in * w.taps)
            _convolve(flat, source, target, weights, planes, taps, len(grad))
        if not np.isfinite(made[0, :, 0, top, left]).all():
            return False
    return True


def to_weight(grad: Array, x: Array, made: Array, w: Windows, groups: int) -> None:
    """Write the gradient of the weight."""
    few = winograd.wins(x.shape, len(made), w, groups, x.dtype)
    if few and winograd.to_weight(grad, x, made, w):
        return
    of_in, of_out = x.shape[1] // groups, grad.shape[1] // groups
    flat = (np.ascontiguousarray(grad).reshape(-1), x.reshape(-1), made.reshape(-1))
    kernel, target = tiles().convolve_to_weight, (grad.shape[1], *w.out[1:])
    rest = (w.kernel[1:], w.stride[2], w.padding[1:], w.dilation[1:])
    cost = len(x) * w.count * w.taps * COST
    for nr in range(groups):
        source = (len(x), x.shape[1], nr * of_in, of_in, *w.size[1:])
        args, rows = (*flat, source, target, *rest), (nr * of_out, (nr + 1) * of_out)
        if of_in >= 2 * PART:
            spread(partial(_some, kernel, (*args, rows)), of_in, cost * of_out, PART)
        else:
            some = partial(_some_rows, kernel, args, rows[0], (0, of_in))
            spread(some, of_out, cost * of_in, FEWEST)


def _some(kernel: Any, args: Any, first: int, last: int) -> None:
    kernel(*args, (first, last))


def _some_rows(kernel: Any, args: Any, begin: int, some: Any, first: int, last: int) -> None:
    kernel(*args, (begin + first, begin + last), some)


def _convolve(
    flat: Any, source: Any, target: Any, weights: Any, planes: Array, taps: Array, images: int
) -> None:
    high, wide = target[-2:]
    cost = wide * source[2] * target[2] * len(taps) * COST
    some = partial(_some, tiles().convolve, (*flat, source, target, weights, planes, taps))
    spread(some, images * high, cost, high if images > 1 else 1)


@lru_cache(1024)
def _seen_forward(w: Windows) -> tuple[Array, Array]:
    """For each tap the plane it sees and its first element; and the taps."""
    step = w.stride[2]
    planes: dict[tuple[int, int], int] = {}
    taps = []
    for nr, (_, down, right) in enumerate(np.ndindex(w.kernel)):
        shift, phase = divmod(down * w.dilation[1], step)
        place = (phase - w.padding[1], right * w.dilation[2] - w.padding[2])
        taps.append((planes.setdefault(place, len(planes)), shift, nr))
    return np.array(list(planes), np.intp), np.array(taps, np.intp)


@lru_cache(1024)
def _seen_backward(w: Windows) -> tuple[tuple[int, int, int, int, Array, Array], ...]:
    """For each kind of pixels that are seen by the same taps: their positions, planes and taps.

    First the row and column of the first one, then the number of rows and columns.
    """
    step = w.stride[2]
    kinds = []
    for phases in np.ndindex(step, step):
        seen = [
            (nr, at[1:])
            for nr, at in enumerate(np.ndindex(w.kernel))
            if all(at[k] * w.dilation[k] % step == phases[k - 1] for k in (1, 2))
        ]
        # The pixel step * j + phase - padding is seen by the window j - shift of the tap.
        begins = [-(-(p - phase) // step) for p, phase in zip(w.padding[1:], phases, strict=True)]
        first = [step * j + r - p for j, r, p in zip(begins, phases, w.padding[1:], strict=True)]
        counts = [-(-(n - at) // step) for n, at in zip(w.size[1:], first, strict=True)]
        if not seen or min(counts) < 1:
            continue
        furthest = max(at[0] * w.dilation[1] // step for _, at in seen)
        planes: dict[tuple[int, int], int] = {}
        taps = []
        for nr, (down, right) in seen:
            place = (begins[0] - furthest, begins[1] - right * w.dilation[2] // step)
            shift = furthest - down * w.dilation[1] // step
            taps.append((planes.setdefault(place, len(planes)), shift, nr))
        tables = (np.array(list(planes), np.intp), np.array(taps, np.intp))
        kinds.append((first[0], first[1], counts[0], counts[1], *tables))
    return tuple(kinds)
