"""What PyTorch says of arrays whose dtype does not do; `raise` it."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.dtypes.names import c_type, scalar_name


def unknown_dtype(kernel: str, array: np.ndarray[Any, Any]) -> NotImplementedError:
    """A kernel does not know the dtype."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(array)}'")


def other_dtype(expected: str, array: np.ndarray[Any, Any]) -> RuntimeError:
    """The dtype has to be the one of this scalar name."""
    return RuntimeError(f"expected scalar type {expected} but found {scalar_name(array)}")


def unlike_dtypes(name: str, array: np.ndarray[Any, Any], mat2: Any) -> RuntimeError:
    """What is multiplied or added has to have the dtype of the second matrix."""
    kinds = f"{scalar_name(array)} and {scalar_name(mat2)}"
    return RuntimeError(f"{name} and mat2 must have the same dtype, but got {kinds}")


def unlike_three(array: np.ndarray[Any, Any], mat: Any, vec: Any) -> RuntimeError:
    """What is added, the matrix and the vector have to have one dtype."""
    kinds = f"{scalar_name(array)}, {scalar_name(mat)}, and {scalar_name(vec)}"
    return RuntimeError(f"addmv input tensors must have the same dtype, but got {kinds}")


def overflow(array: np.ndarray[Any, Any]) -> RuntimeError:
    """No element of the array can be this number."""
    return RuntimeError(f"value cannot be converted to type {c_type(array)} without overflow")
