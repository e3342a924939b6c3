"""Chains of arithmetic on arrays of one shape as one loop, written and compiled when asked for.

Only what NumPy rounds as a single instruction does is taken (sums, products, quotients, signs,
roots), and compiled without leave to round otherwise: a fused chain gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.compiling.compile_notices import own_work


@cache
def fused_kernel(lines: tuple[str, ...], given: int, made: tuple[str, ...], kind: str) -> Any:
    """A function of `given` arrays and then one to write each of `made` into.

    `lines` are assignments to names, over `x0`, `x1`, … for the elements of the given arrays; `f`
    makes numbers of the arrays' kind.
    """
    with own_work("compiles a fused chain"):
        from numba import njit

        text = _text(lines, given, made)
        scope: dict[str, Any] = {"f": np.dtype(kind).type}
        exec(compile(text, "<gradscope: a fused chain>", "exec"), scope)  # noqa: S102  (our text)
        return njit(error_model="numpy", nogil=True)(scope["fused"])


def _text(lines: Sequence[str], given: int, made: Sequence[str]) -> str:
    arrays = [f"a{nr}" for nr in range(given)] + [f"o{nr}" for nr in range(len(made))]
    head = [f"def fused({', '.join(arrays)}):"]
    head += [f"    {name} = {name}.reshape({name}.size)" for name in arrays]
    head += ["    for i in range(o0.size):"]
    body = [f"        x{nr} = a{nr}[i]" for nr in range(given)]
    body += [f"        {line}" for line in lines]
    body += [f"        o{nr}[i] = {name}" for nr, name in enumerate(made)]
    return "\n".join([*head, *body]) + "\n"
