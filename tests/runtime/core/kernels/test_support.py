"""Numba stays away until an array is large enough to need it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import numpy as np
from gradscope.runtime.core.tensors import printing
from gradscope.runtime.core.state.generator import Generator
from gradscope.runtime.core.kernels.arrays import elementwise as plain, scatter
from gradscope.runtime.core.kernels.special.special import erf
x = Generator().normal((64, 64), np.float32)
plain.gelu(plain.softmax(x, 1))
scatter.index_add(x, 0, np.array([1, 1]), x[:2].copy())
print("numba" in sys.modules)
erf(np.zeros(1 << 16))
print("numba" in sys.modules)
"""


def test_small_arrays_never_import_numba() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]
