"""NumPy's loops, called without NumPy around them, make the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradscope.runtime.fast.compiling.numpy_loops import (
    SCRATCH,
    LoopCall,
    loop_of,
    player,
)

Array = Any
ROOM = np.empty(SCRATCH, np.uint8)
SIZES = (1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100)
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -3.5, 1e30, 0.25)


def over(ufunc: np.ufunc, kinds: str, *arrays: Array) -> None:
    """Let a loop of a function run over all elements; the last array is what it writes."""
    loop = loop_of(ufunc, kinds)
    assert loop is not None
    places = tuple([(nr, 0) for nr in range(1, len(arrays) + 1)])
    steps = tuple([array.itemsize if array.ndim else 0 for array in arrays])
    player([LoopCall(loop, places, (arrays[-1].size,), steps)])(ROOM, *arrays)


def test_loops_over_elements_make_the_bits_that_numpy_makes() -> None:
    wrong = []
    two = (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.power, np.greater)
    one = (np.negative, np.tanh, np.exp, np.log, np.sqrt, np.sin, np.reciprocal, np.isfinite)
    with np.errstate(all="ignore"):
        for kind in (np.float32, np.float64):
            for size in SIZES:
                x, y = (
                    np.resize(np.array(SPECIAL, kind), size),
                    np.linspace(-2, 2, size, dtype=kind),
                )
                for ufunc in (*two, *one):
                    given = (x, y)[: ufunc.nin]
                    for operands in (given, given[::-1], (*given[:-1], np.array(0.5, kind))):
                        wanted = ufunc(*operands, out=np.empty(size, ufunc(*given).dtype))
                        made = np.empty_like(wanted)
                        chars = "".join(each.dtype.char for each in operands)
                        over(ufunc, f"{chars}->{made.dtype.char}", *operands, made)
                        if made.tobytes() != wanted.tobytes():
                            wrong.append((ufunc.__name__, kind.__name__, size))
    assert wrong == []


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_products_make_the_bits_that_numpy_makes(kind: Any) -> None:
    draw, wrong = np.random.default_rng(0), []
    loop = loop_of(np.matmul, f"{np.dtype(kind).char * 2}->{np.dtype(kind).char}")
    assert loop is not None
    for rows, count, columns in ((2, 2, 2), (3, 5, 7), (8, 8, 8), (16, 33, 9), (40, 17, 31)):
        for turned in ("", "left", "right"):
            a = draw.standard_normal((rows, count)).astype(kind)
            b = draw.standard_normal((count, columns)).astype(kind)
            a[0, 0], b[1, 1] = np.inf, np.nan
            a = a.T.copy().T if turned == "left" else a
            b = b.T.copy().T if turned == "right" else b
            made = np.empty((rows, columns), kind)
            steps = (0, 0, 0, *a.strides, *b.strides, *made.strides)
            call = LoopCall(loop, ((1, 0), (2, 0), (3, 0)), (1, rows, count, columns), steps)
            player([call])(ROOM, a, b, made)
            if made.tobytes() != a.dot(b).tobytes():
                wrong.append((rows, count, columns, turned))
    assert wrong == []


def test_calls_come_one_after_the_other_and_what_they_read_may_lie_anywhere() -> None:
    loops = [loop_of(np.add, "ff->f"), loop_of(np.multiply, "ff->f")]
    first, second = [loop for loop in loops if loop is not None]
    room = np.empty(SCRATCH + 4 * 6, np.uint8)
    x, made = np.arange(8, dtype=np.float32), np.empty(3, np.float32)
    calls = [
        LoopCall(first, ((1, 8), (1, 0), (0, SCRATCH)), (3,), (4, 4, 4)),
        LoopCall(second, ((0, SCRATCH), (1, 4), (2, 0)), (3,), (4, 8, 4)),
    ]

    player(calls)(room, x, made)

    assert made.tolist() == [2 * 1, 4 * 3, 6 * 5]


def test_what_has_no_such_loop_is_said() -> None:
    assert loop_of(np.add, "fd->f") is None
    assert loop_of(np.bitwise_and, "ff->f") is None
