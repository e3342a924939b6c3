"""Compiled functions do what their source says."""

from __future__ import annotations

import ctypes

from hypothesis import given, strategies as st

from gradscope.machine_code.build import MachineModule
from gradscope.machine_code.language import Compiled, External, invoke

labs = External(ctypes.CDLL(None), "labs", 1, last=True)


def sums(n: int, step: int) -> int:
    """What the small language has: loops, conditions, arithmetic, calls."""
    total, i = 0, 0
    while i < n and total < 1000000:
        if i & 1 == 1 or not i > 4:
            total += twice(i) * step
        else:
            total -= i ^ step if step > 0 else -step
        i += 1
    return total + (n >> 2) + (step <= n)


def twice(x: int) -> int:
    return 2 * x


def handed_on(x: int) -> int:
    """What it calls last may throw exceptions of C++: it is left before."""
    return labs(2 * x)  # type: ignore[no-any-return]


def hands_over(address: int, first: int, second: int) -> int:
    """What is at an address is called."""
    invoke(address, first, 2 * second)
    return first + second


def test_what_is_at_an_address_is_called_with_words() -> None:
    heard: list[tuple[int, int]] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
    listener = kind(lambda *words: heard.append(words))
    address = ctypes.cast(listener, ctypes.c_void_p).value

    assert COMPILED_HANDS_OVER(address, -3, 1 << 40) == (1 << 40) - 3
    assert heard == [(-3, 1 << 41)]


def test_what_is_called_last_is_jumped_to() -> None:
    text = MachineModule([handed_on]).text()

    assert text.count("musttail call i64") == 1
    assert COMPILED_HANDED_ON(-4) == 8


@given(st.integers(0, 50), st.integers(-1000, 1000))
def test_the_language_means_what_python_means(n: int, step: int) -> None:
    assert COMPILED_SUMS(n, step) == sums(n, step)


LANGUAGE = Compiled([sums, handed_on, hands_over])
COMPILED_HANDED_ON = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(LANGUAGE.address(handed_on))
COMPILED_SUMS = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(
    LANGUAGE.address(sums)
)
COMPILED_HANDS_OVER = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(
    LANGUAGE.address(hands_over)
)
