"""`out=`: the result of a call in a tensor that was there before."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.autograd.forward_grad import fw_grad
from gradscope.runtime.errors.dual_tensors import out_with_tangent
from gradscope.runtime.errors.leaves import out_with_grad
from gradscope.runtime.in_place import count_write


def written(name: str, made: Any, out: Any) -> Any:
    """Put the result of a function into `out`, which takes its shape if it has another."""
    if out is None:
        return made
    if made.requires_grad or out.requires_grad:
        raise out_with_grad(name, out)
    if fw_grad(made) is not None or fw_grad(out) is not None:
        raise out_with_tangent(name, out)
    if out._array.shape == made._array.shape:
        np.copyto(out._array, made._array, casting="unsafe")
    else:
        out._array = made._array.astype(out._array.dtype)
        out._storage = None
    count_write(out, name)
    return out
