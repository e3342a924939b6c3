"""The register tile against its plain twin, in the registers of this processor and of others."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Any

import numpy as np
import pytest


def plain_products(a: Any, b: Any, c: Any, rows: int, count: int) -> None:
    """What a tile does: `a`, `b` and `c` are (array, place, distance of rows or table of steps)."""
    (a, a_at, a_row, a_steps), (b, b_at, b_steps), (c, c_at, c_row) = a, b, c
    for row in range(rows):
        for nr, begin in enumerate(b_at):
            to = c_at + row * c_row + nr * count
            total = np.zeros(count, np.float64)
            for one, other in zip(a_steps, b_steps, strict=True):
                at = begin + other
                total += np.float64(a[a_at + row * a_row + one]) * b[at : at + count]
            c[to : to + count] += total.astype(c.dtype)


def differences() -> list[str]:
    """What tiles of all widths and both dtypes make otherwise than their twin.

    Steps that are told as one number, and vectors side by side, make the bits that tables make.
    """
    from gradscope.runtime.fast.compiling.compiled import inner
    from gradscope.runtime.fast.tiles.tile import BYTES, ROWS, VECTORS, add_products

    @inner
    def multiply(a: Any, at: Any, seen: Any, b: Any, begins: Any, to: Any, c: Any, of: Any) -> None:
        left, right, into = (a, at[0], at[1], seen), (b, begins, to), (c, of[1], of[2])
        add_products(left, right, (0, of[0]), into, of[3])

    rng = np.random.default_rng(0)
    found = []
    for dtype, tolerance in ((np.float32, 1e-5), (np.float64, 1e-13)):
        lanes = BYTES // np.dtype(dtype).itemsize
        a, b, c = (rng.normal(size=4096).astype(dtype) for _ in range(3))
        a[5], b[9], b[30] = np.nan, np.inf, -np.inf
        for vectors in range(1, VECTORS + 1):
            for steps in (0, 1, 37):
                a_steps, b_steps = (rng.integers(0, 900, steps) for _ in range(2))
                begins, row = (3, 1, 500), VECTORS * lanes + 5
                made, known = c.copy(), c.copy()
                of = (steps, 7, row, vectors)
                multiply(a, (2, 300), a_steps, b, begins, b_steps, made, of)
                with np.errstate(all="ignore"):
                    first, second = (a, 2, 300, a_steps), (b, begins[:vectors], b_steps)
                    plain_products(first, second, (known, 7, row), ROWS, lanes)
                if not np.allclose(made, known, tolerance, tolerance * 40, equal_nan=True):
                    found.append(f"{dtype.__name__}, {vectors} vectors, {steps} steps")
                beside, by_table = c.copy(), c.copy()
                multiply(a, (2, 300), 4, b, 3, row, beside, of)
                begins = (3, 3 + lanes, 3 + 2 * lanes)
                a_steps, b_steps = np.arange(steps) * 4, np.arange(steps) * row
                multiply(a, (2, 300), a_steps, b, begins, b_steps, by_table, of)
                if beside.tobytes() != by_table.tobytes():
                    found.append(f"{dtype.__name__}, {vectors} vectors, {steps} even steps")
    return found


def test_a_tile_is_the_sum_of_its_products() -> None:
    assert differences() == []


ASKED = """
from gradscope.runtime.fast.tiles.tile import BYTES, ROWS
from tests.runtime.fast.tiles.test_tile import differences
print(BYTES, ROWS, differences())
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs an x86 processor")
@pytest.mark.parametrize(
    ("name", "features", "size"),
    [
        ("haswell", "+avx,+avx2,+fma", "32 4"),
        pytest.param("nehalem", "", "16 4", marks=pytest.mark.search),
    ],
)
def test_other_processors_have_tiles_of_other_sizes(name: str, features: str, size: str) -> None:
    told = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    done = subprocess.run(
        [sys.executable, "-c", ASKED],
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == (f"{size} []\n", "")


@pytest.mark.parametrize(
    ("triple", "features", "expected"),
    [
        ("x86_64-unknown-linux-gnu", "+avx2,+avx512f,+fma", (512, 32)),
        ("x86_64-unknown-linux-gnu", "+avx2,-avx512f,+fma", (256, 16)),
        ("x86_64-unknown-linux-gnu", "+sse2,-avx2", (128, 16)),
        ("aarch64-unknown-linux-gnu", "+neon", (128, 32)),
        ("arm64-apple-darwin22.4.0", "", (128, 32)),
    ],
)
def test_registers_are_those_of_the_processor(
    triple: str, features: str, expected: tuple[int, int]
) -> None:
    from gradscope.runtime.fast.tiles.tile import registers

    assert registers(triple, features) == expected
